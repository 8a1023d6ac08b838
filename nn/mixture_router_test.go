package nn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"harness/amx"
)

// plain makes hidden states that can be written down: mixers and experts give 0, and
// the embedding of token t is the axis t, which is sqrt(D) times the axis once normed.
func plain(cfg Config, vocab int) *Model {
	m := New(cfg, vocab, amx.Reference())
	for i := range m.Layers {
		l := &m.Layers[i]
		fill(l.MixNorm.Data, 1)
		fill(l.FFNNorm.Data, 1)
	}
	fill(m.FinalNorm.Data, 1)
	for t := range vocab {
		m.Embedding.Data[t*m.DModel+t] = 1
	}
	return m
}

func TestTopTiesGoToTheLowerID(t *testing.T) {
	for _, x := range []struct {
		scores []float32
		want   []int32
	}{
		{[]float32{1, 1, 1, 1, 1}, []int32{0, 1, 2}},
		{[]float32{0, 3, 1, 3, 3, 3}, []int32{1, 3, 4}},
		{[]float32{5, -1, 2, 2, 7, 2}, []int32{0, 2, 4}},
		{[]float32{-3, -1, -2, -1}, []int32{1, 2, 3}},
		{[]float32{2, 0, 0, 0, 1}, []int32{0, 1, 4}},
		{[]float32{1, 2, 3}, []int32{0, 1, 2}},
	} {
		got := make([]int32, 3)
		if top(got, x.scores); !slices.Equal(got, x.want) {
			t.Errorf("top 3 of %v: %v, want %v", x.scores, got, x.want)
		}
	}
	r := rng(60)
	for range 300 {
		scores := make([]float32, 1+r.IntN(20))
		for i := range scores {
			scores[i] = float32(r.IntN(6)) // many ties
		}
		ids := make([]int32, len(scores))
		for i := range ids {
			ids[i] = int32(i)
		}
		slices.SortStableFunc(ids, func(a, b int32) int { return int(scores[b] - scores[a]) })
		want := ids[:1+r.IntN(len(scores))]
		slices.Sort(want)
		got := make([]int32, len(want))
		if top(got, scores); !slices.Equal(got, want) {
			t.Fatalf("top %d of %v: %v, want %v", len(want), scores, got, want)
		}
	}
}

// By hand: blocks of 4 in documents of 10, 3 and 6 tokens. A statistic is sqrt(8) times
// the mean of the tokens' axes, over the previous block or all earlier ones.
func TestStatisticsByHand(t *testing.T) {
	b := Batch{
		Tokens: []int32{0, 0, 1, 2, 3, 3, 3, 0, 1, 1 /**/, 5, 5, 5 /**/, 4, 4, 6, 6, 7, 7},
		Starts: []int32{0, 10, 13},
	}
	b.Targets = make([]int32, len(b.Tokens))
	blocks := []Block{{0, 4, 0}, {4, 8, 1}, {8, 10, 2}, {10, 13, 0}, {13, 17, 0}, {17, 19, 3}}
	for _, x := range []struct {
		statistic Statistic
		want      [][8]float64 // of items 1, 2 and 3
	}{
		{WindowMean, [][8]float64{{0.5, 0.25, 0.25}, {0.25, 0, 0, 0.75}, {4: 0.5, 6: 0.5}}},
		{PrefixMean, [][8]float64{{0.5, 0.25, 0.25}, {0.375, 0.125, 0.125, 0.375}, {4: 0.5, 6: 0.5}}},
	} {
		m := plain(Config{DModel: 8, Layers: []Mixer{SWA}, DFF: 8, Heads: 1, HeadWidth: 4, StateWidth: 4, Window: 4, RopeBase: 100,
			MoE: MoE{Layers: []int{0}, Experts: 5, TopK: 2, DFF: 8, RouteBlock: 4, Statistic: x.statistic}}, 8)
		mixture := m.Layers[0].Mixture
		r := rng(61)
		for i := range mixture.Routers[0].Data {
			mixture.Routers[0].Data[i] = float32(r.NormFloat64())
		}
		for i := range mixture.First.Data {
			mixture.First.Data[i] = float32(i) - 2.5
		}
		a := NewActivations(m, len(b.Tokens), true)
		m.Forward(a, b)
		if !slices.Equal(a.blocks, blocks) {
			t.Fatalf("blocks %v, want %v", a.blocks, blocks)
		}
		if a.routed != 8 || a.RouterStats(0).First != 11 {
			t.Errorf("%d tokens routed, %d by the first-block vector; by hand 8 and 11", a.routed, a.RouterStats(0).First)
		}
		for item := range 4 {
			stat := make([]float64, 8)
			for j := range stat {
				stat[j] = float64(mixture.First.Data[j])
				if item > 0 {
					stat[j] = math.Sqrt(8) * x.want[item-1][j]
				}
			}
			checkItem(t, m, mixture, &a.layers[0].routing, item, stat)
		}
	}
}

