package experiments

import (
	"math"
	"math/rand/v2"

	"harness/amx"
	"harness/corpus"
	"harness/nn"
	"harness/nn/optim"
)

// trainer is one model in training: everything a step reads and writes. A step
// is a pure function of this state, the spec and the step's number, so that a
// resume from a checkpoint continues bit for bit.
type trainer struct {
	spec    *Spec
	corpus  *corpus.Corpus
	sampler *corpus.Sampler
	model   *nn.Model
	opt     *optim.AdamW
	rows    *nn.Rows
	acts    *nn.Activations
	step    int64 // steps done
	total   int64 // steps of the budget
	window  window

	pcg *rand.PCG
	rng *rand.Rand
}

func newTrainer(spec *Spec, c *corpus.Corpus, k *amx.Kernels, total int64) (*trainer, error) {
	sampler, err := c.Sampler(spec.Seed, spec.Train.Sequence, spec.Train.StepTokens/spec.Train.Sequence, total)
	if err != nil {
		return nil, err
	}
	m := nn.New(spec.Model, c.Tokenizer.Vocab(), k)
	t := &trainer{spec: spec, corpus: c, sampler: sampler, total: total, window: newWindow(len(c.Mixture), len(spec.Model.MoE.Layers)), pcg: rand.NewPCG(0, 0)}
	t.rng = rand.New(t.pcg)
	t.reseed("init", 0)
	m.Init(t.rng)
	t.build(m)
	t.rows = nn.NewRows(m, spec.Train.Loss, c.Counts(), spec.Train.StepTokens)
	return t, nil
}

// build makes what stands around the model m: a new optimizer and workspace.
func (t *trainer) build(m *nn.Model) {
	t.use(m, optim.New(t.spec.Train.Optimizer, m))
}

func (t *trainer) use(m *nn.Model, o *optim.AdamW) {
	t.model, t.opt = m, o
	t.acts = nn.NewActivations(m, t.spec.Train.StepTokens, true)
	t.acts.BeforeExperts = o.CatchUpExperts
}

// growthDue is the growth step to take before the next training step, if there is one.
func (t *trainer) growthDue() (g nn.Growth, due bool) {
	n := len(t.model.Grown())
	if n == len(t.spec.Grow) || t.tokens() < t.spec.Grow[n].At {
		return g, false
	}
	return t.spec.Grow[n], true
}

// grow takes a growth step. It is a pure function of the trainer's state, as a
// training step is: a resume from before takes it again.
func (t *trainer) grow(g nn.Growth) {
	t.reseed("grow", int64(len(t.model.Grown())))
	m := t.model.Grow(g, t.rng)
	t.use(m, t.opt.Grow(m))
}

// reseed starts the random stream of one purpose at one step.
func (t *trainer) reseed(purpose string, step int64) {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(purpose) {
		h = (h ^ uint64(purpose[i])) * 1099511628211
	}
	t.pcg.Seed(uint64(t.spec.Seed)^h, uint64(step))
}

// progress is the share of the budget that is done.
func (t *trainer) progress() float64 { return float64(t.step) / float64(t.total) }

// tokens is how many tokens of training are done.
func (t *trainer) tokens() int64 { return t.step * int64(t.spec.Train.StepTokens) }

// epochs is how often the training text has been passed over, all sources together.
func (t *trainer) epochs() float64 {
	read, held := int64(0), int64(0)
	for i, s := range t.corpus.Manifest.Sources {
		read += t.sampler.Windows(i) * int64(t.spec.Train.Sequence)
		held += s.Train.Tokens
	}
	return float64(read) / float64(held)
}

// stepResult is what one training step tells.
type stepResult struct {
	loss         nn.Loss
	gradientNorm float64 // before clipping; NaN after a loss that is not finite
	learningRate float64
}

// finite reports whether the step may stand; one that may not was not applied.
func (r stepResult) finite() bool {
	for _, x := range []float64{r.loss.Sum, r.gradientNorm} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

// advance does one step: draw, forward, loss, backward, clip, update.
func (t *trainer) advance() stepResult {
	batch := t.sampler.Batch(t.step)
	b := nn.Batch{Tokens: batch.Tokens, Targets: batch.Targets, Starts: batch.Starts}
	t.reseed("negatives", t.step)
	t.rows.Plan(b, t.rng)
	t.opt.CatchUp(t.rows)
	t.model.Forward(t.acts, b)
	r := stepResult{learningRate: t.spec.Train.Optimizer.LearningRate(t.step, t.progress())}
	r.loss = t.model.Loss(t.acts, b, t.rows)
	if math.IsNaN(r.loss.Sum) || math.IsInf(r.loss.Sum, 0) {
		r.gradientNorm = math.NaN()
		return r
	}
	t.model.Backward(t.acts, b, t.rows)
	if r.gradientNorm = t.opt.Step(t.acts, t.rows, r.learningRate); r.finite() {
		t.step++
		t.acts.PositionLosses(func(at int, nats float32) { t.window.add(int(batch.Sources[at]), nats) })
		t.model.ObserveLoad(t.acts)
		t.window.addRouters(t.model, t.acts)
		t.window.norm[0] += r.gradientNorm
		t.window.steps[0]++
	}
	return r
}

// sound reports whether the state may be kept: a parameter or moment that is not
// finite shows in the loss only a step later, when the last good checkpoint may be
// gone.
func (t *trainer) sound() bool {
	s := t.opt.State()
	sum := s.Clock[0]
	for _, x := range floats(t.model, s) {
		sum += t.model.K.SumSquares(x.F32)
	}
	return !math.IsNaN(sum) && !math.IsInf(sum, 0)
}
