package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"harness/amx"
	"harness/experiments"
	"harness/reports"
	"harness/runs"
)

// benchFlags are those of the bench command.
type benchFlags struct {
	quick, json, noReport bool
	kernels               string
	train                 string   // spec whose training step to take apart, instead of the machine
	set                   []string // overrides of its values
}

func (c *cli) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what one core of this machine can do",
		Long: `Measure one core, pinned to it: its frequency, the peak of each arithmetic, what it
reads a second at each level of its memory, what a call costs, and the products of
matrices of the paper's models with each kernel set, the packing of operands counted.
The figures go into the store, beside the paper's, and onto an HTML page.

It also measures anew which set "auto" takes on this machine, and says so if that
changes; where runs have every core, the choice stays. Others may share the machine,
which only ever makes a figure smaller: the best of several bursts is shown, with their
median. About half a minute with --quick, else two.

--train SPEC measures the training step of a spec instead: where its time goes, and how
far each operation is from what bounds it.`,
		Example: "  harness bench --quick\n  harness bench --kernels avx512 --json\n  harness bench --train experiments/paper/release-dense.yaml --quick",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("kernels") {
				if err := checkKernels(f.kernels); err != nil {
					return err
				}
			}
			if cmd.Flags().Changed("train") {
				return c.benchTrain(cmd, f.train, f.set, f)
			}
			if len(f.set) > 0 {
				return usageError("--set changes the spec of --train, and there is none")
			}
			return c.benchMachine(cmd, f)
		},
	}
	cmd.Flags().BoolVar(&f.quick, "quick", false, "fewer bursts, and no set that others here make useless")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the figures as JSON")
	cmd.Flags().BoolVar(&f.noReport, "no-report", false, "write no HTML page at the end")
	cmd.Flags().StringVar(&f.kernels, "kernels", "", "measure this kernel set alone")
	cmd.Flags().StringVar(&f.train, "train", "", "take the training step of this `SPEC` apart, operation by operation, instead")
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "with --train: a `key.path=value` of the spec to override; may be repeated")
	return cmd
}

// machineBench is a finished bench of the machine.
type machineBench struct {
	bench   runs.Bench
	choice  amx.Choice // that auto takes from now on
	before  amx.Choice // that it took until now, without a set if it had not been measured
	report  string     // path of the page, "" if there is none
	samples []amx.Measurement
}

// changed says that auto takes another set than before.
func (m machineBench) changed() bool {
	return m.before.Set.Name != "" && m.before.Set.Name != m.choice.Set.Name
}

