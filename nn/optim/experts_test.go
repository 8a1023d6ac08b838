package optim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"harness/amx"
	"harness/nn"
)

// A batch shorter than a block is routed by the first-block vector: mixtures of this
// shape use the experts that choose asks for.
func mixture(experts, topK int) nn.Config {
	return nn.Config{DModel: 8, Layers: []nn.Mixer{nn.SWA}, DFF: 12, Heads: 2, HeadWidth: 4, StateWidth: 4, Window: 4, RopeBase: 100,
		MoE: nn.MoE{Layers: []int{0}, Experts: experts, TopK: topK, DFF: 8, RouteBlock: 64, Statistic: nn.WindowMean, Balance: 0.01}}
}

func mixtureTrainer(cfg nn.Config) *trainer {
	m := nn.New(cfg, vocab, amx.Reference())
	m.Init(rand.New(rand.NewPCG(1, 2)))
	t := &trainer{rng: rand.New(rand.NewPCG(5, 6))}
	t.train(m, New(config(), m))
	return t
}

// train goes on with a model and its optimizer.
func (t *trainer) train(m *nn.Model, o *AdamW) {
	t.m, t.o = m, o
	t.a = nn.NewActivations(m, 64, true)
	t.a.BeforeExperts = func(layer int, experts []int32) { t.o.CatchUpExperts(layer, experts) }
	t.rows = nn.NewRows(m, nn.LossConfig{Kind: nn.FullSoftmax}, nil, 64)
}

func (t *trainer) grow(g nn.Growth) {
	m := t.m.Grow(g, rand.New(rand.NewPCG(7, 8)))
	t.train(m, t.o.Grow(m))
}

func (t *trainer) mixture() *nn.Mixture { return t.m.Layers[0].Mixture }

// choose has the next batch use the given experts, or their families.
func (t *trainer) choose(experts ...int) {
	x := t.mixture()
	for e := range x.Routers[0].Shape[0] {
		row := x.Routers[0].Data[e*t.m.DModel : (e+1)*t.m.DModel]
		clear(row)
		row[e] = 1
	}
	clear(x.First.Data)
	for i, e := range experts {
		x.First.Data[e] = 1 + 0.1*float32(i)
	}
}

// expert is a copy of both matrices of an expert.
func (t *trainer) expert(e int) []float32 {
	var all []float32
	for _, p := range []*nn.Param{t.mixture().GateUp, t.mixture().Down} {
		n := len(p.Data) / p.Shape[0]
		all = append(all, p.Data[e*n:(e+1)*n]...)
	}
	return all
}

// outputs are the logits of a batch by the effective model, after all pending decay.
func (t *trainer) outputs(b nn.Batch) (out []float32) {
	m := t.o.Effective(make([]float32, len(t.m.Embedding.Data)))
	a := nn.NewActivations(m, len(b.Tokens), false)
	m.Forward(a, b)
	m.Evaluate(a, b, func(_ int, row []float32) { out = append(out, row...) })
	return out
}

func apart(a, b []float32) float64 {
	worst := 0.0
	for i := range a {
		worst = max(worst, math.Abs(float64(a[i])-float64(b[i])))
	}
	return worst
}

// gradients are those of the last step, as float64, by parameter, and their norm.
func (t *trainer) gradients() (grads [][]float64, norm float64) {
	for _, p := range t.m.Params() {
		g := make([]float64, len(p.Data))
		add := func(at int, from []float32) {
			for j, x := range from {
				g[at+j] = float64(x)
				norm += float64(x) * float64(x)
			}
		}
		n := len(p.Data) / p.Shape[0]
		switch touched := t.a.Touched(0); {
		case p.Kind == nn.Embedding:
			add(0, t.rows.Grad)
		case p == t.mixture().GateUp:
			for i, e := range touched.IDs {
				add(int(e)*n, touched.GateUp[i*n:(i+1)*n])
			}
		case p == t.mixture().Down:
			for i, e := range touched.IDs {
				add(int(e)*n, touched.Down[i*n:(i+1)*n])
			}
		default:
			add(0, p.Grad)
		}
		grads = append(grads, g)
	}
	return grads, math.Sqrt(norm)
}

