package nn

import (
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"harness/amx"
)

// trainLoss is one forward and loss under fixed rows; float64 all the way from
// the per-position losses.
func trainLoss(m *Model, a *Activations, b Batch, rows *Rows) float64 {
	m.Forward(a, b)
	return m.Loss(a, b, rows).Mean()
}

func gradients(m *Model, a *Activations, b Batch, rows *Rows) {
	rows.Plan(b, rng(21))
	m.Forward(a, b)
	m.Loss(a, b, rows)
	m.Backward(a, b, rows)
}

// gradientOf returns the parameter's whole gradient as float64, the embedding's
// scattered back from the touched rows.
func gradientOf(p *Param, rows *Rows) []float64 {
	g := make([]float64, len(p.Data))
	if p.Kind != Embedding {
		for i, x := range p.Grad {
			g[i] = float64(x)
		}
		return g
	}
	d := p.Shape[1]
	for i, id := range rows.IDs {
		for j := range d {
			g[int(id)*d+j] += float64(rows.Grad[i*d+j])
		}
	}
	return g
}

// slope is the central difference of the objective along direction, with one
// Richardson step to remove the third-order term; steady says that the experts were
// those of routed all the way: where they change the objective has a jump.
func slope(m *Model, a *Activations, b Batch, rows *Rows, p *Param, direction []float64, eps float64, routed []int32) (s float64, steady bool) {
	kept, steady := slices.Clone(p.Data), true
	at := func(h float64) float64 {
		for i := range p.Data {
			p.Data[i] = float32(float64(kept[i]) + h*direction[i])
		}
		loss := trainLoss(m, a, b, rows) + balanceLoss(m, a)
		steady = steady && slices.Equal(routed, choices(a))
		return loss
	}
	d1 := (at(eps) - at(-eps)) / (2 * eps)
	d2 := (at(2*eps) - at(-2*eps)) / (4 * eps)
	copy(p.Data, kept)
	return (4*d1 - d2) / 3, steady
}

func checkGradients(t *testing.T, cfg Config, loss LossConfig, lengths ...int) {
	t.Helper()
	m := randomModel(cfg, tinyVocab, amx.Reference(), 20)
	r := rng(22)
	b := packedBatch(tinyVocab, r, lengths...)
	counts := make([]int64, tinyVocab)
	for i := range counts {
		counts[i] = int64(1000 / (i + 1))
	}
	compareWithDifferences(t, m, b, NewRows(m, loss, counts, len(b.Tokens)), r)
}

// compareWithDifferences checks the gradient of every parameter: along itself, along a
// random direction, along the axes of two single elements and of three that the
// gradient says matter, since many rows go unused. Where a choice of experts flips a
// point is skipped.
func compareWithDifferences(t *testing.T, m *Model, b Batch, rows *Rows, r *rand.Rand) {
	t.Helper()
	a := NewActivations(m, len(b.Tokens), true)
	gradients(m, a, b, rows)
	routed := slices.Clone(choices(a))
	flipped, checked := 0, 0
	for _, p := range m.Params() {
		g := mixtureGradientOf(m, a, p, rows)
		norm := 0.0
		for _, x := range g {
			norm += x * x
		}
		norm = math.Sqrt(norm)
		if norm == 0 {
			t.Errorf("%s: gradient is all zero", p.Name)
			continue
		}
		for trial := range 7 {
			direction := make([]float64, len(g))
			switch {
			case trial == 0:
				for i := range g {
					direction[i] = g[i] / norm
				}
			case trial == 1:
				for i := range g {
					direction[i] = r.NormFloat64() / math.Sqrt(float64(len(g)))
				}
			default:
				at := r.IntN(len(g))
				for trial >= 4 && g[at] == 0 {
					at = r.IntN(len(g))
				}
				direction[at] = 1
			}
			want := 0.0
			for i := range g {
				want += g[i] * direction[i]
			}
			got, steady := slope(m, a, b, rows, p, direction, 4e-3, routed)
			if !steady {
				flipped++
				continue
			}
			checked++
			// float32 activations leave about 1e-7 of noise in the loss, 3e-5 in a slope.
			if math.Abs(got-want) > 1e-2*math.Abs(want)+1e-4*math.Max(1, norm) {
				t.Errorf("%s, direction %d: analytic %.6g, central difference %.6g (gradient norm %.3g)", p.Name, trial, want, got, norm)
			}
		}
	}
	if flipped*5 > checked {
		t.Errorf("%d points skipped, %d checked: too few", flipped, checked)
	}
}

