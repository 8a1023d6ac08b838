// Package optim is AdamW with warm-up, cosine schedule, one global clip and lazy
// updates of embedding rows: a row costs nothing in a step that does not touch
// it, and a decay clock applies the weight decay it missed before it is read
// again.
//
// Input: a model with gradients and the rows of the step. Output: updated
// parameters. Non-goals: gradients (nn), files (nn/checkpoint).
package optim

import (
	"fmt"
	"math"

	"harness/amx"
	"harness/nn"
)

// AdamW holds the optimizer's state for one model.
type AdamW struct {
	Config
	m *nn.Model

	steps int64       // updates done: bias correction of the dense parameters
	m1    [][]float32 // first moments, by index in Params
	m2    [][]float32 // second moments

	clock    float64   // sum of log(1 - lr*weight decay) over all steps
	rowClock []float64 // [V] clock up to which a row's decay is applied
	rowSteps []int64   // [V] updates a row has seen: its own bias correction
	factors  []float32 // [V] scratch

	known              [][2]float32 // corrections of the first updates, by their number: powers take time
	correct1, correct2 []float32    // [V] scratch
}

// New prepares zero moments for m.
func New(cfg Config, m *nn.Model) *AdamW {
	o := &AdamW{Config: cfg, m: m,
		rowClock: make([]float64, m.V), rowSteps: make([]int64, m.V), factors: make([]float32, m.V),
		correct1: make([]float32, m.V), correct2: make([]float32, m.V), known: make([][2]float32, 1<<12)}
	for t := range o.known {
		o.known[t] = [2]float32{correction(cfg.Beta1, int64(t)), correction(cfg.Beta2, int64(t))}
	}
	for _, p := range m.Params() {
		o.m1 = append(o.m1, amx.Floats(len(p.Data)))
		o.m2 = append(o.m2, amx.Floats(len(p.Data)))
	}
	return o
}

// LearningRate at the given update (from 0) when `progress` in [0,1] of the
// budget's tokens are done: linear warm-up in steps, then a cosine in tokens.
func (c Config) LearningRate(step int64, progress float64) float64 {
	low := c.LR * c.MinRatio
	lr := low + (c.LR-low)*0.5*(1+math.Cos(math.Pi*min(max(progress, 0), 1)))
	if step < int64(c.WarmupSteps) {
		lr *= float64(step+1) / float64(c.WarmupSteps+1)
	}
	return lr
}

// CatchUp applies the weight decay that the rows missed, before a training
// forward reads them.
func (o *AdamW) CatchUp(rows *nn.Rows) {
	o.scaleRows(o.m.Embedding.Data, rows.IDs)
	for _, id := range rows.IDs {
		o.rowClock[id] = o.clock
	}
}

// Effective writes the embedding as it stands with all pending decay applied to
// dst [V,D]; nothing is written back: validation, probes and export read this.
func (o *AdamW) Effective(dst []float32) {
	copy(dst, o.m.Embedding.Data)
	all := make([]int32, o.m.V)
	for i := range all {
		all[i] = int32(i)
	}
	o.scaleRows(dst, all)
}

// scaleRows multiplies each row of table by its pending decay; rows that owe
// nothing are not touched.
func (o *AdamW) scaleRows(table []float32, ids []int32) {
	for i, id := range ids {
		o.factors[i] = 1
		if o.rowClock[id] != o.clock {
			o.factors[i] = float32(math.Exp(o.clock - o.rowClock[id]))
		}
	}
	o.m.K.ScaleRows(table, o.factors, ids, len(ids), o.m.DModel)
}

// Step clips the gradients to the global norm and updates every dense parameter
// and the touched rows. It returns the norm before clipping. A norm that is not
// finite changes nothing: the caller ends the run.
func (o *AdamW) Step(rows *nn.Rows, lr float64) (norm float64) {
	d := o.m.DModel
	sum := 0.0
	for _, p := range o.m.Params() {
		if p.Kind != nn.Embedding {
			sum += o.m.K.SumSquares(p.Grad)
		}
	}
	sum += o.m.K.SumSquares(rows.Grad[:len(rows.IDs)*d])
	norm = math.Sqrt(sum)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm
	}
	step := amx.AdamWStep{LR: float32(lr), Beta1: float32(o.Beta1), Beta2: float32(o.Beta2), Eps: float32(o.Eps), GradScale: 1}
	if o.ClipNorm > 0 && norm > o.ClipNorm {
		step.GradScale = float32(o.ClipNorm / norm)
	}
	o.steps++
	for i, p := range o.m.Params() {
		decay := o.WeightDecay
		switch p.Kind {
		case nn.Embedding:
			o.stepRows(i, rows, step, lr)
			continue
		case nn.Gain:
			decay = o.NormDecay
		}
		s := step
		s.Correct1, s.Correct2 = o.corrections(o.steps)
		s.Decay = float32(lr * decay)
		o.m.K.AdamW(p.Data, p.Grad, o.m1[i], o.m2[i], s)
	}
	return norm
}

// stepRows updates the touched rows of the embedding, each with its own bias
// correction, and winds their clocks.
func (o *AdamW) stepRows(param int, rows *nn.Rows, step amx.AdamWStep, lr float64) {
	decay := lr * o.WeightDecay
	o.clock += math.Log1p(-decay)
	step.Decay = float32(decay)
	for i, id := range rows.IDs {
		o.rowSteps[id]++
		o.rowClock[id] = o.clock
		o.correct1[i], o.correct2[i] = o.corrections(o.rowSteps[id])
	}
	o.m.K.AdamWRows(o.m.Params()[param].Data, rows.Grad, o.m1[param], o.m2[param], rows.IDs, o.correct1, o.correct2, len(rows.IDs), o.m.DModel, step)
}

// corrections are the factors of the bias correction of update number t.
func (o *AdamW) corrections(t int64) (first, second float32) {
	if t < int64(len(o.known)) {
		return o.known[t][0], o.known[t][1]
	}
	return correction(o.Beta1, t), correction(o.Beta2, t)
}

func correction(beta float64, t int64) float32 {
	return float32(1 / (1 - math.Pow(beta, float64(t))))
}

// State is everything of the optimizer that a checkpoint must keep. The slices
// are the optimizer's own: what a restore writes into them is in force.
type State struct {
	Moments  []Moments
	RowClock []float64 // [V]
	RowSteps []int64   // [V]
	Clock    []float64 // [1]
	Steps    []int64   // [1]
}

// Moments of one parameter.
type Moments struct {
	Param         *nn.Param
	First, Second []float32
}

// State exposes the state for saving.
func (o *AdamW) State() State {
	s := State{RowClock: o.rowClock, RowSteps: o.rowSteps, Clock: []float64{o.clock}, Steps: []int64{o.steps}}
	for i, p := range o.m.Params() {
		s.Moments = append(s.Moments, Moments{p, o.m1[i], o.m2[i]})
	}
	return s
}

// Restore takes the scalars of a loaded state; slices were filled in place.
func (o *AdamW) Restore(clock float64, steps int64) error {
	if steps < 0 || math.IsNaN(clock) || clock > 0 {
		return fmt.Errorf("optimizer state: %d steps and a decay clock of %g cannot be", steps, clock)
	}
	o.clock, o.steps = clock, steps
	return nil
}
