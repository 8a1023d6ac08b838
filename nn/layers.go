package nn

import (
	"harness/amx"
)

// tokenBlock is how many tokens pass at once through a layer's products and what
// stands between them, so that the next operation finds in the cache what the last
// one wrote. It is also how many tokens a product of a weight's gradient sums at
// once, before it adds to what earlier blocks gave.
const tokenBlock = 256

// operands are one layer's matrices laid out as the right operands of products,
// once for all blocks of a pass. The layers take turns in this memory.
type operands struct{ in, out, gateUp, down amx.Packed }

// pack lays the layer's matrices out: NN to multiply activations with them, NT
// to take gradients back through them.
func (w *operands) pack(m *Model, l *Layer, t amx.Trans) {
	lay := func(p *amx.Packed, from *Param) {
		in, out := from.Shape[0], from.Shape[1]
		if t == amx.NT {
			m.K.Pack(p, t, in, out, from.Data, out)
		} else {
			m.K.Pack(p, t, out, in, from.Data, out)
		}
	}
	lay(&w.in, l.In)
	lay(&w.out, l.Out)
	if l.dense() > 0 {
		lay(&w.gateUp, l.GateUp)
		lay(&w.down, l.Down)
	}
}

// Forward runs the batch through every layer and leaves the final normed hidden
// state [N,D] in a.Hidden. With caches for training, Backward may follow.
func (m *Model) Forward(a *Activations, b Batch) {
	a.begin(m, b)
	k, n, d := m.K, a.n, m.DModel
	k.GatherRows(a.layers[0].x, m.Embedding.Data, b.Tokens, n, d, embeddingScale(d))
	for i := range m.Layers {
		l, c := &m.Layers[i], &a.layers[i]
		a.operands.pack(m, l, amx.NN)
		for lo := 0; lo < n; lo += tokenBlock {
			m.forwardIn(l, c, a, lo, min(tokenBlock, n-lo))
		}
		switch l.Mixer {
		case SWA:
			m.forwardSWA(l, c, b)
		case Lin:
			m.forwardLin(l, c, a, b)
		}
		next := a.after(i)
		for lo := 0; lo < n; lo += tokenBlock {
			m.forwardOut(l, c, a, lo, min(tokenBlock, n-lo), next)
		}
		if l.Mixture != nil {
			m.forwardExperts(l, c, a, next)
		}
	}
	k.RMSNorm(a.Hidden, a.rstd, a.after(len(m.Layers)-1), m.FinalNorm.Data, n, d, normEps)
}

// forwardIn takes a block of rows from lo on to the mixer's input: x -> norm ->
// In -> c.in, for swa with the rotary.
func (m *Model) forwardIn(l *Layer, c *layerCache, a *Activations, lo, rows int) {
	k, d, w := m.K, m.DModel, l.In.Shape[1]
	in := c.in[lo*w:]
	k.RMSNorm(a.normed, c.rstd[lo:], c.x[lo*d:], l.MixNorm.Data, rows, d, normEps)
	k.GemmPacked(rows, a.normed, d, &a.operands.in, nil, in, w)
	if l.Mixer == SWA {
		k.Rotary(in, rows, w, m.Heads+1, m.HeadWidth, a.pos[lo:], a.cos, a.sin, 1)
	}
}

// forwardOut takes a block from the mixer's output to the next layer's input:
// x2 = x + mixed.Out, next = x2 + down(act(normed.gate) * (normed.up)). In a mixture
// the MLP is that of the shared experts, if there are any, and c.normed is kept.
func (m *Model) forwardOut(l *Layer, c *layerCache, a *Activations, lo, rows int, next []float32) {
	k, d, f, hd := m.K, m.DModel, l.dense(), m.Heads*m.HeadWidth
	x, x2, normed := c.x[lo*d:], c.x2[lo*d:], a.normed
	if l.Mixture != nil {
		normed = c.normed[lo*d:]
	}
	k.GemmPacked(rows, c.mixed[lo*hd:], hd, &a.operands.out, x, x2, d)
	k.RMSNorm(normed, c.rstd2[lo:], x2, l.FFNNorm.Data, rows, d, normEps)
	if f == 0 {
		copy(next[lo*d:(lo+rows)*d], x2)
		return
	}
	gateUp := c.gateUp[a.kept(lo)*2*f:]
	k.GemmPacked(rows, normed, d, &a.operands.gateUp, nil, gateUp, 2*f)
	k.GatedAct(a.hidden, gateUp, rows, f, m.activation())
	k.GemmPacked(rows, a.hidden, f, &a.operands.down, x2, next[lo*d:], d)
}

