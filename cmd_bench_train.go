package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"harness/amx"
	"harness/experiments"
	"harness/runs"
)

// benchTrain takes the time of the spec's training step, operation by operation,
// stores it and prints it.
func (c *cli) benchTrain(cmd *cobra.Command, path string, overrides []string, f benchFlags) (err error) {
	if f.kernels != "" {
		overrides = append(overrides, "train.kernels="+f.kernels)
	}
	if err := checkSpecFile(path); err != nil {
		return err
	}
	spec, err := experiments.Load(path, overrides)
	if err != nil {
		return &codedError{code: exitUsage, err: err}
	}
	if err := checkKernels(spec.Train.Kernels); err != nil {
		return err
	}
	steps := 15
	if f.quick {
		steps = 5
	}
	progress := newProgress(cmd.ErrOrStderr())
	b, err := experiments.BenchTrain(cmd.Context(), spec, experiments.Options{Store: c.store, Command: c.args, Observe: progress.observe}, steps)
	progress.close()
	if err != nil {
		return err
	}
	store, err := runs.Open(c.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return finishTrain(cmd, f, b, trainRecord(b, runs.Provenance(c.args)), store)
}

// finishTrain stores what was measured, writes its page and prints it.
func finishTrain(cmd *cobra.Command, f benchFlags, b *experiments.TrainBench, bench runs.Bench, store *runs.Store) (err error) {
	// What is left is short, and a signal now is no reason to lose it.
	ctx := context.WithoutCancel(cmd.Context())
	var unsaved error // the figures are shown all the same
	page := ""
	if bench.ID, unsaved = store.SaveBench(ctx, bench); unsaved == nil && !f.noReport {
		if page, err = writeBenchPage(ctx, store, bench.ID); err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), visible("harness: warning: no page was written: "+err.Error()))
			page = ""
		}
	}
	w := cmd.OutOrStdout()
	if f.json {
		return errors.Join(unsaved, writeJSON(w, newTrainBenchJSON(b, bench, page)))
	}
	writeTrainBench(w, b, resultWidth(w))
	facts := [][2]string{{"bench", cmp.Or(bench.ID, notStored)}}
	if page != "" {
		facts = append(facts, [2]string{"report", page}, [2]string{"", fileURL(page)})
	}
	fmt.Fprintln(w)
	writeFacts(w, facts)
	return unsaved
}

// tokenTime is a time per token, in microseconds.
func tokenTime(d time.Duration, b *experiments.TrainBench) float64 {
	return d.Seconds() * 1e6 / float64(b.StepTokens)
}

// whole is the nearest whole number.
func whole(v float64) int64 { return int64(math.Round(v)) }

func writeTrainBench(w io.Writer, b *experiments.TrainBench, width int) {
	fmt.Fprintf(w, "a training step of %s, kernels %s (%s)\n\n", visible(b.Spec), b.Kernels, b.Arithmetic)
	var rows []table.Row
	for _, o := range b.Ops {
		row := table.Row{visible(o.Op), fmt.Sprintf("%.1f%%", 100*o.Time.Seconds()/b.Profiled.Seconds()), "", fmt.Sprintf("%.2f", tokenTime(o.Time, b)), "", "", "", ""}
		if o.Bound != "" {
			limit := "compute"
			if o.Bound == runs.BoundBandwidth {
				limit = o.Level
			}
			seconds := o.Time.Seconds()
			row[2], row[4], row[5] = strconv.FormatInt(o.Calls, 10), rateText(o.FLOP/seconds/1e9), rateText(o.Bytes/seconds/1e9)
			row[6], row[7] = limit, fmt.Sprintf("%.0f%%", 100*o.OfBound())
		}
		rows = append(rows, row)
	}
	writeTable(w, width, table.Row{"operation", "share", "calls", "us/token", "GFLOP/s", "GB/s", "bound", "of it"}, rows,
		"share", "calls", "us/token", "GFLOP/s", "GB/s", "of it")
	fmt.Fprintln(w, wrapped(fmt.Sprintf("Processor time of the fastest of %d profiled steps, operation by operation. The bound is the larger of the "+
		"operations at the peak of their arithmetic and the bytes that must move at the bandwidth of the level that holds them.", len(b.Steps)), width, ""))
	fmt.Fprintln(w)
	median, low, high := b.TokensPerSecond()
	fp32 := b.Peak(string(amx.FP32))
	writeLabelled(w, width, [][2]string{
		{"speed", fmt.Sprintf("%s tokens/s, median of %d steps (%s to %s), %s tokens a step", count(whole(median)), len(b.Steps), count(whole(low)), count(whole(high)), count(int64(b.StepTokens)))},
		{"profiled", fmt.Sprintf("%.1f us a token, %s tokens/s if nothing else ran here", tokenTime(b.Profiled, b), count(whole(1e6/tokenTime(b.Profiled, b))))},
		{"work", fmt.Sprintf("%.2f MFLOP per training token: %s", b.TokenFLOP/1e6, b.Formula)},
		{"by the spec", fmt.Sprintf("%.2f MFLOP, were each draw a column of its own and each position a target", b.SpecFLOP/1e6)},
		{"rate", fmt.Sprintf("%s GFLOP/s of the model, %.0f%% of the fp32 peak of %s", rateText(b.Rate()/1e9), 100*b.Rate()/fp32, rateText(fp32/1e9))},
	})
}

