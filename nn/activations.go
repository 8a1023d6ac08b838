package nn

import (
	"fmt"
	"math"

	"harness/amx"
)

// Activations is the workspace of one forward and backward pass: allocated once
// for a largest batch, so that a training step allocates nothing.
type Activations struct {
	Hidden  []float32 // [N,D] final normed hidden state
	DHidden []float32 // [N,D] its gradient, written by Loss

	// BeforeExperts, if set, is called in training with the experts of a layer that the
	// batch uses, ascending, before they are read: the optimizer applies decay that is due.
	BeforeExperts func(layer int, experts []int32)
	// Reroute, if set, may change experts and gates that were chosen in a layer, an item's
	// experts ascending. Diagnostics ask with it what a choice is worth.
	Reroute func(layer int, blocks []Block, r *Routing)

	n        int
	maxN     int
	training bool
	layers   []layerCache
	last     []float32 // [N,D] output of the last block
	rstd     []float32 // [N] of the final norm
	pos      []int32   // [N] position of a token within its segment
	cos, sin []float32 // rotary tables [maxPos, dh/2]
	mixtureScratch

	// Backward and scratch.
	dX       []float32 // [N,D]
	dMixed   []float32 // [N,H*dh]
	dHead    []float32 // [N,H*dh]
	dIn      []float32 // [N, widest In]
	normed   []float32 // [tokenBlock,D] normed input of a block, or its gradient
	hidden   []float32 // [tokenBlock, widest F] what Down reads of a block, or its gradient
	slots    []int32   // [N]
	operands operands
	readout  readoutScratch
}

// layerCache holds what one block's backward needs from its forward.
type layerCache struct {
	blockCache
	in []float32 // [N, In] output of the In projection, after the rotary
	swaCache
	linCache
	mixtureCache
}

type blockCache struct {
	x, x2       []float32 // [N,D] residual stream before the mixer and before the MLP
	rstd, rstd2 []float32 // [N]
	mixed       []float32 // [N,H*dh] what Out reads
	gateUp      []float32 // [N,2F], in inference of a block
}

type swaCache struct {
	norm []float32 // [N,H] segment by segment: logarithms of the softmax's denominators
}

type linCache struct {
	head, headNormed []float32 // [N,H*dh] head outputs before and after the head norm
	headRstd         []float32 // [N*H]
	states           []float32 // segment by segment, see amx.Kernels.LinearAttention
}

// NewActivations allocates a workspace for at most maxTokens tokens a batch.
// Without training, layers share their caches and Backward may not follow.
func NewActivations(m *Model, maxTokens int, training bool) *Activations {
	n, d, f, hd := maxTokens, m.DModel, m.widest(), m.Heads*m.HeadWidth
	block := min(n, tokenBlock)
	f32 := amx.Floats
	a := &Activations{maxN: maxTokens, training: training,
		Hidden: f32(n * d), last: f32(n * d), rstd: f32(n), pos: make([]int32, n),
		normed: f32(block * d), hidden: f32(block * f)}
	widest := 0
	for _, l := range m.Layers {
		widest = max(widest, l.In.Shape[1])
	}
	var shared layerCache
	for i := range m.Layers {
		l := &m.Layers[i]
		if shared.x == nil || training {
			width := f
			if training {
				width = l.dense()
			}
			shared.blockCache = blockCache{x: f32(n * d), x2: f32(n * d), rstd: f32(n), rstd2: f32(n),
				mixed: f32(n * hd), gateUp: f32((a.kept(n-block) + block) * 2 * width)}
			shared.in = f32(n * widest)
		}
		switch {
		case l.Mixer == SWA && (shared.norm == nil || training):
			shared.swaCache = swaCache{norm: f32(n * m.Heads)}
		case l.Mixer == Lin && (shared.head == nil || training):
			shared.linCache = linCache{head: f32(n * hd), headNormed: f32(n * hd), headRstd: f32(n * m.Heads),
				states: f32(m.statesSize(n))}
		}
		shared.mixtureCache = a.newMixtureCache(m, i, shared.mixtureCache)
		a.layers = append(a.layers, shared)
	}
	a.mixtureScratch = newMixtureScratch(m, n, training)
	a.cos, a.sin = rotaryTables(maxTokens, m.HeadWidth, m.RopeBase)
	if training {
		m.allocGrads()
		a.DHidden, a.dX = f32(n*d), f32(n*d)
		a.dMixed, a.dHead, a.dIn = f32(n*hd), f32(n*hd), f32(n*widest)
		a.slots = make([]int32, n)
		m.rehearseSWA(a)
	}
	return a
}

// begin checks the batch against the workspace and numbers positions.
func (a *Activations) begin(m *Model, b Batch) {
	n := len(b.Tokens)
	if n == 0 || n > a.maxN || len(b.Targets) != n || len(b.Starts) == 0 || b.Starts[0] != 0 {
		panic(fmt.Sprintf("nn: batch of %d tokens, %d targets, %d segments in a workspace for %d", n, len(b.Targets), len(b.Starts), a.maxN))
	}
	a.n = n
	b.segments(func(lo, hi int) {
		for i := lo; i < hi; i++ {
			a.pos[i] = int32(i - lo)
		}
	})
	if len(m.MoE.Layers) > 0 {
		a.grid(m, b)
	}
}

// after is the residual stream that block i leaves. Where layers share a cache,
// a block may overwrite its own input: x is not read again in inference.
func (a *Activations) after(i int) []float32 {
	if i+1 < len(a.layers) {
		return a.layers[i+1].x
	}
	return a.last
}

// kept is where the cache of a block from token lo on starts: inference has room
// for one block.
func (a *Activations) kept(lo int) int {
	if a.training {
		return lo
	}
	return 0
}

// rotaryTables gives cos and sin of pos * base^(-2i/dh), [positions, dh/2].
func rotaryTables(positions, dh int, base float64) (cos, sin []float32) {
	half := dh / 2
	cos, sin = make([]float32, positions*half), make([]float32, positions*half)
	for p := range positions {
		for i := range half {
			s, c := math.Sincos(float64(p) * math.Pow(base, -2*float64(i)/float64(dh)))
			cos[p*half+i], sin[p*half+i] = float32(c), float32(s)
		}
	}
	return cos, sin
}

func embeddingScale(d int) float32 { return float32(math.Sqrt(float64(d))) }

// Residuals calls f for every branch with the residual stream [N,D] before and
// after it, as the last Forward left them. It needs training caches: in
// inference layers share them.
func (a *Activations) Residuals(m *Model, f func(name string, before, after []float32)) {
	if !a.training {
		panic("nn: residuals of a workspace without training caches")
	}
	size := a.n * m.DModel
	for i := range a.layers {
		c := &a.layers[i]
		f(fmt.Sprintf("layers.%d.%s", i, m.Layers[i].Mixer), c.x[:size], c.x2[:size])
		ffn := "mlp"
		if m.Layers[i].Mixture != nil {
			ffn = "moe"
		}
		f(fmt.Sprintf("layers.%d.%s", i, ffn), c.x2[:size], a.after(i)[:size])
	}
}
