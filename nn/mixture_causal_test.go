package nn

import (
	"slices"
	"testing"

	"harness/amx"
)

// Changing a token changes no hidden state before it, also where it helps to route: at
// every position of a document, so on both sides of every block's edge.
func TestMixturesAreCausal(t *testing.T) {
	for _, statistic := range []Statistic{WindowMean, PrefixMean} {
		cfg := tinyMixture()
		cfg.MoE.Layers, cfg.MoE.Statistic, cfg.MoE.Shared = []int{0, 1}, statistic, 1
		m := randomModel(cfg, tinyVocab, amx.Reference(), 72)
		b := packedBatch(tinyVocab, rng(73), 37, 11)
		a := NewActivations(m, len(b.Tokens), false)
		routing := func() (gates [][]float32) { // of the first mixture, by block
			r := &a.layers[0].routing
			for _, block := range a.blocks {
				gates = append(gates, slices.Clone(r.Gates[block.Item*r.k:(block.Item+1)*r.k]))
			}
			return gates
		}
		m.Forward(a, b)
		hidden, gates := slices.Clone(a.Hidden), routing()
		for at := range b.Tokens {
			token := b.Tokens[at]
			b.Tokens[at] = (token + 1) % tinyVocab
			m.Forward(a, b)
			b.Tokens[at] = token
			d := m.DModel
			if !slices.Equal(hidden[:at*d], a.Hidden[:at*d]) {
				t.Fatalf("%s: token %d changes hidden states before it", statistic, at)
			}
			if slices.Equal(hidden[at*d:(at+1)*d], a.Hidden[at*d:(at+1)*d]) {
				t.Fatalf("%s: token %d does not change its own hidden state", statistic, at)
			}
			// It routes the next block of its document and, by prefix, those behind it.
			for i, after := range routing() {
				block := a.blocks[i]
				same := at < 37 == (block.Lo < 37)
				routes := same && block.Lo > at && !block.First() && (statistic == PrefixMean || block.Lo-at <= cfg.MoE.RouteBlock)
				changed := !slices.Equal(gates[i], after)
				if changed && (!same || block.Lo <= at) || routes && !changed {
					t.Fatalf("%s: token %d, block %+v: gates changed: %v, routed by the token: %v", statistic, at, block, changed, routes)
				}
			}
		}
	}
}
