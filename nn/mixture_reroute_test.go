package nn

import (
	"slices"
	"testing"

	"harness/amx"
)

// Reroute is called once a mixture and forward, when routing is complete; what it
// changes is what acts, and gates stay with their slots.
func TestReroute(t *testing.T) {
	cfg := tinyMixture()
	cfg.Layers, cfg.MoE.Layers = []Mixer{Lin, SWA, Lin}, []int{0, 2}
	m := randomModel(cfg, tinyVocab, amx.Reference(), 110)
	b := packedBatch(tinyVocab, rng(111), 50, 3, 20)
	a := NewActivations(m, len(b.Tokens), false)
	hidden := func(reroute func(layer int, blocks []Block, r *Routing)) []float32 {
		a.Reroute = reroute
		m.Forward(a, b)
		return slices.Clone(a.Hidden[:len(b.Tokens)*m.DModel])
	}
	routed := hidden(nil)
	var layers []int
	same := hidden(func(layer int, blocks []Block, r *Routing) {
		layers = append(layers, layer)
		if len(blocks) != 7+1+3 || len(r.Experts) != 2*(1+6+2) || len(r.Gates) != len(r.Experts) {
			t.Errorf("layer %d: %d blocks, %d experts, %d gates", layer, len(blocks), len(r.Experts), len(r.Gates))
		}
	})
	if !slices.Equal(layers, []int{0, 2}) || !slices.Equal(same, routed) {
		t.Errorf("called for layers %v; a hook that changes nothing leaves the same states: %v", layers, slices.Equal(same, routed))
	}
	// Another choice for the last routed item alone: the last block of the last document.
	last := hidden(func(layer int, _ []Block, r *Routing) {
		if layer == 2 {
			for j := range r.k {
				r.Experts[len(r.Experts)-r.k+j] = (r.Experts[len(r.Experts)-r.k+j] + 2) % 6
			}
			slices.Sort(r.Experts[len(r.Experts)-r.k:])
		}
	})
	at := (50 + 3 + 16) * m.DModel
	if !slices.Equal(last[:at], routed[:at]) || slices.Equal(last[at:], routed[at:]) {
		t.Error("rerouting one block changes that block, and no other")
	}
	// The experts that would act anyway, by force: the hook's choice is what acts.
	one := hidden(func(_ int, _ []Block, r *Routing) {
		for i := range r.Experts {
			r.Experts[i] = int32(i % r.k)
		}
	})
	for i := range m.Layers {
		if x := m.Layers[i].Mixture; x != nil {
			for e := 2; e < 6; e++ {
				clear(x.Down.Data[e*x.Down.row() : (e+1)*x.Down.row()])
			}
		}
	}
	again := hidden(func(_ int, _ []Block, r *Routing) {
		for i := range r.Experts {
			r.Experts[i] = int32(i % r.k)
		}
	})
	if !slices.Equal(one, again) {
		t.Error("experts that the hook left out still act")
	}
	if a.Touched(0) != nil {
		t.Error("an inference forward lists touched experts")
	}
}

// Touched and RouterStats belong to mixtures.
func TestDenseLayersHaveNoRouting(t *testing.T) {
	m := randomModel(tinyMixture(), tinyVocab, amx.Reference(), 112)
	a := NewActivations(m, 40, true)
	m.Forward(a, packedBatch(tinyVocab, rng(113), 40))
	if a.Touched(0) == nil || a.Touched(1) != nil {
		t.Errorf("touched experts of a mixture: %v, of a dense layer: %v", a.Touched(0) != nil, a.Touched(1) != nil)
	}
	defer func() {
		if recover() == nil {
			t.Error("router statistics of a dense layer")
		}
	}()
	a.RouterStats(1)
}