// trainRecord is the bench as the store keeps it.
func trainRecord(b *experiments.TrainBench, provenance map[string]string) runs.Bench {
	figure := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	describeMachine(provenance, b.Core, b.Choice)
	provenance["spec"], provenance["model"], provenance["kernels"] = b.Spec, b.Model, b.Kernels
	median, low, high := b.TokensPerSecond()
	tokens, n := float64(b.StepTokens), len(b.Steps)
	fp32 := b.Peak(string(amx.FP32))
	record := runs.Bench{Kind: runs.BenchTrain, Started: b.Started, Provenance: provenance}
	add := func(m runs.Measurement) {
		m.Group = runs.GroupTrain
		record.Results = append(record.Results, m)
	}
	add(runs.Measurement{Name: runs.TrainThroughput, Unit: "tokens/s", Value: median, Low: low, High: high, N: n})
	add(runs.Measurement{Name: runs.TrainStep, Unit: "ms", Value: 1e3 * tokens / median, Low: 1e3 * tokens / high, High: 1e3 * tokens / low, N: n,
		Detail: map[string]string{"tokens": strconv.Itoa(b.StepTokens)}})
	add(runs.Measurement{Name: runs.TrainFlops, Unit: "MFLOP", Value: b.TokenFLOP / 1e6, Detail: map[string]string{"formula": b.Formula, "by_spec": figure(b.SpecFLOP / 1e6)}})
	add(runs.Measurement{Name: runs.TrainRate, Unit: "GFLOP/s", Value: b.Rate() / 1e9, Low: low * b.TokenFLOP / 1e9, High: high * b.TokenFLOP / 1e9, N: n,
		Detail: map[string]string{"of_peak": figure(b.Rate() / fp32), "peak": string(amx.FP32)}})
	for _, o := range b.Ops {
		d := map[string]string{"op": o.Op, "share": figure(o.Time.Seconds() / b.Profiled.Seconds())}
		if o.Bound != "" {
			d["calls"], d["gflop"], d["gbyte"] = strconv.FormatInt(o.Calls, 10), figure(o.FLOP/1e9), figure(o.Bytes/1e9)
			d["bound"], d["of_bound"], d["level"] = o.Bound, figure(o.OfBound()), o.Level
		}
		add(runs.Measurement{Name: o.Op, Unit: "ms", Value: 1e3 * o.Time.Seconds(), N: n, Low: 1e3 * o.Time.Seconds(), High: 1e3 * o.Slowest.Seconds(), Detail: d})
	}
	for _, m := range append(append([]amx.Measurement(nil), b.Peaks...), b.Bandwidths...) {
		record.Results = append(record.Results, measurements([]amx.Measurement{m})...)
	}
	return record
}

type trainBenchJSON struct {
	ID         string           `json:"bench"`
	Kind       string           `json:"kind"`
	Started    time.Time        `json:"started"`
	Spec       string           `json:"spec"`
	Kernels    string           `json:"kernels"`
	Arithmetic string           `json:"arithmetic"`
	StepTokens int              `json:"step_tokens"`
	Steps      int              `json:"steps"`
	Speed      float64          `json:"tokens_per_second"` // median
	Slowest    float64          `json:"tokens_per_second_low"`
	Fastest    float64          `json:"tokens_per_second_high"`
	TokenFLOP  float64          `json:"flop_per_training_token"`
	Formula    string           `json:"formula"`
	SpecFLOP   float64          `json:"flop_per_training_token_by_spec"`
	Rate       float64          `json:"gflops"`
	FP32Peak   float64          `json:"fp32_peak_gflops"`
	OfPeak     float64          `json:"of_fp32_peak"`
	Profiled   float64          `json:"profiled_us_per_token"`
	Operations []trainBenchLine `json:"operations"`
	Report     string           `json:"report,omitempty"`
	ReportURL  string           `json:"report_url,omitempty"`
}

type trainBenchLine struct {
	Op      string  `json:"op"`
	Share   float64 `json:"share"`
	Calls   int64   `json:"calls"`
	Time    float64 `json:"us_per_token"`
	GFLOP   float64 `json:"gflop"`
	GByte   float64 `json:"gbyte"`
	Bound   string  `json:"bound,omitempty"`
	Level   string  `json:"level,omitempty"`
	OfBound float64 `json:"of_bound"`
}

func newTrainBenchJSON(b *experiments.TrainBench, bench runs.Bench, page string) trainBenchJSON {
	median, low, high := b.TokensPerSecond()
	fp32 := b.Peak(string(amx.FP32))
	j := trainBenchJSON{ID: bench.ID, Kind: bench.Kind, Started: bench.Started, Spec: b.Spec, Kernels: b.Kernels, Arithmetic: string(b.Arithmetic), StepTokens: b.StepTokens, Steps: len(b.Steps),
		Speed: median, Slowest: low, Fastest: high, TokenFLOP: b.TokenFLOP, Formula: b.Formula, SpecFLOP: b.SpecFLOP, Rate: b.Rate() / 1e9, FP32Peak: fp32 / 1e9,
		OfPeak: b.Rate() / fp32, Profiled: tokenTime(b.Profiled, b), Report: page}
	if page != "" {
		j.ReportURL = fileURL(page)
	}
	for _, o := range b.Ops {
		j.Operations = append(j.Operations, trainBenchLine{Op: o.Op, Share: o.Time.Seconds() / b.Profiled.Seconds(), Calls: o.Calls, Time: tokenTime(o.Time, b),
			GFLOP: o.FLOP / 1e9, GByte: o.Bytes / 1e9, Bound: o.Bound, Level: o.Level, OfBound: o.OfBound()})
	}
	return j
}
