package experiments

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"harness/corpus"
	"harness/nn"
	"harness/nn/checkpoint"
	"harness/probes"
	"harness/runs"
)

// Names of metrics, and beginnings of names.
const (
	validationLoss = "validation/loss"
	bitsPerByte    = "validation/bits_per_byte"
	branchShare    = "branch_share/" // and a branch's name
)

// Outcome is what a run ended with.
type Outcome struct {
	Run         runs.Run // as the store has it now
	State       runs.State
	Message     string
	Steps       int64
	Tokens      int64
	Validation  float64 // nats, exact full softmax; NaN if never measured
	ValidatedAt int64   // step of Validation
	Epochs      float64 // passes over the training text, of all sources together
	BitsPerByte float64 // of the validation text: comparable across vocabularies; NaN if never measured
	Unigram     float64 // nats, of the same validation targets
	Scores      []probes.Result
	Samples     []Sample // the first prompts of every probe
	Generations []runs.Generation
	Checkpoint  string  // path of the newest checkpoint; "" if none
	Weights     string  // SHA-256 of the model's parameters
	TrainSpeed  float64 // tokens a second of training alone, over this attempt
	Tracking    error   // why metrics could not be written, if they could not
}

// attempt is one process's work on a run: the loop around the trainer.
type attempt struct {
	*workplace
	run  runs.Run
	t    *trainer
	eval *evaluator
	rec  *runs.Recorder
	out  *Outcome

	firstStep int64
	phase     int           // of the curriculum, from 0; -1 before the first step
	trained   time.Duration // spent in training steps by this attempt
	recorded  struct {      // at the last record
		step    int64
		trained time.Duration
	}
	unsaved time.Time // since when a checkpoint is due that could not be written
}

// attempt runs t to the end of its budget, or until something ends it.
func (w *workplace) attempt(ctx context.Context, run runs.Run, t *trainer, note string) (*Outcome, error) {
	a := &attempt{workplace: w, run: run, t: t, firstStep: t.step, phase: -1,
		out: &Outcome{Validation: math.NaN(), BitsPerByte: math.NaN(), State: runs.Failed}}
	a.recorded.step = t.step
	var err error
	// Made here and not with the run: a kill between the two must not leave a run
	// that cannot be resumed.
	if err = os.MkdirAll(checkpointDir(w.store, run.ID), 0o755); err != nil {
		return nil, fmt.Errorf("create the run's checkpoint directory: %w", err)
	}
	if err = w.corpus.Tokenizer.Save(filepath.Join(w.store.RunDir(run.ID), tokenizerFile)); err != nil {
		return nil, err
	}
	if a.eval, err = newEvaluator(t); err != nil {
		return nil, err
	}
	a.out.Unigram = a.eval.Unigram
	if got, want := len(a.eval.prompts), w.spec.Probes.Generations; got < want {
		w.options.note(fmt.Sprintf("%d of the %d generations asked for: no more held-out documents are longer than probes.prompt_tokens (%d)", got, want, w.spec.Probes.PromptTokens))
	}
	// An interrupt from here on is for the loop, which ends the run as interrupted.
	a.rec, err = w.store.Begin(context.WithoutCancel(ctx), run.ID, runs.AttemptInfo{Core: w.core.ID, Kernels: w.kernels.Name, FromStep: t.step, Command: joinCommand(w.options.Command)})
	if err != nil {
		return nil, err
	}
	a.rec.OnError(func(err error) { w.options.note("tracking is behind, training goes on: " + err.Error()) })
	a.begin(note)
	err = a.train(ctx)
	if err != nil {
		a.out.Message = err.Error()
	}
	a.weights()
	finished := a.rec.Finish(context.WithoutCancel(ctx), a.out.State, a.out.Message)
	a.out.Tracking = finished
	if run, findErr := w.store.Find(context.WithoutCancel(ctx), a.run.ID); findErr == nil {
		a.out.Run = run
	} else {
		a.out.Run = a.run
	}
	return a.out, err
}

