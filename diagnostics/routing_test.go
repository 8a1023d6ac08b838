package diagnostics

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"harness/amx"
	"harness/nn"
)

func pcg() *rand.Rand { return rand.New(rand.NewPCG(3, 4)) }

// recall is a task by hand. Blocks of 4 are three tokens of a class and a 7, which is to
// be followed by the class of the block before: the router reads the class in the mean
// and picks the expert that, on a 7, writes the class. Nothing else does anything: layer
// 0 is a mixture of zeros.
const (
	recallClasses = 6
	recallWrites  = 4.0 // what the expert adds to the axis of its class
)

func recall() *nn.Model {
	const d, f = 8, 8
	m := nn.New(nn.Config{DModel: d, Layers: []nn.Mixer{nn.SWA, nn.SWA}, DFF: 8, Activation: nn.ReLU2, Heads: 1, HeadWidth: 4, StateWidth: 4, Window: 4, RopeBase: 100,
		MoE: nn.MoE{Layers: []int{0, 1}, Experts: recallClasses, TopK: 1, DFF: f, RouteBlock: 4, Statistic: nn.WindowMean}}, d, amx.Reference())
	for _, p := range m.Params() {
		if p.Kind == nn.Gain {
			for i := range p.Data {
				p.Data[i] = 1
			}
		}
	}
	for i := range d {
		m.Embedding.Data[i*d+i] = 1
	}
	x := m.Layers[1].Mixture
	for e := range recallClasses {
		x.Routers[0].Data[e*d+e] = 1
		in := x.GateUp.Data[(e*d+7)*2*f:] // a 7 is sqrt(8) times its axis once normed
		in[0], in[f] = float32(1/math.Sqrt(d)), float32(1/math.Sqrt(d))
		x.Down.Data[e*f*d+e] = recallWrites
	}
	return m
}

// recallBatch has windows of 40 tokens, two documents of 5 blocks each; no class is twice
// in a document. One of the windows has no targets.
func recallBatch(windows int, silent int) nn.Batch {
	var b nn.Batch
	r := pcg()
	for w := range windows {
		for range 2 {
			b.Starts = append(b.Starts, int32(len(b.Tokens)))
			classes := r.Perm(recallClasses)[:5]
			for i, c := range classes {
				target := int32(-1)
				if i > 0 && w != silent {
					target = int32(classes[i-1])
				}
				b.Tokens = append(b.Tokens, int32(c), int32(c), int32(c), 7)
				b.Targets = append(b.Targets, -1, -1, -1, target)
			}
		}
	}
	return b
}

// By hand: a 7 becomes sqrt(8) on its own axis and 4 on that of the class written, which
// is then normed. The target's logit is 4/rms, or 0 where another expert wrote, and the
// normaliser is the same: that is the cost of every block that is routed otherwise.
func TestRoutingAblationsByHand(t *testing.T) {
	m := recall()
	logit := recallWrites / math.Sqrt((8+recallWrites*recallWrites)/8)
	batches := []nn.Batch{recallBatch(3, -1), recallBatch(2, 1)}
	a := nn.NewActivations(m, 120, false)
	a.Reroute = func(int, []nn.Block, *nn.Routing) { t.Error("a hook from before is in force") }
	got, err := RoutingAblations(context.Background(), m, a, batches, 40, pcg())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 4 {
		t.Fatalf("%+v", got)
	}
	for i, x := range got {
		if x.Layer != i/2 || x.Kind != []string{Swap, Permute}[i%2] || x.N != 4 || x.Low > x.Cost || x.High < x.Cost {
			t.Errorf("%d: %+v: want both kinds in both layers, 4 windows with targets", i, x)
		}
		if x.Layer == 0 && x.Cost != 0 {
			t.Errorf("a mixture of zeros costs %+v", x)
		}
	}
	got = got[2:]
	if x := got[0]; math.Abs(x.Cost-logit) > 1e-5 || x.High-x.Low > 1e-4 {
		t.Errorf("swap: %+v, by hand %.6f in every window", x, logit)
	}
	moved := got[1].Cost / logit * 4 * 8 // of 4 windows with 8 routed blocks each
	if math.Abs(moved-math.Round(moved)) > 1e-3 || moved < 8 || moved > 32 {
		t.Errorf("permute: %+v is the cost of %.4f blocks of 32", got[1], moved)
	}
	if a.Reroute != nil {
		t.Error("the hook stays")
	}
}

