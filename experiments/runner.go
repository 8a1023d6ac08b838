package experiments

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"harness/amx"
	"harness/corpus"
	"harness/nn"
	"harness/nn/checkpoint"
	"harness/runs"
)

// Options are what a run takes from its caller rather than from the spec.
type Options struct {
	Store             string       // the store's directory
	Command           []string     // the command line, for provenance
	Observe           func(Update) // told of progress, often; may be nil
	AllowKernelChange bool         // resume: go on with another kernel set than the run began with
}

// Update is a moment of a run, for a progress line.
type Update struct {
	Note        string // if not "", one line the user should know; nothing else is set
	Stage       string // what is going on: StageTrain, or a stage of preparing the corpus
	Done, Total int64  // of the stage, in its own unit; Total 0 where it is not known

	// In training only.
	Run             string
	Phase, Phases   int  // of the curriculum, the first is 1
	Mixed           bool // the training loss is over tasks as well as text
	Tokens          int64
	Loss            float64       // nats, of this step, over the phase's mixture
	Validation      float64       // nats, of text alone; NaN before the first validation
	TokensPerSecond float64       // of this step
	Left            time.Duration // of training, at the mean speed of this attempt
}

// StageTrain is the stage of an Update in training.
const StageTrain = "train"

// note tells the user something in one line.
func (o Options) note(text string) {
	if o.Observe != nil {
		o.Observe(Update{Note: text})
	}
}

// workplace is what a run needs before there is a run: a store, a core, kernels,
// an open corpus.
type workplace struct {
	options Options
	spec    *Spec
	store   *runs.Store
	core    *amx.Core
	choice  amx.Choice
	kernels *amx.Kernels
	corpus  *corpus.Corpus
}

// openWorkplace opens everything, in the order in which errors are cheapest.
// A corpusKey that is not "" asks for the shards of that key before any others.
func openWorkplace(ctx context.Context, spec *Spec, o Options, kernels, corpusKey string) (w *workplace, err error) {
	w = &workplace{options: o, spec: spec}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if err := checkMemory(spec); err != nil {
		return w, err
	}
	if w.store, err = runs.Open(o.Store); err != nil {
		return w, err
	}
	if err := amx.Check(kernels); err != nil {
		return w, err
	}
	if w.core, err = amx.ClaimCore(""); err != nil {
		return w, fmt.Errorf("claim a core: %w", err)
	}
	// On the core that the run will have: where this CPU is new, the choice is measured now.
	if w.choice, err = amx.Choose(kernels); err != nil {
		return w, err
	}
	w.kernels = w.choice.Set.New()
	switch {
	case w.core.Oversubscribed:
		o.note("every core has a run already: this one shares and will be slower")
	case !w.core.Pinned:
		o.note(fmt.Sprintf("running unpinned: %s; kernels %s", w.core.Reason, w.choice))
	default:
		o.note(fmt.Sprintf("pinned to core %d, kernels %s", w.core.ID, w.choice))
	}
	progress := func(stage string, done, total int64) {
		if o.Observe != nil {
			o.Observe(Update{Stage: stage, Done: done, Total: total})
		}
	}
	cache := filepath.Join(w.store.Dir(), "corpora")
	if corpusKey != "" {
		w.corpus, err = corpus.Reopen(ctx, spec.Corpus, cache, corpusKey, progress)
	}
	if w.corpus == nil {
		if w.corpus, err = corpus.Open(ctx, spec.Corpus, "", cache, progress); err != nil {
			return w, err
		}
	}
	for _, n := range w.corpus.Notes {
		o.note(n)
	}
	o.note(corpusLine(w.corpus))
	if budget := spec.Budget.Tokens; budget > 0 && int64(spec.Train.Optimizer.WarmupSteps*spec.Train.StepTokens) >= budget {
		o.note(fmt.Sprintf("warm-up takes %d steps, no less than the budget: the learning rate never reaches its peak", spec.Train.Optimizer.WarmupSteps))
	}
	for _, t := range spec.Corpus.Tasks {
		if !w.corpus.Trains(t.Name) {
			o.note(fmt.Sprintf("task %s has no weight in any phase: it is neither trained nor probed", t.Name))
		}
	}
	return w, nil
}

func (w *workplace) close() error {
	var errs []error
	if w.corpus != nil {
		errs = append(errs, w.corpus.Close())
	}
	if w.core != nil {
		errs = append(errs, w.core.Release())
	}
	if w.store != nil {
		errs = append(errs, w.store.Close())
	}
	return errors.Join(errs...)
}