func TestGradients(t *testing.T) {
	full := LossConfig{Kind: FullSoftmax}
	t.Run("relu2, full softmax, edges inside blocks and chunks", func(t *testing.T) {
		t.Parallel()
		checkGradients(t, tinyConfig(), full, 100, 1, 2, 30)
	})
	t.Run("silu", func(t *testing.T) {
		t.Parallel()
		cfg := tinyConfig()
		cfg.Activation = SiLU
		checkGradients(t, cfg, full, 40, 30)
	})
	t.Run("window wider than a query block", func(t *testing.T) {
		t.Parallel()
		cfg := tinyConfig()
		cfg.Layers, cfg.Window = []Mixer{SWA, Lin}, 70
		checkGradients(t, cfg, full, 130)
	})
	// Three chunks, the last one long enough to matter, before a document of two: the
	// state's gradient passes a whole chunk, and ends with its document.
	t.Run("lin across chunks and documents", func(t *testing.T) {
		t.Parallel()
		cfg := tinyConfig()
		cfg.Layers = []Mixer{Lin}
		checkGradients(t, cfg, full, 150, 80)
	})
	t.Run("two blocks of tokens", func(t *testing.T) {
		t.Parallel()
		checkGradients(t, tinyConfig(), full, tokenBlock-40, 190)
	})
	t.Run("sampled softmax", func(t *testing.T) {
		t.Parallel()
		checkGradients(t, tinyConfig(), LossConfig{Kind: SampledSoftmax, Negatives: 20, Power: 0.75, Floor: 1}, 60, 20)
	})
}

// Fast kernels must give the reference's loss and gradients on the same model.
func TestFastKernelsAgreeOnTheWholeModel(t *testing.T) {
	cfg := Config{DModel: 64, Layers: []Mixer{Lin, SWA}, DFF: 96, Activation: ReLU2, Heads: 2, HeadWidth: 32, StateWidth: 32, Window: 48, RopeBase: 100}
	t.Run("dense", func(t *testing.T) { fastKernelsAgree(t, cfg) })
	cfg.MoE = MoE{Layers: []int{0, 1}, Experts: 8, TopK: 2, DFF: 48, Shared: 1, SharedDFF: 32, RouteBlock: 32, Statistic: PrefixMean, Balance: 0.01}
	t.Run("mixture", func(t *testing.T) { fastKernelsAgree(t, cfg) })
	t.Run("mixture after a split", func(t *testing.T) { fastKernelsAgree(t, cfg, Growth{Experts: 16, Method: Split}) })
}

func fastKernelsAgree(t *testing.T, cfg Config, grown ...Growth) {
	b := packedBatch(500, rng(30), 100, 3, 153)
	var routed []int32
	var losses []float64
	var grads [][]float64
	for _, k := range kernelSets(t) {
		m := randomModel(cfg, 500, k, 31, grown...)
		unevenLoad(m)
		a := NewActivations(m, len(b.Tokens), true)
		rows := NewRows(m, LossConfig{Kind: FullSoftmax}, nil, len(b.Tokens))
		gradients(m, a, b, rows)
		if got := choices(a); routed == nil {
			routed = got
		} else if !slices.Equal(got, routed) {
			t.Errorf("%s: other experts than the reference's", k.Name)
		}
		losses = append(losses, trainLoss(m, a, b, rows))
		var all []float64
		for _, p := range m.Params() {
			g := mixtureGradientOf(m, a, p, rows)
			if len(grads) > 0 {
				want := grads[0][len(all) : len(all)+len(g)]
				num, den := 0.0, 0.0
				for i := range g {
					num += (g[i] - want[i]) * (g[i] - want[i])
					den += want[i] * want[i]
				}
				// Sums of a few hundred float32 products: relative error some 1e-6, squared. A
				// format's error passes ten products or so, and they amplify it; in a router's
				// gradient, of differences between experts, most of the value cancels as well.
				e, passed := k.Arithmetic.GemmError(), 100.0
				if p.Kind == Router || p.Kind == Vector {
					passed = 1000
				}
				if num > max(1e-9, passed*e*e)*den {
					t.Errorf("%s, %s: normalised squared error of the gradient %.3g", k.Name, p.Name, num/den)
				}
			}
			all = append(all, g...)
		}
		grads = append(grads, all)
		if d := math.Abs(losses[0] - losses[len(losses)-1]); d > max(1e-5, k.Arithmetic.GemmError()) {
			t.Errorf("%s: losses %.8f and %.8f", k.Name, losses[0], losses[len(losses)-1])
		}
	}
}

