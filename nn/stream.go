package nn

import (
	"math"

	"harness/amx"
)

// Stream runs the model one token at a time over one document: a ring of the
// last W keys and values per swa layer, one state per lin layer. It equals the
// batched forward up to the order of summation. Its matrices are laid out once, by
// NewStream: later changes of the model's parameters are not seen.
type Stream struct {
	m       *Model
	pos     int
	layers  []streamLayer
	readout amx.Packed

	x, normed     []float32 // [D]
	in            []float32 // widest In
	mixed, head   []float32 // [H*dh]
	gateUp, act   []float32 // [2F], [F]
	probs         []float32 // [W]
	rstd, keep    []float32 // [H], [1]
	cos, sin      []float32 // [dh/2] of this position
	position, one []int32
	first         []int32   // the row 0
	logits        []float32 // [V]
}

type streamLayer struct {
	operands
	keys, values []float32 // swa: ring [W, dh]
	state        []float32 // lin: [H, S, dh]
	mixture      *streamMixture
}

// NewStream starts an empty document.
func NewStream(m *Model) *Stream {
	f32 := func(n int) []float32 { return make([]float32, n) }
	hd, widest := m.Heads*m.HeadWidth, 0
	s := &Stream{m: m}
	s.layers = make([]streamLayer, len(m.Layers))
	for i := range m.Layers {
		l, c := &m.Layers[i], &s.layers[i]
		c.pack(m, l, amx.NN)
		widest = max(widest, l.In.Shape[1])
		if l.Mixture != nil {
			c.mixture = newStreamMixture(m, i)
		}
		if l.Mixer == SWA {
			c.keys, c.values = f32(m.Window*m.HeadWidth), f32(m.Window*m.HeadWidth)
		} else {
			c.state = f32(m.StateWidth * hd)
		}
	}
	m.K.Pack(&s.readout, amx.NT, m.V, m.DModel, m.Embedding.Data, m.DModel)
	s.x, s.normed, s.in = f32(m.DModel), f32(m.DModel), f32(widest)
	s.mixed, s.head, s.gateUp, s.act = f32(hd), f32(hd), f32(2*m.widest()), f32(m.widest())
	s.probs, s.rstd, s.keep, s.logits = f32(m.Window), f32(m.Heads), f32(1), f32(m.V)
	s.cos, s.sin = f32(m.HeadWidth/2), f32(m.HeadWidth/2)
	s.position, s.one, s.first = []int32{0}, []int32{0}, []int32{0}
	return s
}

// Reset starts a new document.
func (s *Stream) Reset() {
	s.pos = 0
	for i := range s.layers {
		clear(s.layers[i].state)
		if x := s.layers[i].mixture; x != nil {
			x.reset()
		}
	}
}

// Next feeds one token and returns the logits [V] of the token after it. The
// slice is reused by the next call.
func (s *Stream) Next(token int32) []float32 {
	m, k, d := s.m, s.m.K, s.m.DModel
	s.one[0] = token
	k.GatherRows(s.x, m.Embedding.Data, s.one, 1, d, embeddingScale(d))
	for i := range s.cos {
		sin, cos := math.Sincos(float64(s.pos) * math.Pow(m.RopeBase, -2*float64(i)/float64(m.HeadWidth)))
		s.cos[i], s.sin[i] = float32(cos), float32(sin)
	}
	hd := m.Heads * m.HeadWidth
	for i := range m.Layers {
		l, c := &m.Layers[i], &s.layers[i]
		w := l.In.Shape[1]
		k.RMSNorm(s.normed, s.rstd, s.x, l.MixNorm.Data, 1, d, normEps)
		k.GemmPacked(1, s.normed, d, &c.in, nil, s.in, w)
		if l.Mixer == SWA {
			s.nextSWA(c)
		} else {
			s.nextLin(l, c)
		}
		k.GemmPacked(1, s.mixed, hd, &c.out, s.x, s.x, d)
		k.RMSNorm(s.normed, s.rstd, s.x, l.FFNNorm.Data, 1, d, normEps)
		if f := l.dense(); f > 0 {
			k.GemmPacked(1, s.normed, d, &c.gateUp, nil, s.gateUp, 2*f)
			k.GatedAct(s.act, s.gateUp, 1, f, m.activation())
			k.GemmPacked(1, s.act, f, &c.down, s.x, s.x, d)
		}
		if c.mixture != nil {
			s.nextExperts(l, c.mixture)
		}
	}
	k.RMSNorm(s.normed, s.rstd, s.x, m.FinalNorm.Data, 1, d, normEps)
	k.GemmPacked(1, s.normed, d, &s.readout, nil, s.logits, m.V)
	s.pos++
	return s.logits
}

func (s *Stream) nextSWA(c *streamLayer) {
	m, k, dh := s.m, s.m.K, s.m.HeadWidth
	hd := m.Heads * dh
	k.Rotary(s.in, 1, hd+2*dh, m.Heads+1, dh, s.position, s.cos, s.sin, 1)
	slot := s.pos % m.Window
	copy(c.keys[slot*dh:], s.in[hd:hd+dh])
	copy(c.values[slot*dh:], s.in[hd+dh:hd+2*dh])
	seen := min(s.pos+1, m.Window)
	scale := float32(1 / math.Sqrt(float64(dh)))
	for h := range m.Heads {
		k.Gemm32(amx.NT, 1, seen, dh, s.in[h*dh:], dh, c.keys, dh, nil, s.probs, seen)
		k.SoftmaxBand(s.probs, 1, seen, seen, seen-1, seen, scale)
		k.Gemm32(amx.NN, 1, dh, seen, s.probs, seen, c.values, dh, nil, s.mixed[h*dh:], dh)
	}
}

func (s *Stream) nextLin(l *Layer, c *streamLayer) {
	m, k, dh, sw := s.m, s.m.K, s.m.HeadWidth, s.m.StateWidth
	col, w := m.linColumns(), l.In.Shape[1]
	q, key := s.in[col.q:col.k], s.in[col.k:col.v]
	for h := range m.Heads {
		state := c.state[h*sw*dh : (h+1)*sw*dh]
		s.keep[0] = float32(1 / (1 + math.Exp(float64(s.in[col.decay+h])+float64(m.decayBias[h])))) // exp(-softplus)
		k.ScaleRows(state, s.keep, s.first, 1, sw*dh)
		k.Gemm32(amx.TN, sw, dh, 1, key, sw, s.in[col.v+h*dh:], dh, state, state, dh)
		k.Gemm32(amx.NN, 1, dh, sw, q, sw, state, dh, nil, s.head[h*dh:], dh)
	}
	k.RMSNorm(s.mixed, s.rstd, s.head, l.HeadNorm.Data, m.Heads, dh, normEps)
	copy(s.head, s.mixed)
	k.SigmoidGate(s.mixed, s.head, s.in[col.gate:], 1, m.Heads*dh, w)
}
