// Package optim is AdamW with warm-up, cosine schedule, one global clip and lazy
// updates of embedding rows and experts: what a step does not touch costs nothing in
// it, and a decay clock applies the weight decay it missed before it is read again.
//
// Input: a model with gradients, and the rows and experts of the step. Output: updated
// parameters. Non-goals: gradients (nn), files (nn/checkpoint).
package optim

import (
	"fmt"
	"math"
	"slices"

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

	clock   float64 // sum of log(1 - lr*weight decay) over all steps
	rows    lazy    // of the embedding
	experts []*lazy // by layer, nil without a mixture: an expert's two matrices share a clock

	known                       [][2]float32 // corrections of the first updates, by their number: powers take time
	factors, correct1, correct2 []float32    // [V or E, whichever is more] scratch
}

// lazy is the state of rows (embedding rows, experts) that not every step touches.
type lazy struct {
	clock []float64 // up to which a row's decay is applied
	steps []int64   // updates a row has seen: its own bias correction
}

func newLazy(n int) lazy { return lazy{make([]float64, n), make([]int64, n)} }

// New prepares zero moments for m.
func New(cfg Config, m *nn.Model) *AdamW {
	o := &AdamW{Config: cfg, m: m, rows: newLazy(m.V), experts: make([]*lazy, len(m.Layers)), known: make([][2]float32, 1<<12)}
	most := m.V
	for i := range m.Layers {
		if x := m.Layers[i].Mixture; x != nil {
			most = max(most, x.Experts())
			l := newLazy(x.Experts())
			o.experts[i] = &l
		}
	}
	o.factors, o.correct1, o.correct2 = make([]float32, most), make([]float32, most), make([]float32, most)
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

// CatchUp applies the weight decay that the embedding rows missed, before a training
// forward reads them.
func (o *AdamW) CatchUp(rows *nn.Rows) {
	o.catchUp(&o.rows, rows.IDs, o.m.Embedding)
}

// CatchUpExperts does so for experts of a layer: nn.Activations.BeforeExperts calls it.
func (o *AdamW) CatchUpExperts(layer int, experts []int32) {
	x := o.m.Layers[layer].Mixture
	o.catchUp(o.experts[layer], experts, x.GateUp, x.Down)
}

func (o *AdamW) catchUp(l *lazy, ids []int32, params ...*nn.Param) {
	for i, id := range ids {
		o.factors[i] = o.pending(l, id)
		l.clock[id] = o.clock
	}
	for _, p := range params {
		o.m.K.ScaleRows(p.Data, o.factors, ids, len(ids), len(p.Data)/p.Shape[0])
	}
}

// pending is the factor of the decay that a row owes; 1 where it owes nothing.
func (o *AdamW) pending(l *lazy, id int32) float32 {
	if l.clock[id] == o.clock {
		return 1
	}
	return float32(math.Exp(o.clock - l.clock[id]))
}

// Effective is the model as it stands with all pending decay applied: it reads its
// embedding from table [V,D], which is overwritten, and experts through factors.
// Nothing is written back: validation, probes and export read this.
func (o *AdamW) Effective(table []float32) *nn.Model {
	copy(table, o.m.Embedding.Data)
	all := make([]int32, o.m.V)
	for id := range all {
		all[id] = int32(id)
		o.factors[id] = o.pending(&o.rows, int32(id))
	}
	o.m.K.ScaleRows(table, o.factors, all, len(all), o.m.DModel)
	experts := make([][]float32, len(o.experts))
	for i, l := range o.experts {
		if l == nil {
			continue
		}
		experts[i] = make([]float32, len(l.clock))
		for e := range experts[i] {
			experts[i][e] = o.pending(l, int32(e))
		}
	}
	return o.m.WithPending(table, experts)
}

// Step clips the gradients to the global norm and updates every dense parameter, the
// touched rows and the experts that a touched. It returns the norm before clipping. A
// norm that is not finite changes nothing: the caller ends the run.
func (o *AdamW) Step(a *nn.Activations, rows *nn.Rows, lr float64) (norm float64) {
	norm = math.Sqrt(o.sumSquares(a, rows))
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm
	}
	step := amx.AdamWStep{LR: float32(lr), Beta1: float32(o.Beta1), Beta2: float32(o.Beta2), Eps: float32(o.Eps), GradScale: 1}
	if o.ClipNorm > 0 && norm > o.ClipNorm {
		step.GradScale = float32(o.ClipNorm / norm)
	}
	o.steps++
	o.clock += math.Log1p(-lr * o.WeightDecay)
	for i, p := range o.m.Params() {
		decay := o.WeightDecay
		switch p.Kind {
		case nn.Gain:
			decay = o.NormDecay
		case nn.Vector:
			decay = 0
		}
		s := step
		s.Decay = float32(lr * decay)
		if !p.Kind.Lazy() {
			s.Correct1, s.Correct2 = o.corrections(o.steps)
			o.m.K.AdamW(p.Data, p.Grad, o.m1[i], o.m2[i], s)
		} else if p.Kind == nn.Embedding {
			o.touch(&o.rows, rows.IDs)
			o.stepRows(i, rows.IDs, rows.Grad, s)
		}
	}
	step.Decay = float32(lr * o.WeightDecay)
	for layer, l := range o.experts {
		if l == nil {
			continue
		}
		t, x := a.Touched(layer), o.m.Layers[layer].Mixture
		o.touch(l, t.IDs)
		o.stepRows(o.index(x.GateUp), t.IDs, t.GateUp, step)
		o.stepRows(o.index(x.Down), t.IDs, t.Down, step)
	}
	return norm
}