// A second step's gradients owe nothing to the first's.
func TestBackwardOverwritesGradients(t *testing.T) {
	for _, cfg := range []Config{tinyConfig(), tinyMixture()} {
		for _, loss := range []LossConfig{{Kind: FullSoftmax}, {Kind: SampledSoftmax, Negatives: 16, Power: 0.75, Floor: 1}} {
			m := randomModel(cfg, tinyVocab, amx.Reference(), 43)
			b := packedBatch(tinyVocab, rng(44), 100, 20)
			a := NewActivations(m, len(b.Tokens), true)
			rows := NewRows(m, loss, make([]int64, tinyVocab), len(b.Tokens))
			var first [][]float64
			for step := range 2 {
				gradients(m, a, b, rows)
				for i, p := range m.Params() {
					g := mixtureGradientOf(m, a, p, rows)
					if step == 0 {
						first = append(first, g)
					} else if !slices.Equal(g, first[i]) {
						t.Errorf("%s, %s: another gradient the second time", loss.Kind, p.Name)
					}
				}
			}
		}
	}
}

// TestTrainingStepAllocatesNothing: nor does a step with longer documents, more
// columns or more experts than any before it.
func TestTrainingStepAllocatesNothing(t *testing.T) {
	cfg := tinyConfig()
	cfg.DModel = 64
	t.Run("dense", func(t *testing.T) { stepAllocatesNothing(t, cfg) })
	cfg.MoE = MoE{Layers: []int{0, 1}, Experts: 40, TopK: 2, DFF: 24, Shared: 1, RouteBlock: 16, Statistic: WindowMean, Balance: 0.01}
	t.Run("mixture", func(t *testing.T) { stepAllocatesNothing(t, cfg) })
	cfg.MoE.Statistic = PrefixMean
	t.Run("mixture after a split", func(t *testing.T) { stepAllocatesNothing(t, cfg, Growth{Experts: 80, Method: Split}) })
}

func stepAllocatesNothing(t *testing.T, cfg Config, grown ...Growth) {
	const vocab, tokens = 3000, 300
	defer debug.SetGCPercent(debug.SetGCPercent(-1))                             // the count is the process's: a collection may allocate
	first := packedBatch(vocab, rng(41), slices.Repeat([]int{10}, tokens/10)...) // routes nothing
	for i := range first.Targets {
		first.Targets[i] = first.Targets[0] // few columns
	}
	long, mixed := packedBatch(vocab, rng(42), tokens), packedBatch(vocab, rng(44), 5, 16, 100, 33, 1, 145)
	for _, k := range kernelSets(t)[1:] {
		for _, order := range [][]Batch{{first, long, mixed, long}, {long, first, mixed, first}} { // few experts with long runs of tokens, or many with short ones
			m := randomModel(cfg, vocab, k, 40, grown...)
			a := NewActivations(m, tokens, true)
			rows := NewRows(m, LossConfig{Kind: SampledSoftmax, Negatives: 1000, Power: 0.75, Floor: 1}, make([]int64, vocab), tokens)
			r := rng(43)
			var columns, experts []int
			touched := 0
			a.BeforeExperts = func(_ int, experts []int32) { touched += len(experts) }
			for i, b := range order {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				touched = 0
				rows.Plan(b, r)
				m.Forward(a, b)
				m.Loss(a, b, rows)
				m.Backward(a, b, rows)
				m.ObserveLoad(a)
				runtime.ReadMemStats(&after)
				columns, experts = append(columns, rows.Scored), append(experts, touched)
				if n := after.Mallocs - before.Mallocs; i > 0 && n != 0 {
					t.Errorf("%s: %d allocations in the last of steps of %v columns and %v experts", k.Name, n, columns, experts)
				}
			}
			if columns[0] == columns[1] || m.mixture() != nil && experts[0] == experts[1] {
				t.Errorf("%s: steps of %v columns and %v experts are alike", k.Name, columns, experts)
			}
		}
	}
}
