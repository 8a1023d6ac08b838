package experiments

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"harness/amx"
	"harness/corpus"
	"harness/nn"
	"harness/nn/optim"
)

// calibrationTime is how long a wall-clock budget is calibrated for.
const calibrationTime = 3 * time.Second

// steps is the budget in optimizer steps. A wall-clock budget is turned into
// tokens by a calibration on this core; note says how, for the record.
func (w *workplace) steps(ctx context.Context) (total int64, note string, err error) {
	stepTokens := int64(w.spec.Train.StepTokens)
	if w.spec.Budget.Wall == 0 {
		return (w.spec.Budget.Tokens + stepTokens - 1) / stepTokens, "", nil
	}
	w.options.note(fmt.Sprintf("calibrating: how many tokens are %s on this core?", w.spec.Budget.Wall))
	return w.calibrate(ctx)
}

// calibrate trains a throwaway model on batches from all over the curriculum,
// times one validation and one probing, and solves for the steps that fit.
func (w *workplace) calibrate(ctx context.Context) (total int64, note string, err error) {
	const places = 20
	t, err := newTrainer(w.spec, w.corpus, w.kernels, places*1000)
	if err != nil {
		return 0, "", err
	}
	stepTime, steps, err := t.stepTime(ctx, places)
	if err != nil {
		return 0, "", err
	}
	// A larger model is slower: what follows is timed after all growth, and so is training
	// from the first growth on.
	grownTime := stepTime
	if len(w.spec.Grow) > 0 {
		for _, g := range w.spec.Grow {
			t.grow(g)
		}
		if grownTime, _, err = t.stepTime(ctx, places); err != nil {
			return 0, "", err
		}
	}

	e, err := newEvaluator(t)
	if err != nil {
		return 0, "", err
	}
	t.step = t.total // the evaluation of a run that has trained on everything
	start := time.Now()
	if _, _, err := e.validate(ctx); err != nil {
		return 0, "", err
	}
	validation := time.Since(start).Seconds()
	start = time.Now()
	if _, err := e.probe(ctx); err != nil {
		return 0, "", err
	}
	if _, err := e.generate(ctx); err != nil {
		return 0, "", err
	}
	probing := time.Since(start).Seconds()
	start = time.Now()
	if _, err := e.ablate(ctx); err != nil {
		return 0, "", err
	}
	ablation := time.Since(start).Seconds()
	probings := math.Ceil(1 / w.spec.Probes.Every)
	evaluation := math.Ceil(1/w.spec.Train.ValidateEvery)*validation + probings*(probing+validation) + ablation
	wall := w.spec.Budget.Wall.Seconds()
	total = int64((wall - evaluation) / stepTime)
	grown := ""
	if len(w.spec.Grow) > 0 {
		if first := w.spec.Grow[0].At/int64(w.spec.Train.StepTokens) + 1; total > first {
			total = first + max(0, int64((wall-evaluation-float64(first)*stepTime)/grownTime))
			grown = fmt.Sprintf(", %.0f after growth", float64(w.spec.Train.StepTokens)/grownTime)
		}
	}
	if total < 1 {
		return 0, "", fmt.Errorf("a budget of %s is used up by evaluation: validating and probing at this cadence take %.0f s; raise train.validate_every and probes.every, or the budget",
			w.spec.Budget.Wall, evaluation)
	}
	tokens := total * int64(w.spec.Train.StepTokens)
	alone := ""
	if !w.core.Pinned {
		alone = ", without a core of its own,"
	}
	note = fmt.Sprintf("calibrated%s over %d steps: %.0f tokens/s%s, validation %.2f s, probing %.2f s, routing ablations %.2f s; %s are %s tokens",
		alone, steps, float64(w.spec.Train.StepTokens)/stepTime, grown, validation, probing, ablation, w.spec.Budget.Wall, humanize.Comma(tokens))
	w.options.note(note)
	return total, note, nil
}

// stepTime is the time of a training step in seconds, measured at places all over the
// curriculum.
func (t *trainer) stepTime(ctx context.Context, places int) (seconds float64, steps int, err error) {
	t.advance() // warms buffers and caches
	start := time.Now()
	for time.Since(start) < calibrationTime || steps < places {
		if ctx.Err() != nil {
			return 0, 0, ctx.Err()
		}
		t.step = int64(steps%places)*1000 + int64(steps/places)
		t.advance()
		steps++
	}
	return time.Since(start).Seconds() / float64(steps), steps, nil
}

// Plan is what a run would be, without building its corpus: for --dry-run.
type Plan struct {
	Spec            string     // resolved YAML
	Hash            string     // of the spec
	Account         nn.Account // at the start
	Grown           int        // parameters stored after all growth; 0 without any
	Accounting      [][]string // part, parameters, meaning
	Kernels         string
	TrainFLOP       float64       // floating-point operations of one training token
	TokensPerSecond float64       // measured here on random tokens, every position a target
	GrownPerSecond  float64       // the same after all growth; 0 without any
	Budget          int64         // tokens; an estimate where the budget is a time
	Time            time.Duration // of training alone
	StateBytes      int64         // parameters, moments and clocks of the optimizer, after all growth
	GradientBytes   int64         // room for the gradients of a step
}