func TestLazyExpertsEqualDenseWhereAllAreTouched(t *testing.T) {
	tr := mixtureTrainer(mixture(3, 3))
	b := batchOf(3, 1, 4, 1, 5, 9, 2, 6)
	type state struct{ p, m, v []float64 }
	var want []state
	for _, p := range tr.m.Params() {
		s := state{make([]float64, len(p.Data)), make([]float64, len(p.Data)), make([]float64, len(p.Data))}
		for i, x := range p.Data {
			s.p[i] = float64(x)
		}
		want = append(want, s)
	}
	for n := 1; n <= 5; n++ {
		lr := 0.01 / float64(n)
		tr.step(b, lr)
		grads, norm := tr.gradients()
		for i, p := range tr.m.Params() {
			decay := 0.5
			if p.Kind == nn.Gain || p.Kind == nn.Vector {
				decay = 0
			}
			s := want[i]
			denseAdamW(s.p, grads[i], s.m, s.v, config(), lr, decay, n, min(1, 1/norm))
			for j, x := range p.Data {
				if math.Abs(float64(x)-s.p[j]) > 2e-6 { // a few float32 roundings of values near 1
					t.Fatalf("update %d, %s[%d]: %g, dense %g", n, p.Name, j, x, s.p[j])
				}
				s.p[j] = float64(x) // rounding must not add up over updates
			}
		}
	}
}

func TestAnUntouchedExpertMeetsItsDecayWhenItIsNextRead(t *testing.T) {
	tr := mixtureTrainer(mixture(6, 2))
	b := batchOf(1, 2, 3)
	before, decay := tr.expert(4), 1.0
	for n := range 6 {
		lr := 0.01 * float64(n+1)
		tr.choose(0, 1)
		tr.step(b, lr)
		decay *= 1 - lr*0.5
	}
	if !slices.Equal(tr.a.Touched(0).IDs, []int32{0, 1}) {
		t.Fatalf("touched %v", tr.a.Touched(0).IDs)
	}
	if !slices.Equal(tr.expert(4), before) {
		t.Fatal("an expert that no step touched has changed")
	}
	for i, p := range tr.m.Params() {
		if n := len(p.Data) / p.Shape[0]; p.Kind == nn.Expert && (slices.Max(tr.o.m2[i][:2*n]) == 0 || slices.Max(tr.o.m2[i][2*n:]) != 0) {
			t.Fatalf("%s: moments of experts 0 and 1 alone move", p.Name)
		}
	}
	tr.choose(4, 5)
	effective := tr.outputs(b)
	if !slices.Equal(tr.expert(4), before) {
		t.Fatal("Effective wrote back")
	}
	var caught []float32
	tr.a.BeforeExperts = func(layer int, experts []int32) {
		tr.o.CatchUpExperts(layer, experts)
		caught = tr.expert(4)
		tr.o.CatchUpExperts(layer, experts)
		if !slices.Equal(tr.expert(4), caught) {
			t.Error("decay was applied twice")
		}
	}
	var written []float32 // logits with the decay in place
	tr.rows.Plan(b, tr.rng)
	tr.o.CatchUp(tr.rows)
	tr.m.Forward(tr.a, b)
	tr.m.Evaluate(tr.a, b, func(_ int, row []float32) { written = append(written, row...) })
	for i, x := range before {
		if want := float64(x) * decay; math.Abs(float64(caught[i])-want) > 1e-6*math.Abs(want) {
			t.Fatalf("caught up: %g, want %g", caught[i], want)
		}
	}
	if !slices.Equal(effective, written) {
		t.Errorf("logits of the effective model and of the model caught up are %.3g apart", apart(effective, written))
	}
	if l := tr.o.experts[0]; l.steps[4] != 0 || l.steps[0] != 6 || l.clock[4] != tr.o.clock || l.clock[3] != 0 {
		t.Errorf("updates %v, clocks %v at %g", l.steps, l.clock, tr.o.clock)
	}
	if decay > 0.91 {
		t.Errorf("a decay of %g shows nothing", decay)
	}
}