// begin defines metrics and records what is known before the first step.
func (a *attempt) begin(note string) {
	r := a.rec
	r.Define(a.lossName(), "nats", "lower")
	r.Define(validationLoss, "nats", "lower")
	r.Define(bitsPerByte, "bits/byte", "lower")
	r.Define("validation/unigram", "nats", "")
	r.Define("throughput", "tokens/s", "higher")
	r.Define("learning_rate", "", "")
	r.Define("gradient_norm", "", "")
	for _, layer := range a.spec.Model.MoE.Layers {
		r.Define(routerMetric(layer, "entropy"), "nats", "")
		r.Define(routerMetric(layer, "effective"), "experts", "")
		r.Define(routerMetric(layer, "dead"), "experts", "")
	}
	if len(a.spec.Model.MoE.Layers) > 0 {
		r.Define("router/balance", "", "")
		r.Define("router/first_share", "", "")
	}
	if note != "" {
		r.Event(a.t.step, "start", note)
	}
	if a.t.step == 0 {
		a.account()
		r.Table(runs.Table{Name: "corpus", Columns: []string{"source", "documents", "bytes", "training tokens", "validation tokens"}, Rows: corpusRows(a.corpus.Manifest)})
	}
}

// account records the parameters that the model has now.
func (a *attempt) account() {
	rows := accountRows(a.t.model.Account(a.spec.Train.Loss), a.spec)
	a.rec.Table(runs.Table{Step: a.t.step, Name: "parameters", Columns: []string{"part", "parameters", "meaning"}, Rows: rows})
}

// lossName keeps a sampled training loss apart from exact ones by name.
func (a *attempt) lossName() string {
	if a.spec.Train.Loss.Kind == nn.SampledSoftmax {
		return "train/sampled_loss"
	}
	return "train/loss"
}

// train is the loop. It sets the outcome's state and leaves the recorder open.
func (a *attempt) train(ctx context.Context) error {
	plan := newSchedule(a.spec, a.t.total)
	if err := a.catchUp(ctx, plan); err != nil {
		return a.orInterrupt(ctx, err)
	}
	for a.t.step < a.t.total {
		if ctx.Err() != nil {
			return a.interrupt(ctx)
		}
		a.enterPhase()
		for g, due := a.t.growthDue(); due; g, due = a.t.growthDue() {
			a.grow(g)
		}
		start := time.Now()
		r := a.t.advance()
		a.trained += time.Since(start)
		if !r.finite() {
			return a.diverge(r, "loss or gradient is not finite at")
		}
		a.tell(r, time.Since(start))
		if plan.record(a.t.step) {
			a.record(r.learningRate)
		}
		if plan.validate(a.t.step) {
			if err := a.validate(ctx); err != nil {
				return a.orInterrupt(ctx, err)
			}
		}
		if plan.probe(a.t.step) {
			if err := a.probe(ctx); err != nil {
				return a.orInterrupt(ctx, err)
			}
		}
		if plan.checkpoint(a.t.step) || a.retrySave() {
			if !a.t.sound() {
				return a.diverge(r, "a parameter or moment is not finite after")
			}
			if err := a.checkpoint(ctx); err != nil {
				if a.t.step == a.t.total {
					return err
				}
				a.unsaved = time.Now()
				a.options.note("training goes on without a checkpoint of step " + strconv.FormatInt(a.t.step, 10) + ", the next try is in a minute: " + err.Error())
			}
		}
	}
	a.out.State = runs.Finished // the last step was validated and probed, by the loop or by catchUp
	return nil
}

// enterPhase notes where a phase of the curriculum begins.
func (a *attempt) enterPhase() {
	phases := a.spec.Corpus.Phases
	for i := a.phase + 1; i < len(phases) && begin(phases, i, a.t.total) <= a.t.step; i++ {
		a.phase = i
		if begin(phases, i, a.t.total) == a.t.step {
			var weights []string
			for _, name := range slices.Sorted(maps.Keys(phases[i].Weights)) {
				weights = append(weights, fmt.Sprintf("%s %g", name, phases[i].Weights[name]))
			}
			a.rec.Event(a.t.step, "phase", fmt.Sprintf("phase %d of %d: %s", i+1, len(phases), strings.Join(weights, ", ")))
		}
	}
}

// begin is the step after which phase i of the curriculum, from 0, begins.
func begin(phases []corpus.Phase, i int, steps int64) int64 {
	if i == 0 {
		return 0
	}
	return phases[i-1].EndStep(steps)
}

