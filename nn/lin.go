package nn

import (
	"math"

	"harness/amx"
)

// linChunk is the number of tokens handled by one masked product; the state
// carries across chunks. Chunks count from the segment's start.
const linChunk = 64

// linScratch is the working memory of one chunk.
type linScratch struct {
	scores   []float32 // [C,C] q.k, shared by the heads
	decayed  []float32 // [C,C] scores times exp(cum_i - cum_j), masked
	dScores  []float32 // [C,C]
	dDecayed []float32 // [C,C]
	rows     []float32 // [C, max(S,dh)]
	rows2    []float32 // [C, max(S,dh)]
	dots     []float32 // [C]
	dCum     []float32 // [H,C]
	dState   []float32 // [H,S,dh] gradient of the state at the chunk's end
}

func newLinScratch(m *Model) linScratch {
	c, w := linChunk, max(m.StateWidth, m.HeadWidth)
	f32 := func(n int) []float32 { return make([]float32, n) }
	return linScratch{scores: f32(c * c), decayed: f32(c * c), dScores: f32(c * c), dDecayed: f32(c * c),
		rows: f32(c * w), rows2: f32(c * w), dots: f32(c), dCum: f32(m.Heads * c), dState: f32(m.Heads * m.StateWidth * m.HeadWidth)}
}

// chunk is a run of at most linChunk tokens of one segment.
type chunk struct {
	lo, hi int
	state  int // index of the saved state at its start; -1 where that is zero: the segment's first chunk
	next   int // the same for the chunk that follows in the segment; -1 for the last
}

// chunks cuts every segment and appends to dst.
func (b Batch) chunks(dst []chunk) []chunk {
	states := 0
	b.segments(func(lo, hi int) {
		state := -1
		for i := lo; i < hi; i += linChunk {
			c := chunk{lo: i, hi: min(i+linChunk, hi), state: state, next: -1}
			if c.hi < hi {
				c.next = states
				states++
			}
			state = c.next
			dst = append(dst, c)
		}
	})
	return dst
}

// statesSize bounds the saved states of n tokens: one follows each full chunk.
func (m *Model) statesSize(n int) int {
	return (n/linChunk + 1) * m.Heads * m.StateWidth * m.HeadWidth
}

// linColumns are where the parts of lin's In projection start.
type linColumns struct{ q, k, v, gate, decay int }

func (m *Model) linColumns() linColumns {
	s, hd := m.StateWidth, m.Heads*m.HeadWidth
	return linColumns{0, s, 2 * s, 2*s + hd, 2*s + 2*hd}
}

// decayBias is the fixed constant c_h inside softplus that gives head h, at a
// zero projection, a half-life between 64 tokens (first head) and 512 (last).
func decayBias(h, heads int) float64 {
	halfLife := 64.0
	if heads > 1 {
		halfLife *= math.Pow(8, float64(h)/float64(heads-1))
	}
	return math.Log(math.Expm1(math.Ln2 / halfLife))
}

// softplus is log(1+exp(x)) without overflow.
func softplus(x float64) float64 {
	if x > 30 {
		return x
	}
	return math.Log1p(math.Exp(x))
}

// forwardLin computes linear attention: per head, with log-decay
// a_t = -softplus(w_h.x_t + c_h), the state s_t = exp(a_t) s_{t-1} + k_t v_t^T is
// read by q_t, RMS-normed and gated. c.normed [N,D] -> c.mixed [N,H*dh].
func (m *Model) forwardLin(l *Layer, c *layerCache, a *Activations) {
	k, n, d, dh, w := m.K, a.n, m.DModel, m.HeadWidth, l.In.Shape[1]
	k.Gemm(amx.NN, n, w, d, c.normed, d, l.In.Data, w, c.in, w, false)
	m.forwardHeads(c, a, w)
	k.RMSNorm(c.headNormed, c.headRstd, c.head, l.HeadNorm.Data, n*m.Heads, dh, normEps)
	k.SigmoidGate(c.mixed, c.headNormed, c.in[m.linColumns().gate:], n, m.Heads*dh, w)
}

// backwardLin reads a.dMixed [N,H*dh] and leaves the gradient of the In
// projection's output in a.dIn.
func (m *Model) backwardLin(l *Layer, c *layerCache, a *Activations) {
	k, n, dh, w := m.K, a.n, m.HeadWidth, l.In.Shape[1]
	hd, gate := m.Heads*dh, m.linColumns().gate
	dIn, dHead := a.dIn[:n*w], a.dHead[:n*hd]
	clear(dIn)
	clear(dHead)
	// c.mixed has been read: it becomes the gradient of the normed heads.
	k.SigmoidGateBackward(c.mixed, dIn[gate:], a.dMixed, c.headNormed, c.in[gate:], n, hd, w, w)
	k.RMSNormBackward(dHead, l.HeadNorm.Grad, c.mixed, c.head, l.HeadNorm.Data, c.headRstd, n*m.Heads, dh)
	m.backwardHeads(c, a, w)
}

