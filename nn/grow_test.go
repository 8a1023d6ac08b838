package nn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"harness/amx"
)

// growing routes 4 of 8 experts in two layers.
func growing() Config {
	cfg := tinyConfig()
	cfg.MoE = MoE{Layers: []int{0, 1}, Experts: 8, TopK: 4, DFF: 8, RouteBlock: 8, Statistic: WindowMean, Balance: 0.01}
	return cfg
}

// descend trains without an optimizer: gradient steps as they are.
func descend(m *Model, b Batch, steps int) {
	a := NewActivations(m, len(b.Tokens), true)
	rows := NewRows(m, LossConfig{Kind: FullSoftmax}, nil, len(b.Tokens))
	for range steps {
		gradients(m, a, b, rows)
		m.ObserveLoad(a)
		norm := 0.0
		for _, p := range m.Params() {
			for _, g := range mixtureGradientOf(m, a, p, rows) {
				norm += g * g
			}
		}
		for _, p := range m.Params() {
			for i, g := range mixtureGradientOf(m, a, p, rows) {
				p.Data[i] -= float32(g * 0.3 / math.Sqrt(norm))
			}
		}
	}
}

// routings are the experts and the scores of every item of every mixture.
func routings(m *Model, b Batch) (experts [][]int32, scores [][]float32) {
	a := NewActivations(m, len(b.Tokens), false)
	m.Forward(a, b)
	for i := range m.Layers {
		r, n := &a.layers[i].routing, m.Layers[i].Mixture.families()
		for item := range a.items {
			experts = append(experts, slices.Clone(r.chosen(item)))
			scores = append(scores, slices.Clone(r.scores[item*n:(item+1)*n]))
		}
	}
	return experts, scores
}

// distinct reports whether no two scores of an item are equal.
func distinct(scores []float32) bool {
	sorted := slices.Sorted(slices.Values(scores))
	return len(slices.Compact(sorted)) == len(scores)
}

func TestSplitKeepsEveryLogit(t *testing.T) {
	b := packedBatch(tinyVocab, rng(90), 85, 6, 59)
	for _, k := range kernelSets(t) {
		for _, jitter := range []float64{0, 0.01} {
			for _, experts := range [][]int{{16, 32}, {32}} {
				m := randomModel(growing(), tinyVocab, k, 91)
				for _, e := range experts {
					name := fmt.Sprintf("%s, jitter %g, %d to %d", k.Name, jitter, m.mixture().Experts(), e)
					before, alone := logits(m, b), firstDocument(m, b)
					chosen, scores := routings(m, b)
					if len(chosen) < 2*16 {
						t.Fatalf("%d blocks", len(chosen)/2)
					}
					for i := range scores {
						if !distinct(scores[i]) {
							t.Fatalf("%s: scores %v are not distinct", name, scores[i])
						}
					}
					times := int32(e / m.mixture().Experts())
					m = m.Grow(Growth{Experts: e, Method: Split, Jitter: jitter}, rng(92))
					if err := sameLogits(before, logits(m, b)); err != nil {
						t.Errorf("%s, batched: %v", name, err)
					}
					if err := sameLogits(alone, firstDocument(m, b)); err != nil {
						t.Errorf("%s, streamed: %v", name, err)
					}
					// Every choice is a child of the choice before; with jitter not always the first.
					after, same := routings(m, b)
					younger := 0
					for i := range after {
						for j, child := range after[i] {
							if child/times != chosen[i][j] {
								t.Fatalf("%s: %v became %v", name, chosen[i], after[i])
							}
							younger += int(child % times)
						}
						if !slices.Equal(scores[i], same[i]) {
							t.Fatalf("%s: scores of families depend on the number of experts", name)
						}
					}
					if (younger > 0) != (jitter > 0) {
						t.Errorf("%s: %d choices of a younger child", name, younger)
					}
					if k.Name == "reference" { // twins part, and the next split starts from there
						descend(m, b, 3)
						if apart(before, logits(m, b)) < 1e-3 {
							t.Errorf("%s: training changed nothing", name)
						}
					}
				}
			}
		}
	}
}

// firstDocument streams the first document of a batch.
func firstDocument(m *Model, b Batch) [][]float64 {
	rows, _ := streamed(m, b.Tokens[:b.Starts[1]])
	return rows
}

// Both children of a family learn, each from its own blocks.
func TestTwinsPartInTraining(t *testing.T) {
	b := packedBatch(tinyVocab, rng(90), 85, 6, 59)
	m := randomModel(growing(), tinyVocab, amx.Reference(), 91).Grow(Growth{Experts: 16, Method: Split, Jitter: 0.01}, rng(92))
	gateUp := m.Layers[1].Mixture.GateUp
	before, row := slices.Clone(gateUp.Data), gateUp.row()
	descend(m, b, 1)   // in later steps the balance loss moves the twins' router rows too
	var learned [2]int // elder and younger twins
	for e := range 16 {
		if !slices.Equal(gateUp.Data[e*row:(e+1)*row], before[e*row:(e+1)*row]) {
			learned[e%2]++
		}
	}
	if learned[0] < 4 || learned[1] < 4 {
		t.Errorf("%d elder and %d younger twins of 8 learned", learned[0], learned[1])
	}
}