// sumSquares is of all gradients of the step, in a fixed order.
func (o *AdamW) sumSquares(a *nn.Activations, rows *nn.Rows) float64 {
	sum := 0.0
	for _, p := range o.m.Params() {
		if !p.Kind.Lazy() {
			sum += o.m.K.SumSquares(p.Grad)
		}
	}
	sum += o.m.K.SumSquares(rows.Grad[:len(rows.IDs)*o.m.DModel])
	for layer, l := range o.experts {
		if l != nil {
			t, x := a.Touched(layer), o.m.Layers[layer].Mixture
			n := len(t.IDs)
			sum += o.m.K.SumSquares(t.GateUp[:n*len(x.GateUp.Data)/x.Experts()])
			sum += o.m.K.SumSquares(t.Down[:n*len(x.Down.Data)/x.Experts()])
		}
	}
	return sum
}

// touch counts an update of rows, winds their clocks and looks up their corrections.
func (o *AdamW) touch(l *lazy, ids []int32) {
	for i, id := range ids {
		l.steps[id]++
		l.clock[id] = o.clock
		o.correct1[i], o.correct2[i] = o.corrections(l.steps[id])
	}
}

// stepRows updates rows of a parameter, by its index, from compact gradients.
func (o *AdamW) stepRows(param int, ids []int32, grad []float32, step amx.AdamWStep) {
	p := o.m.Params()[param]
	o.m.K.AdamWRows(p.Data, grad, o.m1[param], o.m2[param], ids, o.correct1, o.correct2, len(ids), len(p.Data)/p.Shape[0], step)
}

func (o *AdamW) index(p *nn.Param) int { return slices.Index(o.m.Params(), p) }

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
	Moments []Moments
	Lazy    []Lazy
	Clock   []float64 // [1]
	Steps   []int64   // [1]
}

// Moments of one parameter.
type Moments struct {
	Param         *nn.Param
	First, Second []float32
}

// Lazy is the state of the embedding's rows, or of a mixture's experts.
type Lazy struct {
	Layer int       // of the mixture; -1 for the embedding
	Clock []float64 // [V or E] decay applied to each, as the sum of its logarithms
	Steps []int64   // [V or E] updates of each
}

// State exposes the state for saving.
func (o *AdamW) State() State {
	s := State{Clock: []float64{o.clock}, Steps: []int64{o.steps}, Lazy: []Lazy{{-1, o.rows.clock, o.rows.steps}}}
	for layer, l := range o.experts {
		if l != nil {
			s.Lazy = append(s.Lazy, Lazy{layer, l.clock, l.steps})
		}
	}
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

// Grow returns the optimizer for m, which is o's model after its last growth: every
// expert and router row that copies another has its moments, its count of updates and
// its decay clock. A clock left behind would have a child meet, at its next touch, all
// the decay since the training began. o must not be used any more.
func (o *AdamW) Grow(m *nn.Model) *AdamW {
	n := New(o.Config, m)
	n.clock, n.steps, n.rows = o.clock, o.steps, o.rows
	grown := m.Grown()
	g := grown[len(grown)-1]
	for i, s := range m.Sources(o.m) {
		if s.Rows == nil {
			n.m1[i], n.m2[i] = o.m1[s.From], o.m2[s.From]
			continue
		}
		d := len(m.Params()[i].Data) / m.Params()[i].Shape[0]
		nn.CopyRows(n.m1[i], o.m1[s.From], s.Rows, d)
		nn.CopyRows(n.m2[i], o.m2[s.From], s.Rows, d)
	}
	for layer, l := range n.experts {
		if l == nil {
			continue
		}
		for e, parent := range g.Parents(len(o.experts[layer].clock)) {
			l.clock[e] = o.clock // a new expert owes nothing
			if parent >= 0 {
				l.clock[e], l.steps[e] = o.experts[layer].clock[parent], o.experts[layer].steps[parent]
			}
		}
	}
	return n
}
