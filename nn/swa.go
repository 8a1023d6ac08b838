package nn

import (
	"math"

	"harness/amx"
)

// attention is the shape of swa over one segment of n tokens, in rows of In.
func (m *Model) attention(l *Layer, n int) amx.AttentionShape {
	return amx.AttentionShape{N: n, Heads: m.Heads, HeadWidth: m.HeadWidth, Window: m.Window,
		In: l.In.Shape[1], Out: m.Heads * m.HeadWidth, Scale: float32(1 / math.Sqrt(float64(m.HeadWidth)))}
}

// forwardSWA computes sliding-window attention with H query heads over one key
// and value head. c.in [N,w] (after the rotary) -> c.mixed [N,H*dh]; keeps c.norm.
func (m *Model) forwardSWA(l *Layer, c *layerCache, b Batch) {
	w, hd := l.In.Shape[1], m.Heads*m.HeadWidth
	b.segments(func(lo, hi int) {
		m.K.Attention(c.mixed[lo*hd:], c.norm[lo*m.Heads:], c.in[lo*w:], m.attention(l, hi-lo))
	})
}

// rehearseSWA makes the kernels' scratch large enough for a segment of as many tokens as
// the workspace holds; a window of one token is enough for that, and takes no time.
func (m *Model) rehearseSWA(a *Activations) {
	for i := range m.Layers {
		if l, c := &m.Layers[i], &a.layers[i]; l.Mixer == SWA {
			s := m.attention(l, a.maxN)
			s.Window = 1
			m.K.Attention(c.mixed, c.norm, c.in, s)
			return
		}
	}
}

// backwardSWA reads a.dMixed [N,H*dh] and leaves the gradient of the In
// projection's output in a.dIn.
func (m *Model) backwardSWA(l *Layer, c *layerCache, a *Activations, b Batch) {
	w, hd := l.In.Shape[1], m.Heads*m.HeadWidth
	b.segments(func(lo, hi int) {
		m.K.AttentionBackward(a.dIn[lo*w:], c.in[lo*w:], c.mixed[lo*hd:], a.dMixed[lo*hd:], c.norm[lo*m.Heads:], m.attention(l, hi-lo))
	})
	m.K.Rotary(a.dIn, a.n, w, m.Heads+1, m.HeadWidth, a.pos, a.cos, a.sin, -1)
}
