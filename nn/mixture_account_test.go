package nn

import (
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"harness/amx"
)

// The paper's totals (section 2). Its "active" is what multiplies a token but for shared
// experts, with 68 readout rows and a router's row of scores a block of 256; its stored
// total has 257 more parameters a mixture (follow-up: 4 more) than these tensors, where
// the first-block vector of 256 stands already.
func TestReleasedMixturesCountAsPublished(t *testing.T) {
	cfg := Config{DModel: 256, Layers: []Mixer{Lin, SWA, SWA, Lin, SWA, Lin}, DFF: 640, Heads: 2, HeadWidth: 32, StateWidth: 32, Window: 256, RopeBase: 1e4}
	release := MoE{Layers: []int{0, 3, 5}, Experts: 256, TopK: 4, DFF: 160, Shared: 1, RouteBlock: 256, Statistic: WindowMean}
	followUp := MoE{Layers: []int{0, 3, 5}, Experts: 64, TopK: 4, DFF: 160, Shared: 2, SharedDFF: 80, RouteBlock: 256, Statistic: WindowMean}
	for _, x := range []struct {
		name           string
		moe            MoE
		stored, active int // as published
		less           int // parameters a mixture that these tensors lack
	}{
		{"released", release, 100_956_515, 3_316_320, 513 - 256},
		{"follow-up", followUp, 30_029_420, 3_315_744, 260 - 256},
	} {
		cfg.MoE = x.moe
		m := New(cfg, 16384, amx.Reference()) // its memory is never touched
		a, e := m.Account(LossConfig{Kind: FullSoftmax}), x.moe.Experts
		if a.Stored != x.stored-3*x.less {
			t.Errorf("%s: %d stored; published %d, less %d a mixture", x.name, a.Stored, x.stored, x.less)
		}
		if active := a.Body + a.ExpertsActive + 68*a.EmbeddingRow + 3*e*256/256; active != x.active {
			t.Errorf("%s: %d active; published %d", x.name, active, x.active)
		}
		for what, got := range map[string][2]int{
			"shared":         {a.Shared, 3 * 3 * 256 * 160},
			"router":         {a.Router, 3 * (e + 1) * 256},
			"active experts": {a.ExpertsActive, 3 * 4 * 3 * 256 * 160},
			"stored experts": {a.ExpertsStored, 3 * e * 3 * 256 * 160},
			"parts":          {a.Body + a.Shared + a.Router + a.ExpertsStored + 16384*256, a.Stored},
			"route block":    {a.RouteBlock, 256},
		} {
			if got[0] != got[1] {
				t.Errorf("%s, %s: %d, want %d", x.name, what, got[0], got[1])
			}
		}
		if got, want := a.PerToken(), float64(a.Body+a.Shared+a.ExpertsActive)+3*float64(e+1); got != want {
			t.Errorf("%s: %g per token, want %g", x.name, got, want)
		}
		m = nil
		debug.FreeOSMemory()
	}
}

// A split adds a router level and doubles what is stored; what is active stays.
func TestAccountAfterSplits(t *testing.T) {
	before := New(growing(), tinyVocab, amx.Reference()).Account(LossConfig{})
	after := New(growing(), tinyVocab, amx.Reference(), Growth{Experts: 32, Method: Split}).Account(LossConfig{})
	want := before
	want.ExpertsStored *= 4
	want.Router += 2 * (16 + 32) * 16
	want.Stored += 3*before.ExpertsStored + 2*(16+32)*16
	if after != want {
		t.Errorf("after 8 became 32: %+v, want %+v", after, want)
	}
}

