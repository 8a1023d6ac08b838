package optim

import (
	"math"
	"math/rand/v2"
	"testing"

	"harness/amx"
	"harness/nn"
)

const vocab = 29

func model(k *amx.Kernels) *nn.Model {
	m := nn.New(nn.Config{DModel: 8, Layers: []nn.Mixer{nn.SWA}, DFF: 12, Heads: 2, HeadWidth: 4, StateWidth: 4, Window: 4, RopeBase: 100}, vocab, k)
	m.Init(rand.New(rand.NewPCG(1, 2)))
	return m
}

func config() Config {
	return Config{LR: 0.01, MinRatio: 0.1, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.5, ClipNorm: 1}
}

// batchOf touches exactly the given tokens.
func batchOf(tokens ...int32) nn.Batch {
	b := nn.Batch{Tokens: tokens, Starts: []int32{0}}
	for i := range tokens {
		b.Targets = append(b.Targets, tokens[(i+1)%len(tokens)])
	}
	return b
}

type trainer struct {
	m    *nn.Model
	o    *AdamW
	a    *nn.Activations
	rows *nn.Rows
	rng  *rand.Rand
}

func newTrainer(loss nn.LossConfig, counts []int64) *trainer {
	m := model(amx.Reference())
	t := &trainer{m: m, o: New(config(), m), a: nn.NewActivations(m, 64, true), rng: rand.New(rand.NewPCG(5, 6))}
	t.rows = nn.NewRows(m, loss, counts, 64)
	return t
}

func (t *trainer) step(b nn.Batch, lr float64) {
	t.rows.Plan(b, t.rng)
	t.o.CatchUp(t.rows)
	t.m.Forward(t.a, b)
	t.m.Loss(t.a, b, t.rows)
	t.m.Backward(t.a, b, t.rows)
	t.o.Step(t.a, t.rows, lr)
}

// denseAdamW is the textbook rule, in float64.
func denseAdamW(p, g, m, v []float64, c Config, lr, decay float64, t int, clip float64) {
	for i := range p {
		gi := g[i] * clip
		m[i] = c.Beta1*m[i] + (1-c.Beta1)*gi
		v[i] = c.Beta2*v[i] + (1-c.Beta2)*gi*gi
		p[i] -= lr * decay * p[i]
		p[i] -= lr * (m[i] / (1 - math.Pow(c.Beta1, float64(t)))) / (math.Sqrt(v[i]/(1-math.Pow(c.Beta2, float64(t)))) + c.Eps)
	}
}

func TestLazyEqualsDenseWhereEverythingIsTouched(t *testing.T) {
	tr := newTrainer(nn.LossConfig{Kind: nn.FullSoftmax}, nil)
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
		var grads [][]float64
		norm := 0.0
		for _, p := range tr.m.Params() {
			source := p.Grad
			if p.Kind == nn.Embedding {
				source = tr.rows.Grad // full softmax: the whole table in order
			}
			g := make([]float64, len(p.Data))
			for j, x := range source {
				g[j] = float64(x)
				norm += g[j] * g[j]
			}
			grads = append(grads, g)
		}
		clip := 1.0
		if norm = math.Sqrt(norm); norm > 1 {
			clip = 1 / norm
		}
		for i, p := range tr.m.Params() {
			decay := 0.5
			if p.Kind == nn.Gain {
				decay = 0
			}
			s := want[i]
			denseAdamW(s.p, grads[i], s.m, s.v, config(), lr, decay, n, clip)
			for j, x := range p.Data {
				if math.Abs(float64(x)-s.p[j]) > 2e-6 { // a few float32 roundings of values near 1
					t.Fatalf("update %d, %s[%d]: %g, dense %g", n, p.Name, j, x, s.p[j])
				}
				s.p[j] = float64(x) // rounding must not add up over updates
			}
		}
	}
}

