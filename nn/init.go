package nn

import (
	"math"
	"math/rand/v2"
)

// Init fills every parameter from rng:
//
//	embedding   normal, std 1/sqrt(D); inputs are multiplied by sqrt(D)
//	matrices    normal, std 1/sqrt(fan in)
//	out, down   the same, divided by sqrt(2 * layers): the residual scaling
//	lin decay   columns zero, so that heads start at their set half-lives
//	gains       1
//	experts     as the dense MLP of the width that acts on a token (k experts and the
//	            shared ones): gate and up std 1/sqrt(D), down 1/sqrt(width), divided
//	router      normal, std 1/sqrt(D): a statistic of rms 1 gets scores of std 1
//	first       normal, std 1, the rms of a normed hidden state
//
// With OVTie c, each mixer's out starts as c * v^T instead (for swa the one v
// stands under every head): what a token attends to is written back in the
// direction it would be read out, a copying circuit from step 0.
func (m *Model) Init(rng *rand.Rand) {
	normal := func(x []float32, std float64) {
		for i := range x {
			x[i] = float32(rng.NormFloat64() * std)
		}
	}
	residual := 1 / math.Sqrt(2*float64(len(m.Layers)))
	fanIn := func(p *Param) float64 { return 1 / math.Sqrt(float64(p.Shape[0])) }
	normal(m.Embedding.Data, 1/math.Sqrt(float64(m.DModel)))
	for i := range m.Layers {
		l := &m.Layers[i]
		fill(l.MixNorm.Data, 1)
		fill(l.FFNNorm.Data, 1)
		normal(l.In.Data, fanIn(l.In))
		normal(l.Out.Data, fanIn(l.Out)*residual)
		if l.Mixer == Lin {
			fill(l.HeadNorm.Data, 1)
			m.zeroDecay(l)
		}
		if m.OVTie != 0 {
			m.tieOut(l)
		}
		wide := l.dense() // hidden width that acts on a token
		if x := l.Mixture; x != nil {
			wide += m.MoE.TopK * m.MoE.DFF
			normal(x.First.Data, 1)
			for _, router := range x.Routers {
				normal(router.Data, 1/math.Sqrt(float64(m.DModel)))
			}
			normal(x.GateUp.Data, 1/math.Sqrt(float64(m.DModel)))
			normal(x.Down.Data, 1/math.Sqrt(float64(wide))*residual)
		}
		if l.dense() > 0 {
			normal(l.GateUp.Data, fanIn(l.GateUp))
			normal(l.Down.Data, 1/math.Sqrt(float64(wide))*residual)
		}
	}
	fill(m.FinalNorm.Data, 1)
}

func (m *Model) zeroDecay(l *Layer) {
	w, column := l.In.Shape[1], m.linColumns().decay
	for r := range m.DModel {
		clear(l.In.Data[r*w+column : (r+1)*w])
	}
}

// tieOut sets out[h*dh+i, :] = c * v[:, column of head h's i]^T.
func (m *Model) tieOut(l *Layer) {
	w, d, dh := l.In.Shape[1], m.DModel, m.HeadWidth
	for h := range m.Heads {
		v := m.Heads*dh + dh // swa: the one value head follows queries and keys
		if l.Mixer == Lin {
			v = m.linColumns().v + h*dh
		}
		for i := range dh {
			for r := range d {
				l.Out.Data[(h*dh+i)*d+r] = float32(m.OVTie) * l.In.Data[r*w+v+i]
			}
		}
	}
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}