// Backward takes the gradient of the hidden state, a.DHidden [N,D], back
// through every layer: it overwrites the gradients of the dense parameters and, in
// Touched, of the experts, and accumulates those of the embedding rows that were read
// into rows.Grad. It uses
// up a.DHidden and the caches.
func (m *Model) Backward(a *Activations, b Batch, rows *Rows) {
	k, n, d := m.K, a.n, m.DModel
	for _, p := range m.params {
		if p.Kind == Gain { // the kernels accumulate these
			clear(p.Grad)
		}
	}
	dX := a.dX[:n*d]
	clear(dX)
	k.RMSNormBackward(dX, m.FinalNorm.Grad, a.DHidden, a.DHidden, a.after(len(m.Layers)-1), m.FinalNorm.Data, a.rstd, n, d)
	for i := len(m.Layers) - 1; i >= 0; i-- {
		l, c := &m.Layers[i], &a.layers[i]
		a.operands.pack(m, l, amx.NT)
		if l.Mixture != nil {
			m.backwardExperts(l, c, a, dX)
		}
		for lo := 0; lo < n; lo += tokenBlock {
			m.backwardOut(l, c, a, lo, min(tokenBlock, n-lo))
		}
		switch l.Mixer {
		case SWA:
			m.backwardSWA(l, c, a, b)
		case Lin:
			m.backwardLin(l, c, a, b)
		}
		for lo := 0; lo < n; lo += tokenBlock {
			m.backwardIn(l, c, a, lo, min(tokenBlock, n-lo))
		}
	}
	rows.slots(a.slots[:n], b.Tokens)
	k.ScatterAddRows(rows.Grad, dX, a.slots[:n], n, d, embeddingScale(d))
}

// backwardOut reads a block of a.dX, the gradient of the layer's output, and
// makes it that of x2; it leaves the gradient of the mixer's output in a.dMixed.
// Hidden states and normed inputs are formed again, in the cache: reading them from
// memory would take longer. c.gateUp becomes its own gradient. In a mixture a.dNormed
// holds the experts' share already.
func (m *Model) backwardOut(l *Layer, c *layerCache, a *Activations, lo, rows int) {
	k, d, f, hd := m.K, m.DModel, l.dense(), m.Heads*m.HeadWidth
	dX, normed := a.dX[lo*d:], a.normed
	var gateUp, plus []float32
	if l.Mixture != nil {
		normed = a.dNormed[lo*d:]
		plus = normed
	}
	if f > 0 {
		gateUp = c.gateUp[lo*2*f:]
		k.GemmPacked(rows, dX, d, &a.operands.down, nil, a.hidden, f)
		k.GatedActBackward(gateUp, a.hidden, gateUp, a.hidden, rows, f, m.activation())
		gradient(k, l.Down, a.hidden, dX, lo, rows)
		k.GemmPacked(rows, gateUp, 2*f, &a.operands.gateUp, plus, normed, d)
	}
	k.RMSNormBackward(dX, l.FFNNorm.Grad, normed, normed, c.x2[lo*d:], l.FFNNorm.Data, c.rstd2[lo:], rows, d)
	if f > 0 {
		gradient(k, l.GateUp, normed, gateUp, lo, rows)
	}

	gradient(k, l.Out, c.mixed[lo*hd:], dX, lo, rows)
	k.GemmPacked(rows, dX, d, &a.operands.out, nil, a.dMixed[lo*hd:], hd)
}

// backwardIn reads a block of a.dIn, the gradient of the mixer's input, and makes
// a.dX the gradient of x.
func (m *Model) backwardIn(l *Layer, c *layerCache, a *Activations, lo, rows int) {
	k, d, w := m.K, m.DModel, l.In.Shape[1]
	dIn := a.dIn[lo*w:]
	k.GemmPacked(rows, dIn, w, &a.operands.in, nil, a.normed, d)
	k.RMSNormBackward(a.dX[lo*d:], l.MixNorm.Grad, a.normed, a.normed, c.x[lo*d:], l.MixNorm.Data, c.rstd[lo:], rows, d)
	gradient(k, l.In, a.normed, dIn, lo, rows)
}

// gradient adds the block's share x^T.dY to the gradient of p [in,out]; the first
// block's share overwrites it.
func gradient(k *amx.Kernels, p *Param, x, dY []float32, lo, rows int) {
	plus := p.Grad
	if lo == 0 {
		plus = nil
	}
	in, out := p.Shape[0], p.Shape[1]
	k.Gemm(amx.TN, in, out, rows, x, in, dY, out, plus, p.Grad, out)
}

func (m *Model) activation() amx.Activation {
	if m.Config.Activation == SiLU {
		return amx.SiLU
	}
	return amx.ReLU2
}