// forwardHeads runs the recurrence over c.in [N,w] and leaves every head's
// output in c.head [N,H*dh]. Within a chunk every decay is formed as
// exp(cum_i - cum_j) <= 1, since factored exponentials would overflow; across
// chunks the state carries.
func (m *Model) forwardHeads(c *layerCache, a *Activations, w int) {
	k, dh, s := m.K, m.HeadWidth, m.StateWidth
	hd, col, z := m.Heads*dh, m.linColumns(), &a.lin
	m.decays(c, a, w, col.decay)
	for _, t := range a.chunks {
		rows := t.hi - t.lo
		q, key, v := c.in[t.lo*w+col.q:], c.in[t.lo*w+col.k:], c.in[t.lo*w+col.v:]
		k.Gemm(amx.NT, rows, rows, s, q, w, key, w, z.scores, rows, false)
		for h := range m.Heads {
			vh, out := v[h*dh:], c.head[t.lo*hd+h*dh:]
			at := h*a.maxN + t.lo
			k.DecayScores(z.decayed, z.scores, c.cum[at:at+rows], rows, rows)
			k.Gemm(amx.NN, rows, dh, rows, z.decayed, rows, vh, w, out, hd, false)
			if t.state >= 0 {
				k.Gemm(amx.NN, rows, dh, s, q, w, m.state(c, t.state, h), dh, z.rows, dh, false)
				k.ScaleRows(out, z.rows, c.fromStart[at:at+rows], rows, dh, hd, dh, true)
			}
			if t.next < 0 {
				continue
			}
			next := m.state(c, t.next, h)
			k.ScaleRows(z.rows2, key, c.toEnd[at:at+rows], rows, s, s, w, false)
			k.Gemm(amx.TN, s, dh, rows, z.rows2, s, vh, w, next, dh, false)
			if t.state >= 0 {
				k.ScaleRows(next, m.state(c, t.state, h), c.fromStart[at+rows-1:at+rows], 1, s*dh, s*dh, s*dh, true)
			}
		}
	}
}

// state is the saved state [S,dh] number i of head h.
func (m *Model) state(c *layerCache, i, h int) []float32 {
	size := m.StateWidth * m.HeadWidth
	at := (i*m.Heads + h) * size
	return c.states[at : at+size]
}

// decays fills cum, fromStart and toEnd [H,N] from the decay projection.
func (m *Model) decays(c *layerCache, a *Activations, w, column int) {
	for h := range m.Heads {
		bias := decayBias(h, m.Heads)
		for _, t := range a.chunks {
			sum, base := 0.0, h*a.maxN
			for i := t.lo; i < t.hi; i++ {
				sum -= softplus(float64(c.in[i*w+column+h]) + bias)
				c.cum[base+i] = float32(sum)
				c.fromStart[base+i] = float32(math.Exp(sum))
			}
			for i := t.lo; i < t.hi; i++ {
				c.toEnd[base+i] = float32(math.Exp(sum - float64(c.cum[base+i])))
			}
		}
	}
}

