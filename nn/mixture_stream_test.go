package nn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"harness/amx"
)

// streamed feeds a document token by token. It returns the logits [N][V] and, by
// mixture, the experts of every block.
func streamed(m *Model, tokens []int32) (rows [][]float64, blocks map[int][][]int32) {
	s := NewStream(m)
	blocks = map[int][][]int32{}
	for i, token := range tokens {
		row := make([]float64, 0, m.V)
		for _, x := range s.Next(token) {
			row = append(row, float64(x))
		}
		rows = append(rows, row)
		for layer := range m.Layers {
			if c := s.layers[layer].mixture; c != nil && i%m.MoE.RouteBlock == 0 {
				blocks[layer] = append(blocks[layer], slices.Clone(c.routing.Experts))
			}
		}
	}
	return rows, blocks
}

// margin is how near an item's choice is to another one: the score of the last family
// chosen less that of the first left out, or what parts siblings of a chosen family.
func (m *Model) margin(x *Mixture, r *Routing, item int) float64 {
	d, n := m.DModel, x.families()
	scores := slices.Clone(r.scores[item*n : (item+1)*n])
	slices.Sort(scores)
	least := math.Inf(1)
	if k := m.MoE.TopK; k < n {
		least = float64(scores[n-k]) - float64(scores[n-k-1])
	}
	stat := r.stat[item*d : (item+1)*d]
	for _, e := range r.chosen(item) {
		for level := len(x.Routers) - 1; level > 0; level-- {
			first := int(e) &^ 1
			row := x.Routers[level].Data[first*d:]
			least = min(least, math.Abs(float64(dot(row[:d], stat))-float64(dot(row[d:2*d], stat))))
			e /= 2
		}
	}
	return least
}

func TestStreamedMixturesEqualTheBatchedForward(t *testing.T) {
	for _, k := range kernelSets(t) {
		for name, change := range map[string]func(*MoE) []Growth{
			"window":           func(*MoE) []Growth { return nil },
			"prefix, shared":   func(c *MoE) []Growth { c.Statistic, c.Shared, c.SharedDFF = PrefixMean, 2, 5; return nil },
			"window, 2 splits": func(*MoE) []Growth { return []Growth{{Experts: 12, Method: Split}, {Experts: 24, Method: Split}} },
			"prefix, 4 at once": func(c *MoE) []Growth {
				c.Statistic = PrefixMean
				return []Growth{{Experts: 24, Method: Split}}
			},
		} {
			t.Run(fmt.Sprintf("%s, %s", k.Name, name), func(t *testing.T) {
				cfg := tinyMixture()
				cfg.MoE.Layers = []int{0, 1}
				grown := change(&cfg.MoE)
				m := randomModel(cfg, tinyVocab, k, 80, grown...)
				b := packedBatch(tinyVocab, rng(81), 75)
				want := logits(m, b)
				a := NewActivations(m, len(b.Tokens), false)
				m.Forward(a, b)
				got, blocks := streamed(m, b.Tokens)
				// Where operands are rounded, a difference in the last place can tip a rounding, here
				// and in the statistics; a choice that is nearer than that can tip too.
				tolerance := max(1e-4, 5*k.Arithmetic.GemmError())
				compared := len(b.Tokens)
				for layer := range m.Layers {
					r := &a.layers[layer].routing
					for i, experts := range blocks[layer] {
						if slices.Equal(experts, r.chosen(i)) {
							continue
						}
						if margin := m.margin(m.Layers[layer].Mixture, r, i); margin > max(1e-3, tolerance) {
							t.Fatalf("layer %d, block %d: streamed %v, batched %v, margin %.3g", layer, i, experts, r.chosen(i), margin)
						}
						compared = min(compared, i*cfg.MoE.RouteBlock)
					}
				}
				if compared < len(b.Tokens)/2 {
					t.Fatalf("choices part at token %d: another seed shows more", compared)
				}
				for i := range compared {
					for j, x := range got[i] {
						if d := math.Abs(x - want[i][j]); !(d <= tolerance*(1+math.Abs(want[i][j]))) {
							t.Fatalf("position %d, token %d: streamed %g, batched %g", i, j, x, want[i][j])
						}
					}
				}
			})
		}
	}
}

// A second document after Reset owes nothing to the first, nor does the first block.
func TestResetForgetsTheStatistic(t *testing.T) {
	cfg := tinyMixture()
	cfg.MoE.Statistic = PrefixMean
	m := randomModel(cfg, tinyVocab, amx.Reference(), 82)
	first, second := packedBatch(tinyVocab, rng(83), 21).Tokens, packedBatch(tinyVocab, rng(84), 30).Tokens
	want, _ := streamed(m, second)
	s := NewStream(m)
	for _, token := range first { // ends inside a block
		s.Next(token)
	}
	s.Reset()
	for i, token := range second {
		for j, x := range s.Next(token) {
			if float64(x) != want[i][j] {
				t.Fatalf("position %d, token %d: %g after Reset, %g in a new stream", i, j, x, want[i][j])
			}
		}
	}
}