// An expert's second update, at step 5, is update 2 for it.
func TestAnExpertIsCorrectedByItsOwnUpdates(t *testing.T) {
	tr := mixtureTrainer(mixture(6, 2))
	const lr = 0.01
	x, c := tr.mixture(), config()
	n := len(x.Down.Data) / 6
	row := x.Down.Data[4*n : 5*n]
	p, m, v := make([]float64, n), make([]float64, n), make([]float64, n)
	for i, w := range row {
		p[i] = float64(w)
	}
	updates := 0
	for step := 1; step <= 5; step++ {
		if step != 1 && step != 5 {
			tr.choose(0, 1)
			tr.step(batchOf(1, 2, 3), lr)
			for i := range p {
				p[i] *= 1 - lr*c.WeightDecay
			}
			continue
		}
		tr.choose(2, 4)
		tr.step(batchOf(1, 7, 2), lr)
		updates++
		grads, norm := tr.gradients()
		g := grads[slices.Index(tr.m.Params(), x.Down)][4*n : 5*n]
		denseAdamW(p, g, m, v, c, lr, c.WeightDecay, updates, min(1, c.ClipNorm/norm))
		for i, w := range row {
			if math.Abs(float64(w)-p[i]) > 2e-6 { // a few float32 roundings of values below 1
				t.Fatalf("step %d, element %d: %.7f, by hand %.7f", step, i, w, p[i])
			}
		}
	}
	if got := tr.o.experts[0].steps; !slices.Equal(got, []int64{3, 3, 2, 0, 2, 0}) {
		t.Errorf("updates %v", got)
	}
}

func TestANaNInAnExpertChangesNothing(t *testing.T) {
	tr := mixtureTrainer(mixture(6, 2))
	tr.choose(0, 1)
	tr.step(batchOf(1, 2, 3), 0.01)
	before, clock := tr.expert(0), tr.o.clock
	tr.a.Touched(0).Down[3] = float32(math.NaN())
	if norm := tr.o.Step(tr.a, tr.rows, 0.01); !math.IsNaN(norm) {
		t.Fatalf("norm %g, want NaN", norm)
	}
	if !slices.Equal(tr.expert(0), before) || tr.o.clock != clock || tr.o.experts[0].steps[0] != 1 {
		t.Error("something changed")
	}
}

// trained has experts of different moments, counts and clocks: 0 and 1 act at first,
// 2 and 3 at last, 4 and 5 never.
func trained() *trainer {
	tr := mixtureTrainer(mixture(6, 2))
	for n := range 6 {
		tr.choose(n/3*2, n/3*2+1)
		tr.step(batchOf(1, 2, 3, int32(n)), 0.05)
	}
	return tr
}

func TestGrowthClonesTheOptimizersState(t *testing.T) {
	for _, g := range []nn.Growth{{Experts: 12, Method: nn.Split, Jitter: 0.01}, {Experts: 24, Method: nn.Split}, {Experts: 12, Method: nn.SplitFlat}, {Experts: 8, Method: nn.InsertZero}} {
		tr := trained()
		old, names := tr.o, map[string]int{}
		for i, p := range tr.m.Params() {
			names[p.Name] = i
		}
		lazyBefore, parents := old.experts[0], g.Parents(6)
		tr.grow(g)
		if tr.o.clock != old.clock || tr.o.steps != 6 || !slices.Equal(tr.o.rows.steps, old.rows.steps) || !slices.Equal(tr.o.rows.clock, old.rows.clock) {
			t.Fatalf("%s: the run's own clock or counts are lost", g.Method)
		}
		for e, parent := range parents {
			clock, steps := tr.o.clock, int64(0)
			if parent >= 0 {
				clock, steps = lazyBefore.clock[parent], lazyBefore.steps[parent]
			}
			if l := tr.o.experts[0]; l.clock[e] != clock || l.steps[e] != steps {
				t.Errorf("%s: expert %d has clock %g and %d updates, its parent %d %g and %d", g.Method, e, l.clock[e], l.steps[e], parent, clock, steps)
			}
		}
		for i, p := range tr.m.Params() {
			from, known := names[p.Name]
			if !known {
				from = names["layers.0.moe.router"]
			}
			n := len(p.Data) / p.Shape[0]
			for r := range p.Shape[0] {
				source := r * len(old.m1[from]) / n / p.Shape[0]
				if g.Method == nn.InsertZero && (p.Kind == nn.Expert || p.Kind == nn.Router) {
					source = parents[r]
				}
				for moment, m := range [][2][]float32{{tr.o.m1[i], old.m1[from]}, {tr.o.m2[i], old.m2[from]}} {
					want := make([]float32, n)
					if source >= 0 {
						want = m[1][source*n : (source+1)*n]
					}
					if !slices.Equal(m[0][r*n:(r+1)*n], want) {
						t.Errorf("%s: %s row %d: moment %d is not that of row %d", g.Method, p.Name, r, moment+1, source)
					}
				}
			}
		}
	}
}