// backwardHeads reads a.dHead [N,H*dh] and adds to a.dIn the gradients of
// queries, keys, values and the decay projection.
func (m *Model) backwardHeads(c *layerCache, a *Activations, w int) {
	k, dh, s := m.K, m.HeadWidth, m.StateWidth
	hd, col, z := m.Heads*dh, m.linColumns(), &a.lin
	dIn, dHead := a.dIn, a.dHead
	for i := len(a.chunks) - 1; i >= 0; i-- {
		t := a.chunks[i]
		rows := t.hi - t.lo
		q, key, v := c.in[t.lo*w+col.q:], c.in[t.lo*w+col.k:], c.in[t.lo*w+col.v:]
		dQ, dK, dV := dIn[t.lo*w+col.q:], dIn[t.lo*w+col.k:], dIn[t.lo*w+col.v:]
		k.Gemm(amx.NT, rows, rows, s, q, w, key, w, z.scores, rows, false)
		clear(z.dScores[:rows*rows])
		clear(z.dCum)
		for h := range m.Heads {
			at := h*a.maxN + t.lo
			cum, fromStart, toEnd := c.cum[at:at+rows], c.fromStart[at:at+rows], c.toEnd[at:at+rows]
			dOut, vh, dCum := dHead[t.lo*hd+h*dh:], v[h*dh:], z.dCum[h*linChunk:h*linChunk+rows]
			dState := z.dState[h*s*dh : (h+1)*s*dh]

			k.DecayScores(z.decayed, z.scores, cum, rows, rows)
			k.Gemm(amx.TN, rows, dh, rows, z.decayed, rows, dOut, hd, dV[h*dh:], w, true)
			k.Gemm(amx.NT, rows, rows, dh, dOut, hd, vh, w, z.dDecayed, rows, false)
			k.DecayScoresBackward(z.dScores, dCum, z.dDecayed, z.scores, cum, rows, rows)
			if t.next >= 0 {
				m.backwardStateWrite(z, dState, toEnd, rows, key, vh, dK, dV[h*dh:], dCum, w)
				if t.state >= 0 {
					dCum[rows-1] += fromStart[rows-1] * dot(dState, m.state(c, t.state, h))
				}
				scale(dState, fromStart[rows-1])
			} else {
				clear(dState)
			}
			if t.state >= 0 {
				m.backwardStateRead(z, dState, m.state(c, t.state, h), fromStart, rows, q, dOut, dQ, dCum, w)
			}
			m.backwardDecays(dIn, c, dCum, t, h, w)
		}
		k.Gemm(amx.NN, rows, s, rows, z.dScores, rows, key, w, dQ, w, true)
		k.Gemm(amx.TN, rows, s, rows, z.dScores, rows, q, w, dK, w, true)
	}
}

// backwardStateWrite differentiates state += sum_j toEnd_j k_j v_j^T.
func (m *Model) backwardStateWrite(z *linScratch, dState, toEnd []float32, rows int, key, vh, dK, dV, dCum []float32, w int) {
	k, s, dh := m.K, m.StateWidth, m.HeadWidth
	k.Gemm(amx.NN, rows, dh, s, key, w, dState, dh, z.rows, dh, false)
	k.ScaleRows(dV, z.rows, toEnd, rows, dh, w, dh, true)
	k.Gemm(amx.NT, rows, s, dh, vh, w, dState, dh, z.rows2, s, false)
	k.ScaleRows(dK, z.rows2, toEnd, rows, s, w, s, true)
	clear(z.dots)
	k.RowDots(z.dots, z.rows2, key, rows, s, s, w)
	for j := range rows {
		g := toEnd[j] * z.dots[j]
		dCum[rows-1] += g
		dCum[j] -= g
	}
}

// backwardStateRead differentiates out_i += fromStart_i q_i.state and adds the
// read's share to dState, which becomes the gradient at the chunk's start.
func (m *Model) backwardStateRead(z *linScratch, dState, state, fromStart []float32, rows int, q, dOut, dQ, dCum []float32, w int) {
	k, s, dh, hd := m.K, m.StateWidth, m.HeadWidth, m.Heads*m.HeadWidth
	k.Gemm(amx.NN, rows, dh, s, q, w, state, dh, z.rows, dh, false)
	clear(z.dots)
	k.RowDots(z.dots, z.rows, dOut, rows, dh, dh, hd)
	for i := range rows {
		dCum[i] += fromStart[i] * z.dots[i]
	}
	k.ScaleRows(z.rows, dOut, fromStart, rows, dh, dh, hd, false)
	k.Gemm(amx.NT, rows, s, dh, z.rows, dh, state, dh, dQ, w, true)
	k.Gemm(amx.TN, s, dh, rows, q, w, z.rows, dh, dState, dh, true)
}

// backwardDecays turns the gradient of the summed decays into that of the decay
// projection: da_t = sum of dCum from t on, times -sigmoid of what softplus saw.
// The sigmoid is taken from the projection: differences of cum have lost it.
func (m *Model) backwardDecays(dIn []float32, c *layerCache, dCum []float32, t chunk, h, w int) {
	sum, column, bias := 0.0, m.linColumns().decay+h, decayBias(h, m.Heads)
	for i := t.hi - 1; i >= t.lo; i-- {
		sum += float64(dCum[i-t.lo])
		dIn[i*w+column] = float32(-sum / (1 + math.Exp(-float64(c.in[i*w+column])-bias)))
	}
}

func dot(a, b []float32) float32 {
	sum := float32(0)
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

func scale(x []float32, s float32) {
	for i := range x {
		x[i] *= s
	}
}