// DryRun looks whether the sources can be read and measures a few steps of the
// spec's model on random tokens. It builds no corpus, so the vocabulary is the one
// asked for.
func DryRun(ctx context.Context, spec *Spec) (*Plan, error) {
	if err := corpus.Preview(ctx, spec.Corpus, ""); err != nil {
		return nil, err
	}
	if err := checkMemory(spec); err != nil {
		return nil, err
	}
	k, err := amx.Select(spec.Train.Kernels)
	if err != nil {
		return nil, err
	}
	vocab := spec.Corpus.Tokenizer.Vocab
	m := nn.New(spec.Model, vocab, k)
	p := &Plan{Spec: spec.YAML(), Hash: spec.Hash(), Kernels: k.Name, TrainFLOP: m.TrainFLOP(spec.Train.Loss)}
	p.Account = m.Account(spec.Train.Loss)
	p.Accounting = accountRows(p.Account, spec)
	grown := nn.New(spec.Model, vocab, k, spec.Grow...)
	if p.StateBytes, p.GradientBytes = memory(spec, grown); len(spec.Grow) > 0 {
		p.Grown = grown.Account(spec.Train.Loss).Stored
		p.Accounting = append(p.Accounting, []string{"stored after growth", humanize.Comma(int64(p.Grown)), fmt.Sprintf("with %d experts in each mixture; the rows above are of the start", spec.Grow[len(spec.Grow)-1].Experts)})
	}
	if p.TokensPerSecond, err = randomSpeed(ctx, spec, m); err != nil {
		return nil, err
	}
	// Before the first growth at one speed, after it at the other, the lower one.
	before, later := math.Inf(1), p.TokensPerSecond
	if len(spec.Grow) > 0 {
		if p.GrownPerSecond, err = randomSpeed(ctx, spec, grown); err != nil {
			return nil, err
		}
		before, later = float64(spec.Grow[0].At), p.GrownPerSecond
	}
	if wall := spec.Budget.Wall; wall > 0 {
		p.Time = wall
		at := min(wall.Seconds()*p.TokensPerSecond, before)
		p.Budget = int64(at + (wall.Seconds()-at/p.TokensPerSecond)*later)
		return p, nil
	}
	p.Budget = spec.Budget.Tokens
	at := min(float64(p.Budget), before)
	p.Time = time.Duration((at/p.TokensPerSecond + (float64(p.Budget)-at)/later) * float64(time.Second))
	return p, nil
}

// memory is what training keeps of a model from step to step, and what the gradients
// of a step take at most: of embedding rows and experts only those that it touches.
func memory(spec *Spec, m *nn.Model) (state, gradients int64) {
	a := m.Account(spec.Train.Loss)
	state = 3 * 4 * int64(a.Stored)
	state += 16 * int64(m.V) // clocks and counts of updates
	tokens := spec.Train.StepTokens
	gradients = int64(a.Stored - a.ExpertsStored - m.V*a.EmbeddingRow)
	gradients += int64(a.EmbeddingRow) * int64(nn.MostRows(m, spec.Train.Loss, tokens))
	if a.ExpertsStored > 0 {
		expert := int64(a.ExpertsActive / m.MoE.TopK) // in all layers
		experts := int64(a.ExpertsStored) / expert
		state += 24 * experts * int64(len(m.MoE.Layers))
		gradients += expert * int64(nn.MostExperts(m, tokens))
	}
	return state, 4 * gradients
}

// randomSpeed is tokens a second of training m on random windows, by the median step:
// what else the machine does for a moment shall not count.
func randomSpeed(ctx context.Context, spec *Spec, m *nn.Model) (float64, error) {
	rng := rand.New(rand.NewPCG(uint64(spec.Seed), 1))
	m.Init(rng)
	n := spec.Train.StepTokens
	b := nn.Batch{}
	for i := range n {
		if i%spec.Train.Sequence == 0 {
			b.Starts = append(b.Starts, int32(i))
		}
		b.Tokens = append(b.Tokens, int32(rng.IntN(m.V)))
		b.Targets = append(b.Targets, int32(rng.IntN(m.V)))
	}
	counts := make([]int64, m.V)
	rows := nn.NewRows(m, spec.Train.Loss, counts, n)
	a := nn.NewActivations(m, n, true)
	o := optim.New(spec.Train.Optimizer, m)
	a.BeforeExperts = o.CatchUpExperts
	step := func() {
		rows.Plan(b, rng)
		m.Forward(a, b)
		m.Loss(a, b, rows)
		m.Backward(a, b, rows)
		o.Step(a, rows, spec.Train.Optimizer.LR)
	}
	step()
	var took []time.Duration
	for start := time.Now(); len(took) < 3 || time.Since(start) < time.Second; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		began := time.Now()
		step()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return float64(n) / took[len(took)/2].Seconds(), nil
}