// The paper's duplicates under plain top-k: twins have nearly equal scores and crowd
// others out, jitter or not. One expert a block has no others.
func TestFlatSplitChangesLogits(t *testing.T) {
	b := packedBatch(tinyVocab, rng(90), 85, 6, 59)
	for _, topK := range []int{1, 2, 4} {
		for _, jitter := range []float64{0, 0.01} {
			cfg := growing()
			cfg.MoE.TopK = topK
			m := randomModel(cfg, tinyVocab, amx.Reference(), 91)
			before := logits(m, b)
			_, scores := routings(m, b)
			m = m.Grow(Growth{Experts: 16, Method: SplitFlat, Jitter: jitter}, rng(92))
			after := logits(m, b)
			worst := apart(before, after)
			t.Logf("split_flat, top %d, jitter %g: logits %.3g apart, streamed %.3g", topK, jitter, worst, apart(before[:85], firstDocument(m, b)))
			if _, twins := routings(m, b); jitter == 0 {
				for e, s := range scores[0] { // the first item does not depend on experts
					if twins[0][2*e] != s || twins[0][2*e+1] != s {
						t.Errorf("top %d: family %d scores %g, twins %g and %g", topK, e, s, twins[0][2*e], twins[0][2*e+1])
					}
				}
			}
			switch {
			case topK > 1 && !(worst > 0.1):
				t.Errorf("top %d, jitter %g: logits %.3g apart: twins crowd nobody out", topK, jitter, worst)
			case topK == 1 && jitter == 0 && worst != 0:
				t.Errorf("one expert a block, no jitter: logits %.3g apart", worst)
			}
		}
	}
}

// A new expert with a router row of zeros scores 0: it displaces one whose score is
// negative, and gives nothing in its place. Where all chosen scores are positive
// nothing changes.
func TestInsertZeroDisplacesNegativeScores(t *testing.T) {
	b := packedBatch(tinyVocab, rng(90), 85, 6, 59)
	for _, lift := range []float32{0, 20} {
		m := randomModel(growing(), tinyVocab, amx.Reference(), 91)
		for v := range tinyVocab { // a component that all hidden states share lifts all scores
			m.Embedding.Data[v*m.DModel] = 2
		}
		for i := range m.Layers {
			x := m.Layers[i].Mixture
			x.First.Data[0] = 2
			for e := range 8 {
				x.Routers[0].Data[e*m.DModel] = lift
			}
		}
		before := logits(m, b)
		chosen, scores := routings(m, b)
		m = m.Grow(Growth{Experts: 16, Method: InsertZero}, rng(92))
		worst := apart(before, logits(m, b))
		after, grown := routings(m, b)
		negative, changed := 0, 0
		for i, s := range scores {
			if !slices.Equal(s[:8], grown[i][:8]) && worst == 0 {
				t.Errorf("item %d: scores depend on the number of experts", i)
			}
			if slices.Sorted(slices.Values(s))[4] < 0 {
				negative++
			}
			if !slices.Equal(chosen[i], after[i]) {
				changed++
			}
		}
		t.Logf("insert_zero, lift %g: the 4th score is negative in %d of %d items, %d choices changed, logits %.3g apart", lift, negative, len(chosen), changed, worst)
		if (negative > 0) != (changed > 0) || (negative > 0) != (worst > 0.1) || (negative > 0) != (lift == 0) {
			t.Errorf("lift %g: %d negative 4th scores, %d choices changed, logits %.3g apart", lift, negative, changed, worst)
		}
	}
}

func TestParents(t *testing.T) {
	for _, x := range []struct {
		g      Growth
		before int
		want   []int
	}{
		{Growth{Experts: 6, Method: Split}, 3, []int{0, 0, 1, 1, 2, 2}},
		{Growth{Experts: 8, Method: Split}, 2, []int{0, 0, 0, 0, 1, 1, 1, 1}},
		{Growth{Experts: 4, Method: SplitFlat}, 2, []int{0, 0, 1, 1}},
		{Growth{Experts: 5, Method: InsertZero}, 3, []int{0, 1, 2, -1, -1}},
	} {
		if got := x.g.Parents(x.before); !slices.Equal(got, x.want) {
			t.Errorf("%+v of %d: %v, want %v", x.g, x.before, got, x.want)
		}
	}
}

