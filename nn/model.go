// Package nn is the model of the paper: pre-norm blocks of a token mixer
// (sliding-window attention or linear attention) and a gated MLP over a float32
// residual stream, a readout tied to the embedding, their gradients written out,
// and the full and sampled softmax losses.
//
// Input: a Batch of packed documents. Output: losses, gradients, logits.
// Non-goals: optimization (nn/optim), files (nn/checkpoint), decoding policy
// (nn/generate), where tokens come from (corpus).
//
// Letters, everywhere in this package: N tokens of a batch (windows times
// sequence), D d_model, F d_ff, H heads, dh head width, S state width, W window,
// V vocabulary. Matrices are stored [in, out], so that a layer is x.W.
package nn

import (
	"fmt"
	"slices"

	"harness/amx"
)

const normEps = 1e-6

// Kind decides how a parameter is initialised, decayed and updated.
type Kind int

const (
	Matrix    Kind = iota // decayed, updated every step
	Gain                  // RMSNorm gain: starts at 1, decayed only if the spec says so
	Embedding             // rows are updated lazily, only when touched
)

// Param is one tensor of the model. The list of them feeds counts, checkpoints
// and the optimizer.
type Param struct {
	Name  string
	Kind  Kind
	Shape []int
	Data  []float32 // row-major
	Grad  []float32 // same shape, accumulated by Backward; nil for Embedding (see Rows)
}

// Layer holds one block's parameters.
type Layer struct {
	Mixer    Mixer
	MixNorm  *Param // [D]
	In       *Param // swa [D, q H*dh | k dh | v dh]; lin [D, q S | k S | v H*dh | gate H*dh | decay H]
	HeadNorm *Param // lin only: gain [dh] shared by the heads
	Out      *Param // [H*dh, D]
	FFNNorm  *Param // [D]
	GateUp   *Param // [D, gate F | up F]
	Down     *Param // [F, D]
}

// Model is a set of parameters, with the kernels that run it. It is not safe
// for concurrent use: the kernels own scratch memory.
type Model struct {
	Config
	V         int
	K         *amx.Kernels
	Embedding *Param // [V, D], also the readout
	Layers    []Layer
	FinalNorm *Param // [D]

	params []*Param
}

// New builds a model of the given shape with all parameters zero; Init or a
// checkpoint fills them. It panics on a shape that validation should have refused.
func New(cfg Config, vocab int, k *amx.Kernels) *Model {
	if cfg.HeadWidth%2 != 0 || len(cfg.Layers) == 0 {
		panic(fmt.Sprintf("nn: head width %d must be even and layers %v not empty", cfg.HeadWidth, cfg.Layers))
	}
	m := &Model{Config: cfg, V: vocab, K: k}
	d, f, hd := cfg.DModel, cfg.DFF, cfg.Heads*cfg.HeadWidth
	m.Embedding = m.add("embedding", Embedding, vocab, d)
	for i, mixer := range cfg.Layers {
		p := func(name string, kind Kind, shape ...int) *Param {
			return m.add(fmt.Sprintf("layers.%d.%s", i, name), kind, shape...)
		}
		l := Layer{Mixer: mixer, MixNorm: p("mix_norm", Gain, d)}
		switch mixer {
		case SWA:
			l.In = p("swa.in", Matrix, d, hd+2*cfg.HeadWidth)
			l.Out = p("swa.out", Matrix, hd, d)
		case Lin:
			l.In = p("lin.in", Matrix, d, 2*cfg.StateWidth+2*hd+cfg.Heads)
			l.HeadNorm = p("lin.head_norm", Gain, cfg.HeadWidth)
			l.Out = p("lin.out", Matrix, hd, d)
		default:
			panic(fmt.Sprintf("nn: unknown mixer %q", mixer))
		}
		l.FFNNorm = p("ffn_norm", Gain, d)
		l.GateUp = p("mlp.gate_up", Matrix, d, 2*f)
		l.Down = p("mlp.down", Matrix, f, d)
		m.Layers = append(m.Layers, l)
	}
	m.FinalNorm = m.add("final_norm", Gain, d)
	return m
}

func (m *Model) add(name string, kind Kind, shape ...int) *Param {
	n := 1
	for _, s := range shape {
		n *= s
	}
	p := &Param{Name: name, Kind: kind, Shape: shape, Data: make([]float32, n)}
	m.params = append(m.params, p)
	return p
}

// Params lists every tensor in a fixed order.
func (m *Model) Params() []*Param { return m.params }

// allocGrads gives every dense parameter a gradient buffer.
func (m *Model) allocGrads() {
	for _, p := range m.params {
		if p.Kind != Embedding && p.Grad == nil {
			p.Grad = make([]float32, len(p.Data))
		}
	}
}

// ZeroGrads clears the gradients of the dense parameters.
func (m *Model) ZeroGrads() {
	for _, p := range m.params {
		clear(p.Grad)
	}
}

// WithEmbedding is the same model reading its embedding from another table
// [V,D]: how validation applies pending weight decay without writing it back.
func (m *Model) WithEmbedding(table []float32) *Model {
	if len(table) != len(m.Embedding.Data) {
		panic(fmt.Sprintf("nn: embedding of %d elements for a table of %d", len(table), len(m.Embedding.Data)))
	}
	view := *m
	e := *m.Embedding
	e.Data = table
	view.Embedding = &e
	view.params = slices.Clone(m.params)
	view.params[0] = &e // New adds it first
	return &view
}

