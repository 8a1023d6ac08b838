package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"harness/amx"
)

// Rows says which embedding rows one training step touches, and holds their
// gradients: scored rows first (softmax columns, ascending), then rows that are
// only read as inputs. With the full softmax it is the whole table, in order.
type Rows struct {
	IDs    []int32   // touched rows
	Scored int       // the first Scored of IDs are softmax columns
	Grad   []float32 // [len(IDs), D], overwritten by Loss, accumulated by Backward
	Bias   []float32 // [Scored] added to a column's logit, nil for the full softmax

	d      int
	most   int       // largest Scored of any step
	table  []float32 // [Scored, D] compact copy of the scored rows; nil for the full softmax
	slot   []int32   // [V] index into IDs, or -1
	marked []int32   // ids whose slot is set
	pool   *pool
}

// NewRows prepares for batches of at most maxTokens tokens. counts [V] are the
// training counts from which the sampled softmax draws its negatives.
func NewRows(m *Model, loss LossConfig, counts []int64, maxTokens int) *Rows {
	r := &Rows{d: m.DModel, slot: make([]int32, m.V)}
	if loss.Kind != SampledSoftmax {
		r.Scored, r.most = m.V, m.V
		r.IDs = make([]int32, m.V)
		for i := range r.IDs {
			r.IDs[i], r.slot[i] = int32(i), int32(i)
		}
		r.Grad = amx.Floats(m.V * m.DModel)
		return r
	}
	for i := range r.slot {
		r.slot[i] = -1
	}
	r.pool = newPool(loss, counts, m.V)
	touched := MostRows(m, loss, maxTokens)
	r.most = min(m.V, loss.Negatives+maxTokens)
	r.IDs = make([]int32, 0, touched)
	r.marked = make([]int32, 0, touched)
	r.Grad = amx.Floats(touched * m.DModel)
	r.Bias = make([]float32, 0, r.most)
	r.table = amx.Floats(r.most * m.DModel)
	return r
}

// MostRows bounds the embedding rows that a step of maxTokens tokens touches.
func MostRows(m *Model, loss LossConfig, maxTokens int) int {
	if loss.Kind != SampledSoftmax {
		return m.V
	}
	return min(m.V, loss.Negatives+2*maxTokens)
}

// Plan chooses the rows of one step: the negatives drawn by rng, the targets and
// the inputs. A target outside the pool gets a column of its own that no other
// row counts (bias -Inf), so that one column set serves every row.
func (r *Rows) Plan(b Batch, rng *rand.Rand) {
	if r.pool == nil {
		return
	}
	for _, id := range r.marked {
		r.slot[id] = -1
	}
	r.marked = r.marked[:0]
	mark := func(id int32) {
		if r.slot[id] < 0 {
			r.slot[id] = 0
			r.marked = append(r.marked, id)
		}
	}
	r.IDs, r.Bias = r.IDs[:0], r.Bias[:0]
	r.pool.draw(rng, mark)
	negatives := len(r.marked)
	for _, id := range r.marked {
		r.slot[id] = 1 // drawn: not a target alone
	}
	for _, id := range b.Targets {
		if id >= 0 {
			mark(id)
		}
	}
	slices.Sort(r.marked)
	r.Scored = len(r.marked)
	for _, id := range r.marked {
		bias := float32(math.Inf(-1))
		if r.slot[id] == 1 {
			bias = r.pool.bias[id]
			negatives--
		}
		r.Bias = append(r.Bias, bias)
	}
	if negatives != 0 {
		panic(fmt.Sprintf("nn: %d negatives lost while planning rows", negatives))
	}
	for i, id := range r.marked {
		r.slot[id] = int32(i)
		r.IDs = append(r.IDs, id)
	}
	for _, id := range b.Tokens {
		if r.slot[id] < 0 {
			r.slot[id] = int32(len(r.IDs))
			r.IDs = append(r.IDs, id)
			r.marked = append(r.marked, id)
		}
	}
}

// slots writes where each token's gradient row lies.
func (r *Rows) slots(dst, tokens []int32) {
	for i, id := range tokens {
		dst[i] = r.slot[id]
	}
}

// pool draws negatives: n ids i.i.d. from q, proportional to max(count,
// floor)^power. An id stands in the pool with probability 1-(1-q)^n, and its
// exponential is divided by that (paper, section 3), so that the expected
// normaliser over draws is the true one.
type pool struct {
	n          int
	cumulative []float64 // [V] running sum of q
	bias       []float32 // [V] -log of the inclusion probability
}

func newPool(cfg LossConfig, counts []int64, vocab int) *pool {
	if len(counts) != vocab {
		panic(fmt.Sprintf("nn: %d token counts for a vocabulary of %d", len(counts), vocab))
	}
	p := &pool{n: cfg.Negatives, cumulative: make([]float64, vocab), bias: make([]float32, vocab)}
	total := 0.0
	for i, c := range counts {
		total += math.Pow(math.Max(float64(c), cfg.Floor), cfg.Power)
		p.cumulative[i] = total
	}
	before := 0.0
	for i, c := range p.cumulative {
		q := (c - before) / total
		before = c
		p.bias[i] = float32(-math.Log(-math.Expm1(float64(p.n) * math.Log1p(-q))))
	}
	return p
}

func (p *pool) draw(rng *rand.Rand, mark func(int32)) {
	total := p.cumulative[len(p.cumulative)-1]
	for range p.n {
		x := rng.Float64() * total
		i := sort.SearchFloat64s(p.cumulative, x)
		mark(int32(min(i, len(p.cumulative)-1)))
	}
}