// Experts that are all alike may be exchanged: with one expert a block at no cost at
// all; with two, gates add up in another order.
func TestEqualExpertsCostNothing(t *testing.T) {
	for _, k := range []int{1, 2} {
		m := nn.New(nn.Config{DModel: 8, Layers: []nn.Mixer{nn.Lin, nn.SWA}, DFF: 12, Heads: 2, HeadWidth: 4, StateWidth: 4, Window: 4, RopeBase: 100,
			MoE: nn.MoE{Layers: []int{0, 1}, Experts: 5, TopK: k, DFF: 8, RouteBlock: 4, Statistic: nn.PrefixMean}}, 8, amx.Reference())
		m.Init(pcg())
		a := nn.NewActivations(m, 80, false)
		measure := func() []Ablation {
			got, err := RoutingAblations(context.Background(), m, a, []nn.Batch{recallBatch(2, -1)}, 40, pcg())
			if err != nil || len(got) != 4 {
				t.Fatalf("%v %v", got, err)
			}
			return got
		}
		for _, x := range measure() {
			if math.Abs(x.Cost) < 1e-4 {
				t.Errorf("top %d: different experts cost nothing: %+v", k, x)
			}
		}
		for i := range m.Layers {
			x := m.Layers[i].Mixture
			for _, p := range []*nn.Param{x.GateUp, x.Down} {
				n := len(p.Data) / 5
				for e := 1; e < 5; e++ {
					copy(p.Data[e*n:(e+1)*n], p.Data[:n])
				}
			}
		}
		for _, x := range measure() {
			if k == 1 && x.Cost != 0 || math.Abs(x.Cost) > 1e-6 {
				t.Errorf("top %d: equal experts cost %+v", k, x)
			}
		}
	}
}

// What the hooks do to a routing: first blocks stay, a segment's blocks exchange experts
// with their gates among themselves, and a swap takes only experts not chosen.
func TestSwapAndPermuteKeepFirstBlocks(t *testing.T) {
	m := nn.New(nn.Config{DModel: 8, Layers: []nn.Mixer{nn.SWA}, DFF: 12, Heads: 2, HeadWidth: 4, StateWidth: 4, Window: 4, RopeBase: 100,
		MoE: nn.MoE{Layers: []int{0}, Experts: 7, TopK: 3, DFF: 8, RouteBlock: 2, Statistic: nn.WindowMean}}, 8, amx.Reference())
	m.Init(pcg())
	b := nn.Batch{Starts: []int32{0, 20, 21, 27, 28}} // 9 items, none, 2, none, 1
	for i := range 32 {
		b.Tokens = append(b.Tokens, int32(i*i%7))
		b.Targets = append(b.Targets, -1)
	}
	segments := [][2]int{{0, 1}, {1, 10}, {10, 12}, {12, 13}}
	a, rng := nn.NewActivations(m, 32, false), pcg()
	pairs := func(r *nn.Routing, lo, hi int) (all [][6]float32) {
		for i := lo; i < hi; i++ {
			all = append(all, [6]float32{float32(r.Experts[i*3]), float32(r.Experts[i*3+1]), float32(r.Experts[i*3+2]), r.Gates[i*3], r.Gates[i*3+1], r.Gates[i*3+2]})
		}
		slices.SortFunc(all, func(a, b [6]float32) int { return slices.Compare(a[:], b[:]) })
		return all
	}
	moved := 0
	for range 20 {
		a.Reroute = func(_ int, blocks []nn.Block, r *nn.Routing) {
			experts, gates := slices.Clone(r.Experts), slices.Clone(r.Gates)
			was := &nn.Routing{Experts: experts, Gates: gates}
			permute(blocks, r, 3, rng)
			if !slices.Equal(experts, r.Experts) {
				moved++
			}
			for _, s := range segments {
				if !slices.Equal(pairs(r, s[0], s[1]), pairs(was, s[0], s[1])) {
					t.Errorf("items %v are %v, were %v", s, r.Experts[s[0]*3:s[1]*3], experts[s[0]*3:s[1]*3])
				}
			}
			copy(r.Experts, experts)
			copy(r.Gates, gates)
			swap(r, 3, 7, rng)
			if !slices.Equal(r.Experts[:3], experts[:3]) || !slices.Equal(r.Gates, gates) {
				t.Error("swap moves a first block, or a gate")
			}
			for i := 3; i < len(experts); i += 3 {
				chosen := r.Experts[i : i+3]
				if !slices.IsSorted(chosen) || len(slices.Compact(slices.Clone(chosen))) != 3 {
					t.Errorf("swapped to %v", chosen)
				}
				for _, e := range chosen {
					if slices.Contains(experts[i:i+3], e) || e < 0 || e >= 7 {
						t.Errorf("%v swapped to %v", experts[i:i+3], chosen)
					}
				}
			}
		}
		m.Forward(a, b)
	}
	if moved < 15 {
		t.Errorf("%d of 20 permutations moved anything", moved)
	}
	few := &nn.Routing{Experts: []int32{0, 1, 1, 3}} // of 4 experts two are left, of 3 one
	swap(few, 2, 4, rng)
	if !slices.Equal(few.Experts, []int32{0, 1, 0, 2}) {
		t.Errorf("1 and 3 of 4 swapped to %v", few.Experts)
	}
	few.Experts = []int32{0, 1, 0, 1}
	swap(few, 2, 3, rng)
	if !slices.Equal(few.Experts, []int32{0, 1, 1, 2}) {
		t.Errorf("0 and 1 of 3 swapped to %v", few.Experts)
	}
}