// Batch is N tokens of packed documents. A segment is the part of one document
// that lies inside one window; nothing crosses its edge.
type Batch struct {
	Tokens  []int32 // [N]
	Targets []int32 // [N] the token to predict at each position, -1 for none
	Starts  []int32 // first position of each segment, ascending, from 0
}

// segments calls f with the half-open range of each segment.
func (b Batch) segments(f func(lo, hi int)) {
	for i, lo := range b.Starts {
		hi := len(b.Tokens)
		if i+1 < len(b.Starts) {
			hi = int(b.Starts[i+1])
		}
		f(int(lo), hi)
	}
}

// Forward runs the batch through every block and leaves the final normed hidden
// state [N,D] in a.Hidden. With caches for training, Backward may follow.
func (m *Model) Forward(a *Activations, b Batch) {
	a.begin(m, b)
	k, n, d := m.K, a.n, m.DModel
	x := a.layers[0].x
	k.GatherRows(x, m.Embedding.Data, b.Tokens, n, d, embeddingScale(d))
	for i := range m.Layers {
		l, c := &m.Layers[i], &a.layers[i]
		k.RMSNorm(c.normed, c.rstd, c.x, l.MixNorm.Data, n, d, normEps)
		switch l.Mixer {
		case SWA:
			m.forwardSWA(l, c, a, b)
		case Lin:
			m.forwardLin(l, c, a)
		}
		copy(c.x2[:n*d], c.x[:n*d])
		hd := m.Heads * m.HeadWidth
		k.Gemm(amx.NN, n, d, hd, c.mixed, hd, l.Out.Data, d, c.x2, d, true)

		k.RMSNorm(c.normed2, c.rstd2, c.x2, l.FFNNorm.Data, n, d, normEps)
		next := a.after(i)
		copy(next[:n*d], c.x2[:n*d])
		m.forwardMLP(l, c, n, next)
	}
	k.RMSNorm(a.Hidden, a.rstd, a.after(len(m.Layers)-1), m.FinalNorm.Data, n, d, normEps)
}

// Backward takes the gradient of the hidden state, a.DHidden [N,D], back
// through every block: it accumulates the gradients of the dense parameters, and
// those of the embedding rows that were read into rows.Grad.
func (m *Model) Backward(a *Activations, b Batch, rows *Rows) {
	k, n, d := m.K, a.n, m.DModel
	hd := m.Heads * m.HeadWidth
	dX := a.dX[:n*d]
	clear(dX)
	k.RMSNormBackward(dX, m.FinalNorm.Grad, a.DHidden, a.after(len(m.Layers)-1), m.FinalNorm.Data, a.rstd, n, d)
	for i := len(m.Layers) - 1; i >= 0; i-- {
		l, c := &m.Layers[i], &a.layers[i]
		m.backwardMLP(l, c, a, n)
		k.RMSNormBackward(dX, l.FFNNorm.Grad, a.dNormed, c.x2, l.FFNNorm.Data, c.rstd2, n, d)

		k.Gemm(amx.TN, hd, d, n, c.mixed, hd, dX, d, l.Out.Grad, d, true)
		k.Gemm(amx.NT, n, hd, d, dX, d, l.Out.Data, d, a.dMixed, hd, false)
		switch l.Mixer {
		case SWA:
			m.backwardSWA(l, c, a, b)
		case Lin:
			m.backwardLin(l, c, a)
		}
		w := l.In.Shape[1]
		k.Gemm(amx.TN, d, w, n, c.normed, d, a.dIn, w, l.In.Grad, w, true)
		k.Gemm(amx.NT, n, d, w, a.dIn, w, l.In.Data, w, a.dNormed, d, false)
		k.RMSNormBackward(dX, l.MixNorm.Grad, a.dNormed, c.x, l.MixNorm.Data, c.rstd, n, d)
	}
	rows.slots(a.slots[:n], b.Tokens)
	k.ScatterAddRows(rows.Grad, dX, a.slots[:n], n, d, embeddingScale(d))
}

// forwardMLP adds down(act(x gate) * (x up)) of the normed x2 to out [N,D].
func (m *Model) forwardMLP(l *Layer, c *layerCache, n int, out []float32) {
	d, f := m.DModel, m.DFF
	m.K.Gemm(amx.NN, n, 2*f, d, c.normed2, d, l.GateUp.Data, 2*f, c.gateUp, 2*f, false)
	m.K.GatedAct(c.hidden, c.gateUp, n, f, m.activation())
	m.K.Gemm(amx.NN, n, d, f, c.hidden, f, l.Down.Data, d, out, d, true)
}

// backwardMLP reads a.dX and leaves the gradient of the normed input in a.dNormed.
func (m *Model) backwardMLP(l *Layer, c *layerCache, a *Activations, n int) {
	k, d, f := m.K, m.DModel, m.DFF
	k.Gemm(amx.TN, f, d, n, c.hidden, f, a.dX, d, l.Down.Grad, d, true)
	k.Gemm(amx.NT, n, f, d, a.dX, d, l.Down.Data, d, a.dFFN, f, false)
	k.GatedActBackward(c.gateUp, c.gateUp, a.dFFN, n, f, m.activation())
	k.Gemm(amx.TN, d, 2*f, n, c.normed2, d, c.gateUp, 2*f, l.GateUp.Grad, 2*f, true)
	k.Gemm(amx.NT, n, d, 2*f, c.gateUp, 2*f, l.GateUp.Data, 2*f, a.dNormed, d, false)
}

func (m *Model) activation() amx.Activation {
	if m.Config.Activation == SiLU {
		return amx.SiLU
	}
	return amx.ReLU2
}