// checkItem compares an item's routing with its definition in float64.
func checkItem(t *testing.T, m *Model, x *Mixture, r *Routing, item int, stat []float64) {
	t.Helper()
	d, k := m.DModel, m.MoE.TopK
	for j, want := range stat {
		if got := float64(r.stat[item*d+j]); math.Abs(got-want) > 1e-5*(1+math.Abs(want)) { // sums of float32, and the norm's epsilon
			t.Fatalf("item %d: statistic[%d] %.6f, by hand %.6f", item, j, got, want)
		}
	}
	product := func(router *Param, row int) float64 {
		s := 0.0
		for j := range stat {
			s += float64(router.Data[row*d+j]) * stat[j]
		}
		return s
	}
	ids := make([]int, x.families())
	scores := make([]float64, len(ids))
	for e := range ids {
		ids[e], scores[e] = e, product(x.Routers[0], e)
	}
	slices.SortStableFunc(ids, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	chosen := slices.Clone(ids[:k])
	slices.Sort(chosen)
	sum := 0.0
	for _, e := range chosen {
		sum += math.Exp(scores[e])
	}
	for j, family := range chosen {
		leaf := family
		for _, router := range x.Routers[1:] {
			leaf *= 2
			if product(router, leaf+1) > product(router, leaf) {
				leaf++
			}
		}
		if got := r.chosen(item)[j]; int(got) != leaf {
			t.Fatalf("item %d: experts %v, by hand %d of families %v with scores %.4f", item, r.chosen(item), leaf, chosen, scores)
		}
		want := m.MoE.gateScale() * math.Exp(scores[family]) / sum
		if got := float64(r.Gates[item*k+j]); math.Abs(got-want) > 1e-5*m.MoE.gateScale() {
			t.Errorf("item %d: gate %d is %.6f, by hand %.6f", item, j, got, want)
		}
	}
}

// Every mixture routes by the means of its own normed states, whatever layer it is in.
func TestRoutingFollowsItsDefinition(t *testing.T) {
	for name, change := range map[string]func(*MoE){
		"window":                 func(*MoE) {},
		"prefix and a set scale": func(c *MoE) { c.Statistic, c.GateScale = PrefixMean, 1.5 },
		"one expert a block":     func(c *MoE) { c.TopK = 1 },
		"all experts":            func(c *MoE) { c.TopK = 6 },
	} {
		cfg := tinyMixture()
		cfg.MoE.Layers = []int{0, 1}
		change(&cfg.MoE)
		for _, grown := range [][]Growth{nil, {{Experts: 12, Method: Split}, {Experts: 24, Method: Split}}} {
			m := randomModel(cfg, tinyVocab, amx.Reference(), 62, grown...)
			b := packedBatch(tinyVocab, rng(63), 40, 3, 8, 9, 29)
			a := NewActivations(m, len(b.Tokens), true)
			m.Forward(a, b)
			if a.items != 1+4+1+3 {
				t.Fatalf("%s: %d items", name, a.items)
			}
			for i := range m.Layers {
				x, c := m.Layers[i].Mixture, &a.layers[i]
				first := make([]float64, m.DModel)
				for j, w := range x.First.Data {
					first[j] = float64(w)
				}
				checkItem(t, m, x, &c.routing, 0, first)
				b.segments(func(lo, hi int) {
					for _, block := range a.blocks {
						if block.Lo <= lo || block.Lo >= hi {
							continue
						}
						from := lo
						if cfg.MoE.Statistic == WindowMean {
							from = block.Lo - cfg.MoE.RouteBlock
						}
						stat := make([]float64, m.DModel)
						for row := from; row < block.Lo; row++ {
							for j := range stat {
								stat[j] += float64(c.normed[row*m.DModel+j]) / float64(block.Lo-from)
							}
						}
						checkItem(t, m, x, &c.routing, block.Item, stat)
					}
				})
			}
		}
	}
}

// Entropy is that of the leaves, whose probabilities are products down the families.
func TestEntropyAfterTwoSplitsIsThatOfTheLeaves(t *testing.T) {
	cfg := tinyMixture()
	m := randomModel(cfg, tinyVocab, amx.Reference(), 75, Growth{Experts: 12, Method: Split}, Growth{Experts: 24, Method: Split})
	b := packedBatch(tinyVocab, rng(76), 40, 3, 29)
	a := NewActivations(m, len(b.Tokens), true)
	m.Forward(a, b)
	x, r, d := m.Layers[0].Mixture, &a.layers[0].routing, m.DModel
	want := 0.0
	for _, block := range a.blocks {
		if block.First() {
			continue
		}
		likely := func(level, row int) float64 { // exp of the score
			s := 0.0
			for j := range d {
				s += float64(x.Routers[level].Data[row*d+j]) * float64(r.stat[block.Item*d+j])
			}
			return math.Exp(s)
		}
		families := 0.0
		for f := range 6 {
			families += likely(0, f)
		}
		total := 0.0
		for leaf := range 24 {
			p := likely(0, leaf/4) / families *
				likely(1, leaf/2) / (likely(1, leaf/4*2) + likely(1, leaf/4*2+1)) *
				likely(2, leaf) / (likely(2, leaf/2*2) + likely(2, leaf/2*2+1))
			want -= float64(block.Hi-block.Lo) * p * math.Log(p)
			total += p
		}
		if math.Abs(total-1) > 1e-12 {
			t.Fatalf("leaves add up to %g", total)
		}
	}
	// Probabilities are float32.
	if got := a.RouterStats(0).Entropy; math.Abs(got-want) > 1e-5*want {
		t.Errorf("entropy %.6f, by hand %.6f nats", got, want)
	}
}

// k equal experts under equal scores add up to the dense MLP of their concatenated
// matrices: gates are 1, and ties go to the first k.
func TestEqualExpertsAddUpToADenseMLP(t *testing.T) {
	const k, f = 3, 8
	for _, kernels := range kernelSets(t) {
		cfg := tinyConfig()
		cfg.DFF = k * f
		dense := randomModel(cfg, tinyVocab, kernels, 64)
		cfg.MoE = MoE{Layers: []int{0, 1}, Experts: 5, TopK: k, DFF: f, RouteBlock: 8, Statistic: WindowMean}
		m := randomModel(cfg, tinyVocab, kernels, 65)
		for i := range m.Layers {
			from, to, d := &dense.Layers[i], &m.Layers[i], m.DModel
			for _, p := range [][2]*Param{{from.MixNorm, to.MixNorm}, {from.FFNNorm, to.FFNNorm}, {from.In, to.In}, {from.Out, to.Out}, {from.HeadNorm, to.HeadNorm}} {
				if p[0] != nil {
					copy(p[1].Data, p[0].Data)
				}
			}
			clear(to.Mixture.Routers[0].Data)
			for e := range k {
				for r := range d { // columns gate | up
					gate := to.Mixture.GateUp.Data[(e*d+r)*2*f:]
					copy(gate[:f], from.GateUp.Data[r*2*k*f+e*f:])
					copy(gate[f:2*f], from.GateUp.Data[r*2*k*f+k*f+e*f:])
				}
				copy(to.Mixture.Down.Data[e*f*d:(e+1)*f*d], from.Down.Data[e*f*d:])
			}
		}
		copy(m.Embedding.Data, dense.Embedding.Data)
		copy(m.FinalNorm.Data, dense.FinalNorm.Data)
		b := packedBatch(tinyVocab, rng(66), 60, 5, 30)
		want, got := logits(dense, b), logits(m, b)
		// The experts' sums are rounded to float32 once each, a dense row once: some 1e-7 a
		// layer. Where operands are rounded, each of a handful of products has that error.
		if worst, tolerance := apart(want, got), max(2e-5, 5*kernels.Arithmetic.GemmError()); !(worst <= tolerance) {
			t.Errorf("%s: logits %.3g apart, tolerance %.3g", kernels.Name, worst, tolerance)
		}
		m.MoE.GateScale = 1
		if worst := apart(want, logits(m, b)); worst < 0.1 {
			t.Errorf("%s: gates that add up to 1 give the dense MLP too (%.3g apart)", kernels.Name, worst)
		}
	}
}

// apart is the largest difference of two tables of logits.
func apart(a, b [][]float64) float64 {
	worst := 0.0
	for i := range a {
		for j := range a[i] {
			worst = max(worst, math.Abs(a[i][j]-b[i][j])) // NaN wins
		}
	}
	return worst
}

// Shared experts are a dense MLP of their joint width, whatever the router does.
func TestSharedExpertsActOnEveryToken(t *testing.T) {
	b := packedBatch(tinyVocab, rng(67), 60, 5, 30)
	cfg := tinyConfig()
	cfg.DFF = 10
	dense := randomModel(cfg, tinyVocab, amx.Reference(), 68)
	for name, moe := range map[string]MoE{
		"2 of 5":                 {Shared: 2, SharedDFF: 5, DFF: 12},
		"1 as wide as an expert": {Shared: 1, DFF: 10},
	} {
		moe.Layers, moe.Experts, moe.TopK, moe.RouteBlock, moe.Statistic = []int{0, 1}, 6, 2, 8, PrefixMean
		cfg.MoE = moe
		m := randomModel(cfg, tinyVocab, amx.Reference(), 69)
		from := map[string]*Param{}
		for _, p := range dense.Params() {
			from[strings.Replace(p.Name, ".mlp.", ".moe.shared.", 1)] = p
		}
		for _, p := range m.Params() {
			if q := from[p.Name]; q != nil {
				copy(p.Data, q.Data)
			}
		}
		with := logits(m, b)
		for i := range m.Layers {
			clear(m.Layers[i].Mixture.Down.Data)
		}
		if err := sameLogits(logits(dense, b), logits(m, b)); err != nil {
			t.Errorf("%s: not the dense MLP of their width: %v", name, err)
		}
		if apart(with, logits(m, b)) < 0.1 {
			t.Errorf("%s: routed experts make no difference", name)
		}
	}
}

// The grid counts from a document's start: where it lies in a batch, and what lies
// around it, changes nothing, bit for bit.
func TestRoutingDoesNotDependOnPacking(t *testing.T) {
	for _, k := range kernelSets(t) {
		for _, statistic := range []Statistic{WindowMean, PrefixMean} {
			cfg := tinyMixture()
			cfg.MoE.Layers, cfg.MoE.Statistic, cfg.MoE.Shared = []int{0, 1}, statistic, 1
			m := randomModel(cfg, tinyVocab, k, 70)
			r := rng(71)
			document := packedBatch(tinyVocab, r, 61)
			hidden := func(b Batch, from int) []float32 {
				a := NewActivations(m, len(b.Tokens), false)
				m.Forward(a, b)
				return a.Hidden[from*m.DModel : (from+61)*m.DModel]
			}
			alone := hidden(document, 0)
			for _, before := range [][]int{{}, {1}, {3, 2}, {7}, {8}, {9, 8}, {16, 1, 1}, {60, 4}, {33, 33}, {130}} {
				offset := 0
				for _, n := range before {
					offset += n
				}
				packed := join(packedBatch(tinyVocab, r, before...), document, packedBatch(tinyVocab, r, 1+r.IntN(20), 5, 17))
				if !slices.Equal(alone, hidden(packed, offset)) {
					t.Errorf("%s, %s: hidden states change after documents of %v", k.Name, statistic, before)
				}
			}
			packed := join(packedBatch(tinyVocab, r, 3), document)
			packed.Starts = packed.Starts[:1]
			if slices.Equal(alone, hidden(packed, 3)) {
				t.Errorf("%s, %s: without a boundary nothing changes", k.Name, statistic)
			}
		}
	}
}
