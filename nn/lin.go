package nn

import (
	"math"

	"harness/amx"
)

// linear is the shape of lin over one segment of n tokens, in rows of In.
func (m *Model) linear(l *Layer, n int) amx.LinearShape {
	return amx.LinearShape{N: n, Heads: m.Heads, State: m.StateWidth, HeadWidth: m.HeadWidth,
		In: l.In.Shape[1], Out: m.Heads * m.HeadWidth}
}

// statesSize bounds the saved states of n tokens: at most one follows each chunk.
func (m *Model) statesSize(n int) int {
	return n / amx.LinearChunk * m.Heads * m.StateWidth * m.HeadWidth
}

// linColumns are where the parts of lin's In projection start.
type linColumns struct{ q, k, v, gate, decay int }

func (m *Model) linColumns() linColumns {
	s, hd := m.StateWidth, m.Heads*m.HeadWidth
	return linColumns{0, s, 2 * s, 2*s + hd, 2*s + 2*hd}
}

// decayBiases are the fixed constants c_h inside softplus that give the heads, at
// a zero projection, half-lives between 64 tokens (first head) and 512 (last).
func decayBiases(heads int) []float32 {
	c := make([]float32, heads)
	for h := range c {
		halfLife := 64.0
		if heads > 1 {
			halfLife *= math.Pow(8, float64(h)/float64(heads-1))
		}
		c[h] = float32(math.Log(math.Expm1(math.Ln2 / halfLife)))
	}
	return c
}

// forwardLin computes linear attention: per head, with log-decay
// a_t = -softplus(w_h.x_t + c_h), the state s_t = exp(a_t) s_{t-1} + k_t v_t^T is
// read by q_t, RMS-normed and gated. c.in [N,w] -> c.mixed [N,H*dh].
func (m *Model) forwardLin(l *Layer, c *layerCache, a *Activations, b Batch) {
	k, n, dh, w := m.K, a.n, m.HeadWidth, l.In.Shape[1]
	m.forwardHeads(l, c, b)
	k.RMSNorm(c.headNormed, c.headRstd, c.head, l.HeadNorm.Data, n*m.Heads, dh, normEps)
	k.SigmoidGate(c.mixed, c.headNormed, c.in[m.linColumns().gate:], n, m.Heads*dh, w)
}

// backwardLin reads a.dMixed [N,H*dh] and leaves the gradient of the In
// projection's output in a.dIn.
func (m *Model) backwardLin(l *Layer, c *layerCache, a *Activations, b Batch) {
	k, n, dh, w := m.K, a.n, m.HeadWidth, l.In.Shape[1]
	hd, gate := m.Heads*dh, m.linColumns().gate
	dHead := a.dHead[:n*hd]
	clear(dHead)
	// c.mixed has been read: it becomes the gradient of the normed heads.
	k.SigmoidGateBackward(c.mixed, a.dIn[gate:], a.dMixed, c.headNormed, c.in[gate:], n, hd, w, w)
	k.RMSNormBackward(dHead, l.HeadNorm.Grad, c.mixed, c.mixed, c.head, l.HeadNorm.Data, c.headRstd, n*m.Heads, dh)
	m.backwardHeads(l, c, a, b)
}

// forwardHeads runs the recurrence over c.in [N,w] and leaves every head's output
// in c.head [N,H*dh], and states in c.states.
func (m *Model) forwardHeads(l *Layer, c *layerCache, b Batch) {
	w, hd, at := l.In.Shape[1], m.Heads*m.HeadWidth, 0
	b.segments(func(lo, hi int) {
		s := m.linear(l, hi-lo)
		m.K.LinearAttention(c.head[lo*hd:], c.states[at:], c.in[lo*w:], m.decayBias, s)
		at += s.States()
	})
}

// backwardHeads reads a.dHead [N,H*dh] and writes to a.dIn the gradients of
// queries, keys, values and the decay projection.
func (m *Model) backwardHeads(l *Layer, c *layerCache, a *Activations, b Batch) {
	w, hd, at := l.In.Shape[1], m.Heads*m.HeadWidth, 0
	b.segments(func(lo, hi int) {
		s := m.linear(l, hi-lo)
		m.K.LinearAttentionBackward(a.dIn[lo*w:], c.states[at:], c.in[lo*w:], a.dHead[lo*hd:], m.decayBias, s)
		at += s.States()
	})
}