// A split keeps every logit, also where experts owe decay, and training goes on from
// there to another one.
func TestSplitKeepsLogitsInTraining(t *testing.T) {
	b := batchOf(4, 1, 7, 2, 9)
	for _, jitter := range []float64{0, 0.01} {
		tr := trained()
		for _, experts := range []int{12, 24} {
			outputs := func() (all [][]float32) {
				for _, families := range [][]int{{0, 1}, {2, 3}, {4, 5}} { // all there are
					tr.choose(families...)
					all = append(all, tr.outputs(b))
				}
				return all
			}
			before := outputs()
			tr.grow(nn.Growth{Experts: experts, Method: nn.Split, Jitter: jitter})
			for i, after := range outputs() {
				if !slices.Equal(after, before[i]) {
					t.Errorf("jitter %g, %d experts, pair %d: logits %.3g apart", jitter, experts, i, apart(after, before[i]))
				}
			}
			for n := range 3 {
				tr.choose(n, n+1)
				tr.step(batchOf(5, 6, int32(n)), 0.05)
			}
			if apart(outputs()[0], before[0]) < 1e-3 {
				t.Error("training after growth changes nothing")
			}
		}
	}
}

// The paper's forgotten clock: with the run's at -12, a child that starts at 0 is
// multiplied by e^-12 at its next touch, and its outputs are gone.
func TestAForgottenClock(t *testing.T) {
	b := batchOf(4, 1, 7, 2, 9)
	for _, forgotten := range []bool{false, true} {
		tr := trained()
		tr.o.clock = -12
		for _, l := range []*lazy{&tr.o.rows, tr.o.experts[0]} {
			for i := range l.clock {
				l.clock[i] = -12
			}
		}
		tr.choose(2, 3)
		before := tr.outputs(b)
		tr.grow(nn.Growth{Experts: 12, Method: nn.Split})
		if forgotten {
			clear(tr.o.experts[0].clock)
		}
		weights := tr.expert(4)
		after := tr.outputs(b)
		var caught []float32
		tr.a.BeforeExperts = func(layer int, experts []int32) {
			tr.o.CatchUpExperts(layer, experts)
			caught = tr.expert(4)
		}
		tr.m.Forward(tr.a, b)
		factor := 1.0
		if forgotten {
			factor = math.Exp(-12)
		}
		for i, w := range weights {
			if want := float64(w) * factor; math.Abs(float64(caught[i])-want) > 1e-6*math.Abs(want) {
				t.Fatalf("forgotten: %v: a child's %g became %g, want %g", forgotten, w, caught[i], want)
			}
		}
		worst := apart(before, after)
		t.Logf("forgotten: %v: logits %.3g apart", forgotten, worst)
		if !forgotten && worst != 0 || forgotten && worst < 0.05 {
			t.Errorf("forgotten: %v: logits %.3g apart", forgotten, worst)
		}
	}
}

// New experts owe nothing: inserted at a late clock, they keep what they start with.
func TestAnInsertedExpertOwesNothing(t *testing.T) {
	tr := trained()
	tr.o.clock = -12
	tr.grow(nn.Growth{Experts: 8, Method: nn.InsertZero})
	before := tr.expert(7)
	tr.o.CatchUpExperts(0, []int32{0, 7})
	if !slices.Equal(tr.expert(7), before) {
		t.Error("a new expert was decayed by what it never missed: " + fmt.Sprint(tr.expert(7)[:4], before[:4]))
	}
}