// By hand: 1, 2 and 3 have mean 2 and standard error 1/sqrt(3); t is 4.302653 for 2
// degrees of freedom.
func TestIntervalByHand(t *testing.T) {
	mean, low, high := interval([]float64{1, 2, 3})
	half := 4.302653 / math.Sqrt(3)
	if mean != 2 || math.Abs(low-(2-half)) > 1e-6 || math.Abs(high-(2+half)) > 1e-6 {
		t.Errorf("%g [%g, %g], by hand 2 +- %g", mean, low, high, half)
	}
	if mean, low, high = interval([]float64{5}); mean != 5 || !math.IsInf(low, -1) || !math.IsInf(high, 1) {
		t.Errorf("one value: %g [%g, %g]", mean, low, high)
	}
}

func TestAblationsStopWhenCancelled(t *testing.T) {
	m := recall()
	ctx, cancel := context.WithCancel(context.Background())
	a := nn.NewActivations(m, 120, false)
	cancel()
	if _, err := RoutingAblations(ctx, m, a, []nn.Batch{recallBatch(3, -1)}, 40, pcg()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// Windows in which the router has no part say nothing about it: n leaves them out.
func TestAblationsLeaveOutWindowsThatNoRouterTouched(t *testing.T) {
	m := recall()
	routed := recallBatch(2, -1)
	short := nn.Batch{} // one window of documents of a block each
	for i := range 40 {
		if i%4 == 0 {
			short.Starts = append(short.Starts, int32(i))
		}
		short.Tokens, short.Targets = append(short.Tokens, int32(i%8)), append(short.Targets, 7)
	}
	a := nn.NewActivations(m, 80, false)
	for _, c := range []struct {
		batches []nn.Batch
		n       int
	}{{[]nn.Batch{short, routed, short}, 2}, {[]nn.Batch{short}, 0}} {
		out, err := RoutingAblations(context.Background(), m, a, c.batches, 40, pcg())
		if err != nil {
			t.Fatal(err)
		}
		if (len(out) == 0) != (c.n == 0) {
			t.Fatalf("%d batches: %d ablations, want some only where the router acts", len(c.batches), len(out))
		}
		for _, x := range out {
			if x.N != c.n {
				t.Errorf("layer %d, %s: n %d, want %d", x.Layer, x.Kind, x.N, c.n)
			}
		}
	}
}