func (c *cli) benchMachine(cmd *cobra.Command, f benchFlags) (err error) {
	store, err := runs.Open(c.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	progress := newProgress(cmd.ErrOrStderr())
	m, err := c.measureMachine(cmd.Context(), f, progress.observe)
	progress.close()
	if err != nil {
		return err
	}
	return m.finish(cmd, f, store)
}

// finish stores what was measured, writes its page and prints it.
func (m machineBench) finish(cmd *cobra.Command, f benchFlags, store *runs.Store) (err error) {
	// What is left is short, and a signal now is no reason to lose it.
	ctx := context.WithoutCancel(cmd.Context())
	w := cmd.OutOrStdout()
	if m.bench.ID, err = store.SaveBench(ctx, m.bench); err != nil {
		// What took minutes is shown all the same.
		if f.json {
			return errors.Join(err, writeJSON(w, m.json()))
		}
		m.write(w, reports.Comparison{}, resultWidth(w))
		return err
	}
	if !f.noReport {
		if m.report, err = writeBenchPage(ctx, store, m.bench.ID); err != nil {
			// The figures are kept: a page can be written at any time.
			fmt.Fprintln(cmd.ErrOrStderr(), visible("harness: warning: no page was written: "+err.Error()))
			m.report = ""
		}
	}
	if f.json {
		return writeJSON(w, m.json())
	}
	page, err := reports.LoadBench(ctx, store, m.bench.ID)
	if err != nil {
		return err
	}
	m.write(w, page.Paper, resultWidth(w))
	return nil
}

// measureMachine measures on a core of its own, as a run has it.
func (c *cli) measureMachine(ctx context.Context, f benchFlags, observe func(experiments.Update)) (m machineBench, err error) {
	note := func(format string, args ...any) { observe(experiments.Update{Note: fmt.Sprintf(format, args...)}) }
	core, err := amx.ClaimCore("")
	if err != nil {
		return m, fmt.Errorf("claim a core: %w", err)
	}
	defer func() { err = errors.Join(err, core.Release()) }()
	switch {
	case core.Oversubscribed:
		note("every core has a run already: figures are those of a shared one")
	case !core.Pinned:
		note("measuring unpinned: %s", core.Reason)
	default:
		note("pinned to core %d", core.ID)
	}
	started := time.Now()
	if core.Oversubscribed && f.kernels == "" {
		note("what auto takes stays as it is")
	}
	if m.choice, m.before, err = f.choose(core.Oversubscribed); err != nil {
		return m, err
	}
	sets := benchSets(f, m.choice)
	m.samples, err = amx.MeasureMachine(ctx, amx.Effort{Quick: f.quick}, core.ID, sets, func(done, total int) {
		observe(experiments.Update{Stage: "measuring", Done: int64(done), Total: int64(total)})
	})
	if err != nil {
		return m, err
	}
	m.bench = runs.Bench{Kind: runs.BenchMachine, Started: started, Provenance: runs.Provenance(c.args), Results: measurements(m.samples)}
	describeMachine(m.bench.Provenance, core.ID, m.choice)
	return m, nil
}

// choose finds the kernels that auto takes, anew on a core of our own, or the named ones.
// What later runs compute with is not to hang on how busy a shared core was.
func (f benchFlags) choose(shared bool) (now, before amx.Choice, err error) {
	switch {
	case f.kernels != "":
		now, err = amx.Choose(f.kernels)
	case shared:
		now, err = amx.Choose(amx.Auto)
	default:
		now, before = amx.Remeasure()
	}
	return now, before, err
}

// benchSets are the sets to measure, the one that auto takes first: the named one alone,
// or all that run here but the reference, which is there to be right. A quick bench leaves
// out the portable set where another computes in fp32.
func benchSets(f benchFlags, choice amx.Choice) []amx.Set {
	if f.kernels != "" {
		return []amx.Set{choice.Set}
	}
	var sets []amx.Set
	fp32 := false
	for _, s := range amx.Sets() {
		if s.Name == "reference" || f.quick && s.Name == "portable" && fp32 || !s.Available() {
			continue
		}
		fp32 = fp32 || s.Arithmetic == amx.FP32
		sets = append(sets, s)
	}
	slices.SortStableFunc(sets, func(a, b amx.Set) int {
		return flagOrder(a.Name == choice.Set.Name) - flagOrder(b.Name == choice.Set.Name)
	})
	return sets
}

// flagOrder sorts what is set first.
func flagOrder(set bool) int {
	if set {
		return 0
	}
	return 1
}

// measurements are samples as the store keeps them: the median is a detail there.
func measurements(samples []amx.Measurement) []runs.Measurement {
	results := make([]runs.Measurement, len(samples))
	for i, s := range samples {
		detail := map[string]string{"median": strconv.FormatFloat(s.Median, 'g', 4, 64)}
		for k, v := range s.Detail {
			detail[k] = v
		}
		results[i] = runs.Measurement{Group: s.Group, Name: s.Name, Value: s.Value, Unit: s.Unit, Low: s.Low, High: s.High, N: s.N, Detail: detail}
	}
	return results
}

// describeMachine adds to a bench's provenance where it was measured.
func describeMachine(p map[string]string, core int, choice amx.Choice) {
	machine := amx.DetectMachine()
	p["cpu"], p["cores"], p["cpu_flags"] = machine.CPUModel, strconv.Itoa(machine.Cores), strings.Join(machine.Flags, " ")
	if id := amx.Identify(); id.Vendor != "" {
		p["cpu_identity"] = fmt.Sprintf("%s family %d model %d stepping %d", id.Vendor, id.Family, id.Model, id.Stepping)
		p["hypervisor"] = id.Hypervisor
	}
	if core >= 0 {
		p["core"] = strconv.Itoa(core)
	}
	p["amx"] = amx.DetectTiles().Verdict()
	p["kernels"], p["kernels_choice"] = choice.Set.Name, choice.String()
	for _, c := range amx.DetectCaches(core) {
		if c.Kind != "instruction" {
			p["l"+strconv.Itoa(c.Level)] = strconv.FormatInt(c.Bytes, 10)
		}
	}
}