func TestAnUntouchedRowMeetsItsDecayWhenItIsNextRead(t *testing.T) {
	counts := make([]int64, vocab)
	counts[0] = 1 << 40 // negatives fall on id 0 alone
	tr := newTrainer(nn.LossConfig{Kind: nn.SampledSoftmax, Negatives: 3, Power: 1, Floor: 1e-9}, counts)
	d := tr.m.DModel
	const id = 20
	row := append([]float32(nil), tr.m.Embedding.Data[id*d:(id+1)*d]...)
	decay := 1.0
	for n := range 6 {
		lr := 0.01 * float64(n+1)
		tr.step(batchOf(1, 2, 3), lr)
		decay *= 1 - lr*0.5
	}
	for i, x := range row {
		if tr.m.Embedding.Data[id*d+i] != x {
			t.Fatal("a row that no step touched has changed")
		}
	}
	effective := make([]float32, len(tr.m.Embedding.Data))
	tr.o.Effective(effective)
	kept := tr.m.Embedding.Data[id*d]
	for i, x := range row {
		if want := float64(x) * decay; math.Abs(float64(effective[id*d+i])-want) > 1e-6*math.Abs(want) {
			t.Fatalf("effective row: %g, want %g", effective[id*d+i], want)
		}
	}
	if tr.m.Embedding.Data[id*d] != kept {
		t.Fatal("Effective wrote back")
	}
	b := batchOf(1, id)
	tr.rows.Plan(b, tr.rng)
	tr.o.CatchUp(tr.rows)
	for i, x := range row {
		if got := tr.m.Embedding.Data[id*d+i]; got != effective[id*d+i] {
			t.Fatalf("caught up row: %g from %g, effective %g", got, x, effective[id*d+i])
		}
	}
	tr.o.CatchUp(tr.rows)
	if tr.m.Embedding.Data[id*d] != effective[id*d] {
		t.Fatal("decay was applied twice")
	}
	if tr.o.rows.steps[id] != 0 || tr.o.rows.steps[1] != 6 {
		t.Fatalf("updates counted: untouched %d, touched %d", tr.o.rows.steps[id], tr.o.rows.steps[1])
	}
}

// A row's bias correction counts the row's own updates: its second touch, at step
// 5, is update 2 for it.
func TestARowIsCorrectedByItsOwnUpdates(t *testing.T) {
	counts := make([]int64, vocab)
	counts[0] = 1 << 40 // negatives fall on id 0 alone
	tr := newTrainer(nn.LossConfig{Kind: nn.SampledSoftmax, Negatives: 3, Power: 1, Floor: 1e-9}, counts)
	d, c := tr.m.DModel, config()
	const id, lr = 20, 0.01
	row := tr.m.Embedding.Data[id*d : (id+1)*d]
	p, m, v := make([]float64, d), make([]float64, d), make([]float64, d)
	for i, x := range row {
		p[i] = float64(x)
	}
	updates := 0
	for n := 1; n <= 5; n++ {
		if n != 1 && n != 5 {
			tr.step(batchOf(1, 2, 3), lr)
			for i := range p {
				p[i] *= 1 - lr*c.WeightDecay
			}
			continue
		}
		tr.step(batchOf(1, id, 2), lr)
		updates++
		norm := 0.0
		g := make([]float64, d)
		for _, x := range tr.m.Params() {
			for _, y := range x.Grad {
				norm += float64(y) * float64(y)
			}
		}
		for i, touched := range tr.rows.IDs {
			for j, y := range tr.rows.Grad[i*d : (i+1)*d] {
				norm += float64(y) * float64(y)
				if touched == id {
					g[j] = float64(y)
				}
			}
		}
		denseAdamW(p, g, m, v, c, lr, c.WeightDecay, updates, min(1, c.ClipNorm/math.Sqrt(norm)))
		for i, x := range row {
			if math.Abs(float64(x)-p[i]) > 2e-6 { // a few float32 roundings of values below 1
				t.Fatalf("step %d, element %d: %.7f, by hand %.7f", n, i, x, p[i])
			}
		}
	}
}

func TestLearningRate(t *testing.T) {
	c := Config{LR: 1, MinRatio: 0.1, WarmupSteps: 9}
	for _, x := range []struct {
		step     int64
		progress float64
		want     float64
	}{{0, 0, 0.1}, {4, 0, 0.5}, {9, 0, 1}, {100, 0.5, 0.55}, {1000, 1, 0.1}, {1000, 2, 0.1}} {
		if got := c.LearningRate(x.step, x.progress); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("step %d, progress %g: %g, want %g", x.step, x.progress, got, x.want)
		}
	}
}

func TestANormThatIsNotFiniteChangesNothing(t *testing.T) {
	tr := newTrainer(nn.LossConfig{Kind: nn.FullSoftmax}, nil)
	tr.step(batchOf(1, 2, 3), 0.01)
	before := append([]float32(nil), tr.m.FinalNorm.Data...)
	tr.m.FinalNorm.Grad[0] = float32(math.NaN())
	if norm := tr.o.Step(tr.a, tr.rows, 0.01); !math.IsNaN(norm) {
		t.Fatalf("norm %g, want NaN", norm)
	}
	for i, x := range before {
		if tr.m.FinalNorm.Data[i] != x {
			t.Fatal("parameters changed")
		}
	}
}
