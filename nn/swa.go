package nn

import (
	"math"

	"harness/amx"
)

// queryBlock is how many query rows attention handles at once. Blocks count from
// the segment's start, so that a document's result does not depend on its offset.
const queryBlock = 64

type attentionScratch struct {
	dProbs []float32 // [queryBlock, W-1+queryBlock]
}

func newAttentionScratch(m *Model) attentionScratch {
	return attentionScratch{dProbs: make([]float32, queryBlock*(m.Window-1+queryBlock))}
}

// probsSize bounds the attention weights of n tokens, all heads.
func (m *Model) probsSize(n int) int { return n * m.Heads * min(m.Window-1+queryBlock, n) }

// block is one tile of attention: queries [i0,i1) against keys [j0,i1).
type block struct{ i0, i1, j0 int }

// blocks tiles a segment; every key a query may see (i-W < j <= i) is in its tile.
func (m *Model) blocks(lo, hi int, f func(block)) {
	for i := lo; i < hi; i += queryBlock {
		f(block{i, min(i+queryBlock, hi), max(lo, i-m.Window+1)})
	}
}

// forwardSWA computes sliding-window attention with H query heads over one key
// and value head. c.normed [N,D] -> c.mixed [N,H*dh]; keeps c.in (after the
// rotary) and c.probs.
func (m *Model) forwardSWA(l *Layer, c *layerCache, a *Activations, b Batch) {
	k, n, d, dh, w := m.K, a.n, m.DModel, m.HeadWidth, l.In.Shape[1]
	hd := m.Heads * dh
	k.Gemm(amx.NN, n, w, d, c.normed, d, l.In.Data, w, c.in, w, false)
	k.Rotary(c.in, n, w, m.Heads+1, dh, a.pos, a.cos, a.sin, 1)
	scale := float32(1 / math.Sqrt(float64(dh)))
	keys, values := c.in[hd:], c.in[hd+dh:]
	at := 0
	b.segments(func(lo, hi int) {
		m.blocks(lo, hi, func(t block) {
			rows, cols := t.i1-t.i0, t.i1-t.j0
			for h := range m.Heads {
				p := c.probs[at : at+rows*cols]
				at += rows * cols
				k.Gemm(amx.NT, rows, cols, dh, c.in[t.i0*w+h*dh:], w, keys[t.j0*w:], w, p, cols, false)
				k.SoftmaxBand(p, rows, cols, cols, t.i0-t.j0, m.Window, scale)
				k.Gemm(amx.NN, rows, dh, cols, p, cols, values[t.j0*w:], w, c.mixed[t.i0*hd+h*dh:], hd, false)
			}
		})
	})
}

// backwardSWA reads a.dMixed [N,H*dh] and leaves the gradient of the In
// projection's output in a.dIn.
func (m *Model) backwardSWA(l *Layer, c *layerCache, a *Activations, b Batch) {
	k, n, dh, w := m.K, a.n, m.HeadWidth, l.In.Shape[1]
	hd := m.Heads * dh
	dIn := a.dIn[:n*w]
	clear(dIn)
	scale := float32(1 / math.Sqrt(float64(dh)))
	keys, values := c.in[hd:], c.in[hd+dh:]
	dKeys, dValues := dIn[hd:], dIn[hd+dh:]
	at := 0
	b.segments(func(lo, hi int) {
		m.blocks(lo, hi, func(t block) {
			rows, cols := t.i1-t.i0, t.i1-t.j0
			for h := range m.Heads {
				p := c.probs[at : at+rows*cols]
				at += rows * cols
				dOut := a.dMixed[t.i0*hd+h*dh:]
				dP := a.attn.dProbs
				k.Gemm(amx.TN, cols, dh, rows, p, cols, dOut, hd, dValues[t.j0*w:], w, true)
				k.Gemm(amx.NT, rows, cols, dh, dOut, hd, values[t.j0*w:], w, dP, cols, false)
				k.SoftmaxBandBackward(dP, p, rows, cols, cols, scale)
				k.Gemm(amx.NN, rows, dh, cols, dP, cols, keys[t.j0*w:], w, dIn[t.i0*w+h*dh:], w, false)
				k.Gemm(amx.TN, cols, dh, rows, dP, cols, c.in[t.i0*w+h*dh:], w, dKeys[t.j0*w:], w, true)
			}
		})
	})
	k.Rotary(dIn, n, w, m.Heads+1, dh, a.pos, a.cos, a.sin, -1)
}