// A parent's load is shared among its children; new experts get an even share. It adds
// up to 1.
func TestGrowLoad(t *testing.T) {
	for _, x := range []struct {
		g    Growth
		want []float64
	}{
		{Growth{Experts: 8, Method: Split}, []float64{0.35, 0.35, 0.1, 0.1, 0, 0, 0.05, 0.05}},
		{Growth{Experts: 5, Method: InsertZero}, []float64{0.56, 0.16, 0, 0.08, 0.2}},
	} {
		cfg := tinyMixture()
		cfg.MoE.Experts = 4
		m := randomModel(cfg, tinyVocab, amx.Reference(), 100)
		copy(m.Layers[0].Mixture.Load, []float64{0.7, 0.2, 0, 0.1})
		sum := 0.0
		for e, got := range m.Grow(x.g, rng(101)).Layers[0].Mixture.Load {
			sum += got
			if math.Abs(got-x.want[e]) > 1e-12 {
				t.Errorf("%s: load of expert %d %g, want %g", x.g.Method, e, got, x.want[e])
			}
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("%s: loads add up to %g", x.g.Method, sum)
		}
	}
}

func TestSources(t *testing.T) {
	cfg := growing()
	cfg.MoE.Layers, cfg.MoE.Experts, cfg.MoE.TopK, cfg.MoE.Shared = []int{1}, 2, 1, 1
	first, second := Growth{Experts: 4, Method: Split}, Growth{Experts: 16, Method: Split}
	old := New(cfg, tinyVocab, amx.Reference(), first)
	m := New(cfg, tinyVocab, amx.Reference(), first, second)
	want := map[string]string{ // what does not come from its own name, whole
		"layers.1.moe.gate_up":  "layers.1.moe.gate_up [0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3]",
		"layers.1.moe.down":     "layers.1.moe.down [0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3]",
		"layers.1.moe.router.2": "layers.1.moe.router.1 [0 0 1 1 2 2 3 3]",
		"layers.1.moe.router.3": "layers.1.moe.router.1 [0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3]",
	}
	for i, s := range m.Sources(old) {
		name := m.Params()[i].Name
		got, expected := old.Params()[s.From].Name, want[name]
		if s.Rows != nil {
			got = fmt.Sprint(got, " ", s.Rows)
		}
		if expected == "" {
			expected = name
		}
		if got != expected {
			t.Errorf("%s comes from %s, want %s", name, got, expected)
		}
	}
}

// Parameters that stay are the same memory, and the others start as their source does.
func TestGrowCopiesAndNames(t *testing.T) {
	m := randomModel(growing(), tinyVocab, amx.Reference(), 102)
	row := m.Layers[1].Mixture.GateUp.row()
	gateUp := slices.Clone(m.Layers[1].Mixture.GateUp.Data)
	router := slices.Clone(m.Layers[1].Mixture.Routers[0].Data)
	first := &m.Layers[1].Mixture.First.Data[0]
	for _, method := range []GrowthMethod{Split, SplitFlat} {
		copied := randomModel(growing(), tinyVocab, amx.Reference(), 102)
		grown := copied.Grow(Growth{Experts: 16, Method: method, Jitter: 0.01}, rng(103))
		x := grown.Layers[1].Mixture
		last := x.Routers[len(x.Routers)-1]
		noise := 0.0
		for e := range 16 {
			if !slices.Equal(x.GateUp.Data[e*row:(e+1)*row], gateUp[e/2*row:(e/2+1)*row]) {
				t.Errorf("%s: expert %d is not its parent", method, e)
			}
			squares, parts := 0.0, 0.0
			for j := range 16 {
				w := float64(router[e/2*16+j])
				squares += w * w
				parts += math.Pow(float64(last.Data[e*16+j])-w, 2)
			}
			noise += math.Sqrt(parts/squares) / 16
		}
		// A row's ratio has a standard deviation of 0.01/sqrt(2*16); 16 rows are averaged.
		if math.Abs(noise-0.01) > 4*0.01/math.Sqrt(2*16*16) {
			t.Errorf("%s: jitter of %.4f of a row's rms, want 0.01", method, noise)
		}
	}
	if grown := m.Grow(Growth{Experts: 16, Method: Split}, rng(103)); &grown.Layers[1].Mixture.First.Data[0] != first || len(grown.Grown()) != 1 {
		t.Error("what stays as it is was copied")
	}
}

func TestGrowthThatCannotBe(t *testing.T) {
	for _, grown := range [][]Growth{
		{{Experts: 8, Method: Split}}, {{Experts: 12, Method: Split}}, {{Experts: 24, Method: SplitFlat}}, {{Experts: 4, Method: InsertZero}},
		{{Experts: 16, Method: Split}, {Experts: 32, Method: SplitFlat}}, {{Experts: 16, Method: Split}, {Experts: 17, Method: InsertZero}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("8 experts took %+v", grown)
				}
			}()
			New(growing(), tinyVocab, amx.Reference(), grown...)
		}()
	}
	New(growing(), tinyVocab, amx.Reference(), Growth{Experts: 9, Method: InsertZero}, Growth{Experts: 18, Method: SplitFlat}, Growth{Experts: 36, Method: Split})
}
