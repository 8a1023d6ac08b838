// Package nn is the model of the paper: pre-norm blocks of a token mixer
// (sliding-window attention or linear attention) and a gated MLP or a mixture of
// experts over a float32 residual stream, a readout tied to the embedding, their
// gradients written out, and the full and sampled softmax losses.
//
// Input: a Batch of packed documents. Output: losses, gradients, logits.
// Non-goals: optimization (nn/optim), files (nn/checkpoint), decoding policy
// (nn/generate), where tokens come from (corpus).
//
// Letters, everywhere in this package: N tokens of a batch (windows times
// sequence), D d_model, F d_ff, H heads, dh head width, S state width, W window,
// V vocabulary, E experts, K top-k, Fe hidden width of an expert. Matrices are stored [in, out], so that a layer is x.W.
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
	Expert                // as Embedding, where a row is one expert's matrix
	Router                // rows that score experts: as Matrix
	Vector                // learned input of the router: updated every step, not decayed
)

// Lazy reports whether only those rows (the first dimension) are updated that a step
// touches; their gradients are in Rows or Touched.
func (k Kind) Lazy() bool { return k == Embedding || k == Expert }

// Param is one tensor of the model. The list of them feeds counts, checkpoints
// and the optimizer.
type Param struct {
	Name  string
	Kind  Kind
	Shape []int
	Data  []float32 // row-major
	Grad  []float32 // same shape, overwritten by Backward; nil for lazy kinds
}

// row is the length of one row: of everything behind the first dimension.
func (p *Param) row() int { return len(p.Data) / p.Shape[0] }

// Layer holds one block's parameters.
type Layer struct {
	Mixer    Mixer
	MixNorm  *Param // [D]
	In       *Param // swa [D, q H*dh | k dh | v dh]; lin [D, q S | k S | v H*dh | gate H*dh | decay H]
	HeadNorm *Param // lin only: gain [dh] shared by the heads
	Out      *Param // [H*dh, D]
	FFNNorm  *Param // [D]
	GateUp   *Param // [D, gate F | up F] of the dense MLP, or of a mixture's shared experts; nil without any
	Down     *Param // [F, D]
	Mixture  *Mixture
}

// dense is the width of the layer's MLP that acts on every token.
func (l *Layer) dense() int {
	if l.Down == nil {
		return 0
	}
	return l.Down.Shape[0]
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

	params    []*Param
	decayBias []float32   // [H] of lin, fixed
	grown     []Growth    // since the shape that Config gives
	pending   [][]float32 // by layer [E], factors on experts whose decay is due; nil: none is (see WithPending)
}

// New builds a model of the given shape, after some growth, with all parameters
// zero; Init or a checkpoint fills them. It panics on a shape that validation should
// have refused.
func New(cfg Config, vocab int, k *amx.Kernels, grown ...Growth) *Model {
	if cfg.HeadWidth%2 != 0 || len(cfg.Layers) == 0 {
		panic(fmt.Sprintf("nn: head width %d must be even and layers %v not empty", cfg.HeadWidth, cfg.Layers))
	}
	m := &Model{Config: cfg, V: vocab, K: k, decayBias: decayBiases(cfg.Heads), grown: grown}
	d, hd := cfg.DModel, cfg.Heads*cfg.HeadWidth
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
		mlp, f := "mlp", cfg.DFF
		if cfg.MoE.Has(i) {
			mlp, f = "moe.shared", cfg.MoE.SharedWidth()
			l.Mixture = newMixture(cfg, grown, p)
		}
		if f > 0 {
			l.GateUp = p(mlp+".gate_up", Matrix, d, 2*f)
			l.Down = p(mlp+".down", Matrix, f, d)
		}
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
	p := &Param{Name: name, Kind: kind, Shape: shape, Data: amx.Floats(n)}
	m.params = append(m.params, p)
	return p
}

// Params lists every tensor in a fixed order.
func (m *Model) Params() []*Param { return m.params }

// Grown lists the growth since the shape that Config gives.
func (m *Model) Grown() []Growth { return m.grown }

// allocGrads gives every dense parameter a gradient buffer.
func (m *Model) allocGrads() {
	for _, p := range m.params {
		if !p.Kind.Lazy() && p.Grad == nil {
			p.Grad = make([]float32, len(p.Data))
		}
	}
}

// WithPending is the same model reading its embedding from another table [V,D], and
// every expert of layer i multiplied by its factor in experts[i] [E]: how validation
// applies pending weight decay without writing it back.
func (m *Model) WithPending(table []float32, experts [][]float32) *Model {
	if len(table) != len(m.Embedding.Data) {
		panic(fmt.Sprintf("nn: embedding of %d elements for a table of %d", len(table), len(m.Embedding.Data)))
	}
	view := *m
	e := *m.Embedding
	e.Data = table
	view.Embedding = &e
	view.params = slices.Clone(m.params)
	view.params[0] = &e // New adds it first
	view.pending = experts
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
