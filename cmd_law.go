package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"harness/experiments"
	"harness/runs"
)

// lawQuestion is what plan is asked.
type lawQuestion struct {
	tau        float64
	tokens     string
	run        string
	measureTau bool
	json       bool
}

// minTau and maxTau bound --tau to what can be printed.
const minTau, maxTau = 1e-3, 1e9

func (c *cli) planCommand() *cobra.Command {
	var q lawQuestion
	cmd := &cobra.Command{
		Use:   "plan SPEC [key.path=value ...]",
		Short: "Say how many experts the tokens of a spec are enough for",
		Long: `Apply the paper's budget law to a spec with a mixture of experts: of N tokens each of E
experts sees N*k/E, and needs tau for each of its parameters. For every phase and every
growth step it says what an expert has had by then, how many experts the law allows,
and what as many as there are would need. Nothing is trained.

More experts than the law allows are an information. They become a warning where k^2/E,
an expert parameter's tokens over a dense one's, is below 1/4, or where a run shows it:
--run reads from the tables of RUN whether a branch is dead: one that adds less than a
hundredth of the stream, or in which other experts cost less than a thousandth of a nat
over the whole interval. An interval that is too wide says nothing. Without a SPEC the
run's own is planned.

--measure-tau takes RUNs instead of a spec and says between which tau their experts
died and lived. Runs that do not tell are left out, by name.`,
		Example: `  harness plan experiments/quickstart.yaml
  harness plan my.yaml model.moe.experts=64 budget=1B --tau 200
  harness plan my.yaml --tokens 259M
  harness plan --run latest
  harness plan --measure-tau e64-seed1 e64-seed2 e16-seed1`,
		Args: arguments(0, -1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			if q.measureTau {
				return c.completeRuns(cmd, nil, toComplete)
			}
			return completeSpecs(cmd, args, toComplete)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(q.tau >= minTau && q.tau <= maxTau) {
				return usageError("--tau %g: want tokens per parameter, %g to %g", q.tau, minTau, maxTau)
			}
			switch {
			case q.measureTau && (q.run != "" || q.tokens != "" || cmd.Flags().Changed("tau")):
				return usageError("--measure-tau takes runs alone, neither --tau nor --tokens nor --run")
			case q.measureTau && len(args) == 0:
				return usageError("no run given; usage: harness plan --measure-tau RUN ...")
			case q.measureTau:
				return c.measureTau(cmd, q, args)
			case len(args) == 0 && q.run == "":
				return usageError("no argument given; usage: %s", cmd.UseLine())
			}
			return c.planLaw(cmd, q, args)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&q.tau, "tau", experiments.PaperTau, "tokens that an expert needs per parameter")
	f.StringVar(&q.tokens, "tokens", "", "tokens of the whole training, such as 259M, instead of the spec's budget")
	f.StringVar(&q.run, "run", "", "run whose tables say whether its experts live")
	f.BoolVar(&q.measureTau, "measure-tau", false, "measure tau from runs, named instead of a spec")
	f.BoolVar(&q.json, "json", false, "print everything as JSON")
	return cmd
}

// lawView is what plan prints of a spec.
type lawView struct {
	spec    *experiments.Spec
	law     *experiments.Law        // nil for a dense model
	run     *experiments.RunExperts // nil without --run
	another bool                    // the run trained another shape
	lines   []lawLine
}

// lawLine is a line about the law.
type lawLine struct {
	warning bool
	text    string
}

func (c *cli) planLaw(cmd *cobra.Command, q lawQuestion, args []string) (err error) {
	var spec *experiments.Spec
	if len(args) > 0 {
		if err := checkSpecFile(args[0]); err != nil {
			return err
		}
		if spec, err = experiments.Load(args[0], args[1:]); err != nil {
			return &codedError{code: exitUsage, err: err}
		}
	}
	var v lawView
	if q.run != "" {
		store, err := runs.OpenReadOnly(c.store)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		run, err := store.Find(cmd.Context(), q.run)
		if err != nil {
			return err
		}
		if v.run, err = experiments.ReadExperts(cmd.Context(), store, run, q.tau); err != nil {
			return err
		}
		if spec == nil {
			spec = v.run.Spec
		}
	}
	tokens := spec.Budget.Tokens
	switch {
	case q.tokens != "":
		if tokens, err = tokenCount(q.tokens); err != nil {
			return err
		}
	case tokens == 0 && v.run != nil && v.run.Run.SpecHash == spec.Hash():
		tokens = totalSteps(v.run.Run) * int64(spec.Train.StepTokens) // as the run's calibration found
	}
	v.spec, v.law = spec, experiments.NewLaw(spec, q.tau, tokens)
	v.judge()
	if q.json {
		return writeJSON(cmd.OutOrStdout(), v.json())
	}
	v.write(cmd.OutOrStdout(), resultWidth(cmd.OutOrStdout()))
	return nil
}

// tokenCount reads --tokens.
func tokenCount(text string) (int64, error) {
	b, err := experiments.ParseBudget(text)
	if err != nil || b.Tokens == 0 {
		return 0, usageError("--tokens %s: want a number of tokens such as 4096, 16k or 259M", text)
	}
	return b.Tokens, nil
}

func (c *cli) measureTau(cmd *cobra.Command, q lawQuestion, refs []string) (err error) {
	store, err := runs.OpenReadOnly(c.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	all, err := store.Runs(cmd.Context())
	if err != nil {
		return err
	}
	named := map[string]string{}
	var list []*experiments.RunExperts
	for _, ref := range refs {
		run, err := store.Find(cmd.Context(), ref)
		if err != nil {
			return err
		}
		if before, twice := named[run.ID]; twice {
			return usageError("%s and %s are one run, %s, which counts once", before, ref, run.ID)
		}
		named[run.ID] = ref
		r, err := experiments.ReadExperts(cmd.Context(), store, run, experiments.PaperTau)
		if err != nil {
			return err
		}
		list = append(list, r)
	}
	v := tauView{experiments.MeasureTau(list), all}
	if q.json {
		return writeJSON(cmd.OutOrStdout(), v.json())
	}
	v.write(cmd.OutOrStdout(), resultWidth(cmd.OutOrStdout()))
	return nil
}

// write prints the plan as tables and lines.
func (v lawView) write(w io.Writer, width int) {
	if v.law == nil {
		fmt.Fprintln(w, wrapped(v.spec.Name+" is a dense model: it has no experts, and there is nothing to plan.", width, ""))
		return
	}
	writeLabelled(w, width, v.facts())
	fmt.Fprintln(w)
	v.writePoints(w, width)
	if v.grown() {
		fmt.Fprintln(w, "\nsince their own growth")
		v.writeStages(w, width)
		fmt.Fprintln(w, "\ngrowth and the law")
		v.writeGrowth(w, width)
	}
	fmt.Fprintln(w, "\n"+wrapped(v.legend(), width, ""))
	if v.run != nil && len(v.run.Layers) > 0 {
		r := v.run
		title := fmt.Sprintf("run %s (%s) at step %s, %s tokens", r.Run.ID, r.Run.Name, count(r.Step), brief(float64(r.Tokens)))
		fmt.Fprintln(w, "\n"+wrapped(title, width, ""))
		writeMixtures(w, r.Layers, width)
		fmt.Fprintln(w, wrapped(mixtureLegend, width, ""))
	}
	var information, warnings []string
	for _, l := range v.lines {
		if l.warning {
			warnings = append(warnings, l.text)
		} else {
			information = append(information, l.text)
		}
	}
	if len(information) > 0 {
		fmt.Fprintln(w, "\ninformation")
		writeItems(w, width, information)
	}
	if len(warnings) == 0 {
		fmt.Fprintln(w, "\nno warnings")
		return
	}
	fmt.Fprintln(w, "\nwarnings")
	writeItems(w, width, warnings)
}