// Experts start as the dense MLP of the width that acts on a token.
func TestMixtureInitMoments(t *testing.T) {
	for _, shared := range []int{0, 2} {
		cfg := Config{DModel: 64, Layers: []Mixer{Lin, SWA}, DFF: 96, Heads: 2, HeadWidth: 16, StateWidth: 16, Window: 32, RopeBase: 100,
			MoE: MoE{Layers: []int{0}, Experts: 16, TopK: 4, DFF: 40, Shared: shared, SharedDFF: 24, RouteBlock: 32, Statistic: WindowMean}}
		m := New(cfg, 64, amx.Reference(), Growth{Experts: 32, Method: Split})
		m.Init(rng(95))
		residual := 1 / math.Sqrt(4)
		wide := 4*40 + 24*float64(shared)
		want := map[string]float64{
			"moe.first": 1, "moe.router": 1 / math.Sqrt(64), "moe.router.1": 1 / math.Sqrt(64),
			"moe.gate_up": 1 / math.Sqrt(64), "moe.down": residual / math.Sqrt(wide),
			"moe.shared.gate_up": 1 / math.Sqrt(64), "moe.shared.down": residual / math.Sqrt(wide),
		}
		seen := 0
		for _, p := range m.Params() {
			w, ok := want[strings.TrimPrefix(p.Name, "layers.0.")]
			if !ok {
				continue
			}
			seen++
			mean, square := 0.0, 0.0
			for _, x := range p.Data {
				mean += float64(x)
				square += float64(x) * float64(x)
			}
			n := float64(len(p.Data))
			mean /= n
			std := math.Sqrt(square/n - mean*mean)
			// Standard error of a standard deviation is std/sqrt(2n); of a mean std/sqrt(n).
			if math.Abs(std-w) > 4*w/math.Sqrt(2*n) || math.Abs(mean) > 4*w/math.Sqrt(n) {
				t.Errorf("%s: mean %g, std %g, want 0 and %g", p.Name, mean, std, w)
			}
		}
		if seen != 5+shared {
			t.Errorf("%d tensors seen with %d shared experts", seen, shared)
		}
	}
}

// Without its coefficient the balance loss is in nobody's gradient, and is still
// measured; with it, routers have another gradient.
func TestBalanceCoefficient(t *testing.T) {
	b := packedBatch(tinyVocab, rng(96), 50, 3, 8, 41)
	router := func(balance float64, even bool) (grads [][]float64, stats RouterStats) {
		cfg := tinyMixture()
		cfg.MoE.Balance = balance
		m := randomModel(cfg, tinyVocab, amx.Reference(), 97)
		if x := m.Layers[0].Mixture; !even {
			copy(x.Load, []float64{0.5, 0.3, 0.1, 0.1, 0, 0})
		}
		a := NewActivations(m, len(b.Tokens), true)
		rows := NewRows(m, LossConfig{Kind: FullSoftmax}, nil, len(b.Tokens))
		gradients(m, a, b, rows)
		for _, p := range m.Params() {
			grads = append(grads, mixtureGradientOf(m, a, p, rows))
		}
		return grads, a.RouterStats(0)
	}
	uneven, stats := router(0, false)
	even, level := router(0, true)
	if fmt.Sprint(uneven) != fmt.Sprint(even) {
		t.Error("with coefficient 0 the load is in a gradient")
	}
	if math.Abs(level.Balance-1) > 1e-6 || math.Abs(stats.Balance-1) < 1e-3 {
		t.Errorf("balance %g of an even load, %g of an uneven one", level.Balance, stats.Balance)
	}
	if with, _ := router(0.5, false); fmt.Sprint(with) == fmt.Sprint(uneven) {
		t.Error("with coefficient 0.5 no gradient changes")
	}
}

// By its definition; first blocks, and documents shorter than a block, leave the load alone.
func TestObservedLoad(t *testing.T) {
	m := randomModel(tinyMixture(), tinyVocab, amx.Reference(), 98)
	x, k := m.Layers[0].Mixture, 2
	a := NewActivations(m, 102, true)
	want := make([]float64, 6)
	for e := range want {
		want[e] = 1.0 / 6
	}
	for _, lengths := range [][]int{{50, 3, 8, 41}, {8, 5, 8}, {30}} {
		b := packedBatch(tinyVocab, rng(99), lengths...)
		m.Forward(a, b)
		m.ObserveLoad(a)
		routed, tokens := 0, make([]float64, 6)
		for _, block := range a.blocks {
			if !block.First() {
				routed += block.Hi - block.Lo
				for _, e := range a.layers[0].routing.chosen(block.Item) {
					tokens[e] += float64(block.Hi - block.Lo)
				}
			}
		}
		sum := 0.0
		for e := range want {
			if routed > 0 {
				want[e] = 0.99*want[e] + 0.01*tokens[e]/float64(routed*k)
			}
			sum += x.Load[e]
			if math.Abs(x.Load[e]-want[e]) > 1e-12 {
				t.Errorf("%v: load of expert %d %g, by hand %g", lengths, e, x.Load[e], want[e])
			}
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("%v: loads add up to %g", lengths, sum)
		}
	}
}