// Run trains the spec to the end of its budget and returns how it went. A
// cancelled ctx ends it as interrupted and a non-finite loss as diverged, with a
// checkpoint and without an error.
func Run(ctx context.Context, spec *Spec, o Options) (out *Outcome, err error) {
	w, err := openWorkplace(ctx, spec, o, spec.Train.Kernels, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	total, calibrated, err := w.steps(ctx)
	if err != nil {
		return nil, err
	}
	t, err := newTrainer(spec, w.corpus, w.kernels, total)
	if err != nil {
		return nil, err
	}
	grown := t.model
	for i, g := range spec.Grow {
		if (total-1)*int64(spec.Train.StepTokens) < g.At {
			o.note(fmt.Sprintf("the budget ends before the growth to %d experts at %s tokens", g.Experts, humanize.Comma(g.At)))
			continue
		}
		grown = nn.New(spec.Model, t.model.V, w.kernels, spec.Grow[:i+1]...)
	}
	provenance := runs.Provenance(o.Command)
	w.describe(provenance, grown)
	provenance[metaSteps] = strconv.FormatInt(total, 10)
	run, err := w.store.Create(ctx, runs.NewRun{Name: spec.Name, Notes: spec.Notes, Tags: spec.Tags,
		Spec: spec.YAML(), SpecHash: spec.Hash(), Seed: spec.Seed, Provenance: provenance})
	if err != nil {
		return nil, err
	}
	return w.attempt(ctx, run, t, calibrated)
}

// Resume continues a run from its newest whole checkpoint, or from the start
// where it left none, with the kernel set it began with.
func Resume(ctx context.Context, ref string, o Options) (out *Outcome, err error) {
	run, err := find(ctx, o.Store, ref)
	if err != nil {
		return nil, err
	}
	switch run.State {
	case runs.Finished:
		return nil, fmt.Errorf("run %s (%s) is finished: there is nothing to resume", run.Name, run.ID)
	case runs.Diverged:
		return nil, fmt.Errorf("run %s (%s) diverged and would diverge again at the same step: change the spec and run that", run.Name, run.ID)
	}
	spec, err := Parse("spec of run "+run.ID, []byte(run.Spec), nil)
	if err != nil {
		return nil, fmt.Errorf("stored spec of run %s: %w", run.ID, err)
	}
	began := run.Provenance[metaKernels]
	if n := len(run.Attempts); n > 0 {
		began = run.Attempts[n-1].Kernels
	}
	kernels, err := resumeKernels(began, o.AllowKernelChange, amx.Check)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.ID, err)
	}
	w, err := openWorkplace(ctx, spec, o, kernels, run.Provenance[metaCorpusKey])
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if was := run.Provenance[metaCorpus]; was != w.corpus.Hash() {
		return nil, fmt.Errorf("the corpus of run %s has changed since it began (%.12s then, %.12s now): its sources or tokenizer are not what they were", run.ID, was, w.corpus.Hash())
	}
	total, err := strconv.ParseInt(run.Provenance[metaSteps], 10, 64)
	if err != nil || total < 1 {
		return nil, fmt.Errorf("run %s has no budget in steps in its provenance: %q", run.ID, run.Provenance[metaSteps])
	}
	t, err := newTrainer(spec, w.corpus, w.kernels, total)
	if err != nil {
		return nil, err
	}
	if err := w.restoreLatest(t, run.ID); err != nil {
		return nil, err
	}
	note := fmt.Sprintf("resumed from step %d", t.step)
	if w.kernels.Name != began {
		note += fmt.Sprintf(" with kernels %s instead of %s: not bit for bit", w.kernels.Name, began)
	}
	o.note(note)
	return w.attempt(ctx, run, t, note)
}

// resumeKernels is the kernel set that a resume takes: the one its run last ran on
// or, where this machine lacks that and a change is allowed, the fastest here.
func resumeKernels(began string, allowChange bool, available func(string) error) (string, error) {
	err := available(began)
	switch {
	case err == nil:
		return began, nil
	case allowChange:
		return "auto", nil
	}
	return "", fmt.Errorf("%w; another set changes the bits: --allow-kernel-change takes it and says so in the record", err)
}

// restoreLatest loads the newest whole checkpoint, if there is any.
func (w *workplace) restoreLatest(t *trainer, runID string) error {
	path, skipped, err := checkpoint.Latest(checkpointDir(w.store, runID))
	for _, s := range skipped {
		w.options.note("skipped a damaged checkpoint: " + s.Error())
	}
	if errors.Is(err, checkpoint.ErrNone) && len(skipped) > 0 {
		return fmt.Errorf("all %d checkpoints of run %s are damaged, nothing was changed: run its spec anew, or remove %s to start this run over", len(skipped), runID, checkpointDir(w.store, runID))
	}
	if errors.Is(err, checkpoint.ErrNone) {
		w.options.note("no checkpoint yet: starting over from step 0")
		return nil
	}
	if err != nil {
		return err
	}
	return t.restore(path, runID)
}

const tokenizerFile = "tokenizer.json"

// checkpointDir is where the checkpoints of a run lie.
func checkpointDir(s *runs.Store, runID string) string {
	return filepath.Join(s.RunDir(runID), "checkpoints")
}

// describe adds the machine and the inputs to a run's provenance.
func (w *workplace) describe(p map[string]string, model *nn.Model) {
	account := model.Account(w.spec.Train.Loss)
	p["parameters"] = strconv.Itoa(account.Stored) // at the end, after all growth
	p["body_parameters"] = strconv.Itoa(account.Body)
	p["active_parameters"] = strconv.Itoa(account.Body + account.Shared + account.ExpertsActive)
	p["model"] = modelLine(w.spec.Model)
	m := amx.DetectMachine()
	p["cpu"] = m.CPUModel
	p["cores"] = strconv.Itoa(m.Cores)
	p["cpu_flags"] = fmt.Sprint(m.Flags)
	p[metaKernels] = w.kernels.Name
	p["kernels_choice"] = w.choice.String()
	p[metaCorpus] = w.corpus.Hash()
	p[metaCorpusKey] = w.corpus.Manifest.Key
	p["tokenizer_hash"] = w.corpus.Tokenizer.Hash()
	p["vocabulary"] = strconv.Itoa(w.corpus.Tokenizer.Vocab())
}

// find looks a run up without holding the store open.
func find(ctx context.Context, dir, ref string) (run runs.Run, err error) {
	s, err := runs.OpenReadOnly(dir)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Find(ctx, ref)
}
