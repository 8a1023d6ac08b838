package nn

import (
	"math"

	"harness/amx"
)

// Block is a run of tokens that are routed together. Blocks are counted from each
// segment's start; the last of a segment may be short.
type Block struct {
	Lo, Hi int // rows of the batch
	Item   int // index of its statistic: 0 is the learned first-block vector, which all first blocks share
}

// First reports whether the learned vector routes the block.
func (b Block) First() bool { return b.Item == 0 }

// Routing is how a batch passes one mixture. K is top-k, E the number of experts.
type Routing struct {
	Experts []int32   // [items, K] ascending
	Gates   []float32 // [items, K]

	k       int
	stat    []float32   // [items, D] what each item was routed by
	scores  []float32   // [items, families]
	p       [][]float32 // by level [items, rows]: probability within its family; at level 0 among families
	entropy []float64   // [items] nats, of p over all experts
	balance float64     // E * sum of load * mean p, without its coefficient
	spans   []span
	uses    []use
	gates   []float32 // [K, N] the gate of every row, by slot
}

// span is a run of rows whose blocks chose the same experts.
type span struct {
	lo, hi int
	blocks [2]int // half-open range of the grid
}

// use is one expert's work on a span; slot is its place among the span's choices.
type use struct{ expert, span, slot int32 }

func (r *Routing) chosen(item int) []int32 { return r.Experts[item*r.k : (item+1)*r.k] }

// grid lists the blocks of a batch.
func (a *Activations) grid(m *Model, b Batch) {
	a.blocks, a.routed, a.items = a.blocks[:0], 0, 1
	size := m.MoE.RouteBlock
	b.segments(func(lo, hi int) {
		for at := lo; at < hi; at += size {
			block := Block{Lo: at, Hi: min(at+size, hi)}
			if at > lo {
				block.Item = a.items
				a.items++
				a.routed += block.Hi - block.Lo
			}
			a.blocks = append(a.blocks, block)
		}
	})
}

// maxItems bounds the statistics of a batch of n tokens: every routed block follows a
// full one.
func (m *Model) maxItems(n int) int { return n/m.MoE.RouteBlock + 1 }

// route chooses the experts of every block from normed [N,D], which it reads only
// before the block.
func (m *Model) route(l *Layer, c *layerCache, a *Activations, normed []float32) {
	x, r, d, k := l.Mixture, &c.routing, m.DModel, m.MoE.TopK
	r.Experts, r.Gates = r.Experts[:a.items*k], r.Gates[:a.items*k]
	copy(r.stat, x.First.Data)
	seen := 0.0 // tokens of the segment so far
	for i, b := range a.blocks {
		if b.First() {
			clear(a.sum)
			seen = 0
			continue
		}
		// The previous block of the same segment, which is whole.
		before := a.blocks[i-1]
		rows := before.Hi - before.Lo
		plus := a.sum
		if m.MoE.Statistic == WindowMean {
			plus, seen = nil, 0
		}
		seen += float64(rows)
		m.K.Gemm32(amx.NN, 1, d, rows, a.ones, rows, normed[before.Lo*d:], d, plus, a.sum, d)
		mean(r.stat[b.Item*d:(b.Item+1)*d], a.sum, seen)
	}
	for item := range a.items {
		m.choose(x, r, item)
		if a.training {
			x.distribution(r, item)
		}
	}
	if a.Reroute != nil {
		a.Reroute(c.layer, a.blocks, r)
	}
	r.plan(a)
}

// mean writes sum/n.
func mean(dst, sum []float32, n float64) {
	for i, s := range sum {
		dst[i] = float32(float64(s) / n)
	}
}

// choose ranks the families by their scores, takes the top k (ties to the lower id),
// gates them by the softmax over their scores, and follows each family down to the
// child that its siblings' rows pick.
func (m *Model) choose(x *Mixture, r *Routing, item int) {
	d, k, families := m.DModel, m.MoE.TopK, x.families()
	stat := r.stat[item*d : (item+1)*d]
	scores := r.scores[item*families : (item+1)*families]
	score(scores, x.Routers[0].Data, stat)
	experts, gates := r.chosen(item), r.Gates[item*k:(item+1)*k]
	top(experts, scores)
	softmaxOf(gates, scores, experts, m.MoE.gateScale())
	for j, e := range experts {
		for _, level := range x.Routers[1:] {
			e *= 2
			if dot(level.Data[int(e+1)*d:int(e+2)*d], stat) > dot(level.Data[int(e)*d:int(e+1)*d], stat) {
				e++
			}
		}
		experts[j] = e
	}
}

// score writes rows.x for every row of a router. A row's product does not depend on
// how many rows there are.
func score(dst, rows, x []float32) {
	for e := range dst {
		dst[e] = dot(rows[e*len(x):(e+1)*len(x)], x)
	}
}

// dot sums in float64, in four strands.
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += float64(a[i]) * float64(b[i])
		s1 += float64(a[i+1]) * float64(b[i+1])
		s2 += float64(a[i+2]) * float64(b[i+2])
		s3 += float64(a[i+3]) * float64(b[i+3])
	}
	for ; i < len(a); i++ {
		s0 += float64(a[i]) * float64(b[i])
	}
	return float32(s0 + s1 + s2 + s3)
}

// top fills ids with the indices of the largest scores, ascending.
func top(ids []int32, scores []float32) {
	n := 0
	for e, s := range scores {
		at := n
		for at > 0 && s > scores[ids[at-1]] { // an equal score stays behind the lower id
			at--
		}
		if at == len(ids) {
			continue
		}
		n = min(n+1, len(ids))
		copy(ids[at+1:n], ids[at:n-1])
		ids[at] = int32(e)
	}
	for i := 1; i < n; i++ {
		for j := i; j > 0 && ids[j] < ids[j-1]; j-- {
			ids[j], ids[j-1] = ids[j-1], ids[j]
		}
	}
}

// softmaxOf writes scale times the softmax over the scores of ids.
func softmaxOf(dst, scores []float32, ids []int32, scale float64) {
	most := math.Inf(-1)
	for _, e := range ids {
		most = max(most, float64(scores[e]))
	}
	sum := 0.0
	for _, e := range ids {
		sum += math.Exp(float64(scores[e]) - most)
	}
	for i, e := range ids {
		dst[i] = float32(scale * math.Exp(float64(scores[e])-most) / sum)
	}
}

// plan gathers what an expert has to do: runs of rows with the same experts, and
// for every expert the runs it works on, experts ascending.
func (r *Routing) plan(a *Activations) {
	r.spans, r.uses = r.spans[:0], r.uses[:0]
	for i, b := range a.blocks {
		if n := len(r.spans); n > 0 && r.same(a.blocks[r.spans[n-1].blocks[0]].Item, b.Item) {
			r.spans[n-1].hi, r.spans[n-1].blocks[1] = b.Hi, i+1
		} else {
			r.spans = append(r.spans, span{b.Lo, b.Hi, [2]int{i, i + 1}})
		}
		for slot, g := range r.Gates[b.Item*r.k : (b.Item+1)*r.k] {
			row := r.gates[slot*a.maxN+b.Lo : slot*a.maxN+b.Hi]
			for j := range row {
				row[j] = g
			}
		}
	}
	for i, s := range r.spans {
		for slot, e := range r.chosen(a.blocks[s.blocks[0]].Item) {
			r.uses = append(r.uses, use{e, int32(i), int32(slot)})
		}
	}
	sortUses(r.uses)
}

func (r *Routing) same(item, other int) bool {
	if item == other {
		return true
	}
	a, b := r.chosen(item), r.chosen(other)
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
