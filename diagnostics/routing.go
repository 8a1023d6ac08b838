package diagnostics

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"harness/nn"
)

// Ablation is what it costs to route otherwise than the router does (paper, sections
// 6.1 and 6.3).
type Ablation struct {
	Layer     int
	Kind      string  // Swap or Permute
	Cost      float64 // nats a token: mean over windows of the loss so routed less the loss as routed
	Low, High float64 // 95% interval of Cost, paired by window
	N         int     // windows that the router had a part in
}

// Kinds of ablation. A segment's first block, which the learned vector routes, stays.
const (
	Swap    = "swap"    // every block gets experts, drawn at random, that the router did not choose for it; left out where all experts act. Fewer than k others replace as many; twins of a recent split are others too
	Permute = "permute" // the blocks of a segment exchange their experts and gates at random
)

// RoutingAblations measures both on every mixture, one at a time, by the exact loss of
// the batches. A batch holds windows of the given length; those in which all blocks are
// the first of their documents are left out, and there are no ablations where all are. a
// is an inference workspace.
func RoutingAblations(ctx context.Context, m *nn.Model, a *nn.Activations, batches []nn.Batch, window int, rng *rand.Rand) ([]Ablation, error) {
	defer func() { a.Reroute = nil }()
	var blocks [][]nn.Block // of each batch
	a.Reroute = func(_ int, b []nn.Block, _ *nn.Routing) { blocks = append(blocks, slices.Clone(b)) }
	routed, err := windowLosses(ctx, m, a, batches, window)
	if err != nil {
		return nil, err
	}
	counts := routedWindows(m, batches, blocks, window)
	if !slices.Contains(counts, true) {
		return nil, nil
	}
	var out []Ablation
	for i := range m.Layers {
		if m.Layers[i].Mixture == nil {
			continue
		}
		kinds := []string{Swap, Permute}
		if m.Layers[i].Mixture.Experts() == m.MoE.TopK {
			kinds = kinds[1:]
		}
		for _, kind := range kinds {
			a.Reroute = func(layer int, blocks []nn.Block, r *nn.Routing) {
				switch {
				case layer != i:
				case kind == Swap:
					swap(r, m.MoE.TopK, m.Layers[i].Mixture.Experts(), rng)
				default:
					permute(blocks, r, m.MoE.TopK, rng)
				}
			}
			otherwise, err := windowLosses(ctx, m, a, batches, window)
			if err != nil {
				return nil, err
			}
			var costs []float64
			for j := range otherwise {
				if counts[j] && !math.IsNaN(routed[j]) {
					costs = append(costs, otherwise[j]-routed[j])
				}
			}
			x := Ablation{Layer: i, Kind: kind, N: len(costs)}
			x.Cost, x.Low, x.High = interval(costs)
			out = append(out, x)
		}
	}
	return out, nil
}

// routedWindows says of every window whether the router chose for any block in it.
// blocks are those that every mixture in turn saw of each batch.
func routedWindows(m *nn.Model, batches []nn.Batch, blocks [][]nn.Block, window int) []bool {
	var routed []bool
	for i, b := range batches {
		base := len(routed)
		routed = append(routed, make([]bool, (len(b.Tokens)+window-1)/window)...)
		for _, block := range blocks[i*len(m.MoE.Layers)] {
			if !block.First() {
				routed[base+block.Lo/window] = true
			}
		}
	}
	return routed
}

// windowLosses is the mean loss of every window in nats, NaN where it has no targets.
func windowLosses(ctx context.Context, m *nn.Model, a *nn.Activations, batches []nn.Batch, window int) ([]float64, error) {
	var losses []float64
	for _, b := range batches {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m.Forward(a, b)
		m.Evaluate(a, b, nil)
		sums := make([]nn.Loss, (len(b.Tokens)+window-1)/window)
		a.PositionLosses(func(at int, nats float32) {
			sums[at/window] = sums[at/window].Add(nn.Loss{Sum: float64(nats), Count: 1})
		})
		for _, s := range sums {
			losses = append(losses, s.Sum/float64(s.Count))
		}
	}
	return losses, nil
}

// swap replaces the experts of every routed item by others; where too few are left, by
// as many as there are.
func swap(r *nn.Routing, k, experts int, rng *rand.Rand) {
	others := make([]int32, 0, experts)
	for at := k; at+k <= len(r.Experts); at += k {
		chosen := r.Experts[at : at+k]
		others = others[:0]
		for e := range int32(experts) {
			if !slices.Contains(chosen, e) {
				others = append(others, e)
			}
		}
		rng.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
		copy(chosen, others)
		slices.Sort(chosen)
	}
}

// permute shuffles experts and gates among the routed items of each segment, which
// stand in a row.
func permute(blocks []nn.Block, r *nn.Routing, k int, rng *rand.Rand) {
	shuffle := func(lo, hi int) { // items
		rng.Shuffle(hi-lo, func(i, j int) {
			for s := range k {
				x, y := (lo+i)*k+s, (lo+j)*k+s
				r.Experts[x], r.Experts[y] = r.Experts[y], r.Experts[x]
				r.Gates[x], r.Gates[y] = r.Gates[y], r.Gates[x]
			}
		})
	}
	lo := 1
	for i, b := range blocks {
		if last := i == len(blocks)-1 || blocks[i+1].First(); last && !b.First() {
			shuffle(lo, b.Item+1)
			lo = b.Item + 1
		}
	}
}

// interval is the mean of x and its 95% interval by Student's t; it is infinite for
// less than two values.
func interval(x []float64) (mean, low, high float64) {
	if len(x) < 2 {
		return stat.Mean(x, nil), math.Inf(-1), math.Inf(1)
	}
	mean, std := stat.MeanStdDev(x, nil)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(x) - 1)}.Quantile(0.975)
	half := t * stat.StdErr(std, float64(len(x)))
	return mean, mean - half, mean + half
}
