package nn

import (
	"testing"

	"harness/amx"
)

// tinyMixture routes blocks of 8 tokens in the first of two layers.
func tinyMixture() Config {
	cfg := tinyConfig()
	cfg.MoE = MoE{Layers: []int{0}, Experts: 6, TopK: 2, DFF: 12, RouteBlock: 8, Statistic: WindowMean, Balance: 0.5}
	return cfg
}

// choices are the experts of every item in every mixture.
func choices(a *Activations) []int32 {
	var all []int32
	for i := range a.layers {
		all = append(all, a.layers[i].routing.Experts...)
	}
	return all
}

// balanceLoss is the balance loss of the last forward in float64, by its definition.
func balanceLoss(m *Model, a *Activations) float64 {
	total := 0.0
	for i := range m.Layers {
		x := m.Layers[i].Mixture
		if x == nil || a.routed == 0 {
			continue
		}
		last := len(x.Routers) - 1
		for e, f := range x.Load {
			mean := 0.0
			for _, b := range a.blocks {
				if !b.First() {
					mean += float64(b.Hi-b.Lo) / float64(a.routed) * x.reach(&a.layers[i].routing, b.Item, last, e)
				}
			}
			total += m.MoE.Balance * float64(x.Experts()) * f * mean
		}
	}
	return total
}

// checkMixtureGradients is checkGradients on a mixture whose balance loss has a gradient.
func checkMixtureGradients(t *testing.T, cfg Config, lengths []int, grown ...Growth) {
	t.Helper()
	m, r := randomModel(cfg, tinyVocab, amx.Reference(), 50, grown...), rng(51)
	unevenLoad(m)
	b := packedBatch(tinyVocab, r, lengths...)
	compareWithDifferences(t, m, b, NewRows(m, LossConfig{Kind: FullSoftmax}, nil, len(b.Tokens)), r)
}

// unevenLoad gives the balance loss a gradient, which it has not where loads are even.
func unevenLoad(m *Model) {
	for i := range m.Layers {
		if x := m.Layers[i].Mixture; x != nil {
			for e := range x.Load {
				x.Load[e] = float64(e+1) / float64(len(x.Load))
			}
		}
	}
}

// mixtureGradientOf is gradientOf for experts too.
func mixtureGradientOf(m *Model, a *Activations, p *Param, rows *Rows) []float64 {
	if p.Kind != Expert {
		return gradientOf(p, rows)
	}
	g := make([]float64, len(p.Data))
	for i := range m.Layers {
		x := m.Layers[i].Mixture
		if x == nil || p != x.GateUp && p != x.Down {
			continue
		}
		touched := a.Touched(i)
		grad := touched.Down
		if p == x.GateUp {
			grad = touched.GateUp
		}
		for at, e := range touched.IDs {
			for j := range p.row() {
				g[int(e)*p.row()+j] = float64(grad[at*p.row()+j])
			}
		}
	}
	return g
}

func TestMixtureGradients(t *testing.T) {
	documents := []int{50, 3, 8, 41}
	t.Run("window", func(t *testing.T) {
		t.Parallel()
		checkMixtureGradients(t, tinyMixture(), documents)
	})
	t.Run("prefix, both layers, gate scale, silu", func(t *testing.T) {
		t.Parallel()
		cfg := tinyMixture()
		cfg.MoE.Layers, cfg.MoE.Statistic, cfg.MoE.GateScale, cfg.Activation = []int{0, 1}, PrefixMean, 1.5, SiLU
		checkMixtureGradients(t, cfg, documents)
	})
	t.Run("shared experts", func(t *testing.T) {
		t.Parallel()
		cfg := tinyMixture()
		cfg.MoE.Shared, cfg.MoE.SharedDFF = 2, 5
		checkMixtureGradients(t, cfg, documents)
	})
	t.Run("after two splits", func(t *testing.T) {
		t.Parallel()
		cfg := tinyMixture()
		cfg.MoE.Experts = 3
		checkMixtureGradients(t, cfg, documents, Growth{Experts: 6, Method: Split}, Growth{Experts: 12, Method: Split})
	})
	t.Run("spans longer than a block of tokens", func(t *testing.T) {
		t.Parallel()
		cfg := tinyMixture()
		cfg.MoE.Experts, cfg.MoE.RouteBlock = 2, 100
		checkMixtureGradients(t, cfg, []int{tokenBlock + 90, 30})
	})
}