// catchUp evaluates what is due at the step that the attempt starts from: a new run
// has not been validated, and an interrupt or a kill may have come between a step
// and its evaluation. Where it had not, the same figures are recorded once more, and
// the store shows the later ones alone.
func (a *attempt) catchUp(ctx context.Context, plan schedule) error {
	if plan.validate(a.t.step) {
		if err := a.validate(ctx); err != nil {
			return err
		}
	}
	if plan.probe(a.t.step) && a.t.step > 0 {
		return a.probe(ctx)
	}
	return nil
}

// retrySave says whether a checkpoint that could not be written is due again.
func (a *attempt) retrySave() bool {
	return !a.unsaved.IsZero() && time.Since(a.unsaved) > time.Minute
}

func (a *attempt) orInterrupt(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return a.interrupt(ctx)
	}
	return err
}

// interrupt writes a checkpoint and ends the run as interrupted.
func (a *attempt) interrupt(ctx context.Context) error {
	if a.t.step > a.firstStep && a.t.sound() {
		if err := a.checkpoint(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("interrupted, and could not write a checkpoint: %w", err)
		}
	}
	a.out.State = runs.Interrupted
	a.out.Message = fmt.Sprintf("interrupted after step %d of %d", a.t.step, a.t.total)
	return nil
}

// diverge ends the run at a step whose result is not finite, or cannot be kept.
// The state before a step that was not applied is saved; other checkpoints stay.
func (a *attempt) diverge(r stepResult, why string) error {
	step, tokens := a.t.step, a.t.tokens()
	if !r.finite() { // the step was not applied, nor counted
		step, tokens = step+1, tokens+int64(a.spec.Train.StepTokens)
		if a.t.step > a.firstStep && a.t.sound() {
			if err := a.checkpoint(context.Background()); err != nil {
				a.options.note("the last good state could not be saved: " + err.Error())
			}
		}
	}
	a.rec.Metric(a.lossName(), step, tokens, r.loss.Mean())
	a.rec.Metric("gradient_norm", step, tokens, r.gradientNorm)
	a.out.State = runs.Diverged
	a.out.Message = fmt.Sprintf("%s step %d of %d (loss %g, gradient norm %g)", why, step, a.t.total, r.loss.Mean(), r.gradientNorm)
	a.rec.Event(step, "diverged", a.out.Message)
	return nil
}

// checkpoint commits the metrics, writes the state and prunes older states.
func (a *attempt) checkpoint(ctx context.Context) error {
	a.flush(ctx)
	dir := checkpointDir(a.store, a.run.ID)
	path, sha, err := a.t.save(dir, a.run.ID)
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	relative, err := filepath.Rel(a.store.Dir(), path)
	if err != nil {
		relative = path
	}
	a.rec.Artifact(runs.Artifact{Step: a.t.step, Kind: "checkpoint", Path: relative, SHA256: sha, Bytes: info.Size()})
	a.unsaved = time.Time{}
	if err := checkpoint.Prune(dir, a.t.step, a.spec.Train.KeepCheckpoints); err != nil {
		a.options.note("older checkpoints stay: " + err.Error())
	}
	return nil
}

// flushTime is how long training waits for the store before a checkpoint.
const flushTime = time.Second

// flush commits the metrics recorded so far if the store can do it soon, so that a
// resume from the checkpoint that follows leaves no gap in them.
func (a *attempt) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	if err := a.rec.Flush(ctx); err != nil {
		a.options.note("the checkpoint is ahead of the recorded metrics: " + err.Error())
	}
}

// weights fills in what the outcome says about the model as it stands.
func (a *attempt) weights() {
	a.out.Steps, a.out.Tokens = a.t.step, a.t.tokens()
	a.out.Epochs = a.t.epochs()
	a.rec.Reached(a.t.step, a.t.tokens())
	a.out.Weights = weightsHash(a.t.model)
	a.rec.Event(a.t.step, "weights", "sha256 "+a.out.Weights+" after step "+strconv.FormatInt(a.t.step, 10))
	if path, _, err := checkpoint.Latest(checkpointDir(a.store, a.run.ID)); err == nil {
		a.out.Checkpoint = path
	}
}
