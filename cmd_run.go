package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"harness/amx"
	"harness/experiments"
	"harness/runs"
)

// ending says how a run is reported.
type ending struct {
	json     bool
	noReport bool
}

func (e *ending) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&e.json, "json", false, "print the outcome as JSON")
	cmd.Flags().BoolVar(&e.noReport, "no-report", false, "write no HTML page at the end")
}

func (c *cli) runCommand() *cobra.Command {
	var end ending
	var dryRun bool
	var kernels string
	cmd := &cobra.Command{
		Use:   "run SPEC [key.path=value ...]",
		Short: "Train what a spec describes, from its corpus to its report",
		Long: `Train the experiment that the YAML file SPEC describes, on one core: prepare its
corpus, train to the end of its budget, validate and probe on the way, and write
an HTML page about it. Values of the spec can be overridden one by one.

While it trains, a line says how far it is: step, "train", the mean training loss in
nats since the line was last written, "val", the last exact loss on held-out text,
tokens a second, time left and tokens trained on. In a run with tasks they are "train
mix", over the phase's mixture of text and tasks, and "val text": not to be compared.

Ctrl-C writes a checkpoint and ends the run as interrupted; "harness resume" goes
on from there. A second Ctrl-C stops at once.`,
		Example: `  harness run experiments/quickstart.yaml
  harness run my.yaml budget=1M train.optimizer.lr=1e-3 corpus.sources[0].max_bytes=2MB
  harness run my.yaml --dry-run`,
		Args:              arguments(1, -1),
		ValidArgsFunction: completeSpecs,
		RunE: func(cmd *cobra.Command, args []string) error {
			overrides := args[1:]
			if kernels != "" {
				overrides = append(overrides, "train.kernels="+kernels)
			}
			if err := checkSpecFile(args[0]); err != nil {
				return err
			}
			spec, err := experiments.Load(args[0], overrides)
			if err != nil {
				return &codedError{code: exitUsage, err: err}
			}
			if err := checkKernels(spec.Train.Kernels); err != nil {
				return err
			}
			if dryRun {
				return printPlan(cmd, spec, end.json)
			}
			return c.train(cmd, end, experiments.Options{}, func(ctx context.Context, o experiments.Options) (*experiments.Outcome, error) {
				return experiments.Run(ctx, spec, o)
			})
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the resolved spec, parameters and estimated time, and stop")
	cmd.Flags().StringVar(&kernels, "kernels", "", "kernel set, instead of the spec's train.kernels")
	end.flags(cmd)
	return cmd
}

func (c *cli) resumeCommand() *cobra.Command {
	var end ending
	var o experiments.Options
	cmd := &cobra.Command{
		Use:   "resume RUN",
		Short: "Go on with an interrupted or crashed run",
		Long: `Go on with a run from its newest whole checkpoint to the end of its budget, bit for
bit as if it had never stopped. That needs the kernel set it last ran with; where this
machine lacks that, --allow-kernel-change takes the fastest here and records the change.`,
		Example:           "  harness resume latest\n  harness resume 01JD8Q4M",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.train(cmd, end, o, func(ctx context.Context, o experiments.Options) (*experiments.Outcome, error) {
				return experiments.Resume(ctx, args[0], o)
			})
		},
	}
	cmd.Flags().BoolVar(&o.AllowKernelChange, "allow-kernel-change", false, "where this machine lacks the kernel set the run last ran with, take the fastest here")
	end.flags(cmd)
	return cmd
}

// train watches a run to its end, prints how it went and writes its page.
func (c *cli) train(cmd *cobra.Command, end ending, o experiments.Options, work func(context.Context, experiments.Options) (*experiments.Outcome, error)) error {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	progress := newProgress(stderr)
	o.Store, o.Command, o.Observe = c.store, c.args, progress.observe
	stopSaying := context.AfterFunc(ctx, func() {
		progress.note("stopping: a second signal stops at once, without a checkpoint")
	})
	out, err := work(ctx, o)
	stopSaying()
	progress.close()
	if out == nil {
		return err
	}
	if !exists(out.Checkpoint) { // somebody may have removed it
		out.Checkpoint = ""
	}
	// What is left is short, and the signal that ended the training is no reason to lose it.
	s := summary{Outcome: out, program: c.program, ref: out.Run.ID}
	if cmd.Flags().Changed("store") {
		s.where = " --store " + shellQuote(c.store)
	}
	if pageErr := c.finishSummary(context.WithoutCancel(ctx), &s, !end.noReport); pageErr != nil {
		// The code tells how the run went; a page can be written at any time.
		fmt.Fprintln(stderr, visible("harness: warning: "+s.withoutPage(pageErr)))
	}
	if end.json {
		err = errors.Join(err, writeJSON(cmd.OutOrStdout(), s.json()))
	} else {
		s.write(cmd.OutOrStdout(), resultWidth(cmd.OutOrStdout()))
	}
	ended := outcomeError(s)
	if err != nil {
		return errors.Join(err, ended)
	}
	// Where both streams are on one screen, the summary has just said it.
	if coded, is := ended.(*codedError); is && !end.json && s.Tracking == nil {
		coded.said = columns(cmd.OutOrStdout()) > 0 && columns(stderr) > 0
	}
	return ended
}

// checkSpecFile refuses what would block or never end when it is read. What cannot
// be looked at is left to the error of reading it.
func checkSpecFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil || info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return usageError("%s is a directory, not a spec", path)
	}
	return usageError("%s is no regular file, as a spec must be", path)
}

// checkKernels refuses a kernel set that there is none of here, before anything
// is started with it.
func checkKernels(name string) error {
	if err := amx.Check(name); err != nil {
		return &codedError{code: exitUsage, err: err}
	}
	return nil
}

// finishSummary finds out what is left of the run in its store, and its shortest
// name there, and writes its page.
func (c *cli) finishSummary(ctx context.Context, s *summary, page bool) (err error) {
	store, err := runs.OpenReadOnly(c.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	all, err := store.Runs(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(r runs.Run) bool { return r.ID == s.Run.ID }) {
		return runs.ErrNotFound
	}
	s.kept, s.ref = true, shortID(all, s.Run.ID)
	if !page {
		return nil
	}
	path := pagePath(store, s.Run.ID)
	if err := writePage(ctx, store, s.Run.ID, path); err != nil {
		return err
	}
	s.report = path
	return nil
}

// outcomeError is the error that an ended run amounts to, nil if it finished.
func outcomeError(s summary) error {
	lost := ""
	if s.Tracking != nil {
		lost = fmt.Sprintf("not all metrics of run %s are stored: %v", s.ref, s.Tracking)
	}
	ended := func(code int, text string) error {
		if lost != "" {
			text += "; " + lost
		}
		return &codedError{code: code, err: errors.New(text)}
	}
	switch {
	case s.State == runs.Diverged:
		return ended(exitDiverged, fmt.Sprintf("run %s diverged: %s", s.ref, s.Message))
	case s.State == runs.Interrupted:
		return ended(exitInterrupted, fmt.Sprintf("run %s %s", s.ref, s.Message))
	case lost != "" && s.State == runs.Finished:
		return errors.New("training is finished, but " + lost)
	case lost != "":
		return errors.New(lost)
	}
	return nil
}
