package nn

import (
	"math"
	"testing"
)

// stepByStep is the recurrence as the design states it, one token at a time in
// float64, on the same projected inputs [N,w].
func stepByStep(m *Model, in []float64, w int, b Batch) []float64 {
	dh, s, hd, col := m.HeadWidth, m.StateWidth, m.Heads*m.HeadWidth, m.linColumns()
	out := make([]float64, len(b.Tokens)*hd)
	b.segments(func(lo, hi int) {
		for h := range m.Heads {
			state := make([]float64, s*dh)
			for t := lo; t < hi; t++ {
				row := in[t*w : (t+1)*w]
				decay := math.Exp(-math.Log1p(math.Exp(row[col.decay+h] + float64(m.decayBias[h]))))
				for i := range s {
					for j := range dh {
						state[i*dh+j] = decay*state[i*dh+j] + row[col.k+i]*row[col.v+h*dh+j]
						out[t*hd+h*dh+j] += row[col.q+i] * state[i*dh+j]
					}
				}
			}
		}
	})
	return out
}

// Chunked linear attention equals the recurrence, forward and backward, with
// segment edges inside chunks and decays from almost none to 20 and more a step.
func TestChunkedLinEqualsStepByStep(t *testing.T) {
	for _, k := range kernelSets(t) {
		for _, spread := range []float64{0.5, 8, 40} {
			cfg := tinyConfig()
			m := New(cfg, tinyVocab, k)
			r := rng(60)
			b := packedBatch(tinyVocab, r, 131, 1, 64, 65, 20)
			a := NewActivations(m, len(b.Tokens), true)
			a.begin(m, b)
			w := m.Layers[0].In.Shape[1]
			c := &a.layers[0]
			in := make([]float64, len(b.Tokens)*w)
			column := m.linColumns().decay
			for i := range in {
				std := 1.0
				if i%w >= column {
					std = spread
				}
				c.in[i] = float32(r.NormFloat64() * std)
				in[i] = float64(c.in[i])
			}
			// cum is float32: at 40 a step it reaches -1,300 in a chunk, where half an
			// ulp is 6e-5, and that is the relative error of a factor.
			tolerance := 2e-5
			if spread == 40 {
				tolerance = 2e-4
			}
			m.forwardHeads(&m.Layers[0], c, b)
			want := stepByStep(m, in, w, b)
			for i, x := range want {
				if math.Abs(float64(c.head[i])-x) > tolerance*(1+math.Abs(x)) {
					t.Fatalf("%s, spread %g: output %d is %g, step by step %g", k.Name, spread, i, c.head[i], x)
				}
			}

			weights := make([]float64, len(want)) // loss = sum of weights * output
			for i := range weights {
				weights[i] = r.NormFloat64()
				a.dHead[i] = float32(weights[i])
			}
			m.backwardHeads(&m.Layers[0], c, a, b)
			loss := func() float64 {
				sum := 0.0
				for i, x := range stepByStep(m, in, w, b) {
					sum += weights[i] * x
				}
				return sum
			}
			for range 120 {
				i := r.IntN(len(in))
				if r.IntN(2) == 0 { // half of the checks on the decay projection
					i = i/w*w + column + r.IntN(m.Heads)
				}
				const eps = 1e-5
				kept := in[i]
				in[i] = kept + eps
				up := loss()
				in[i] = kept - eps
				down := loss()
				in[i] = kept
				got, want := float64(a.dIn[i]), (up-down)/(2*eps)
				if math.Abs(got-want) > 5*tolerance*(1+math.Abs(want)) {
					t.Fatalf("%s, spread %g: gradient of input %d (column %d) is %g, central difference %g", k.Name, spread, i/w, i%w, got, want)
				}
			}
		}
	}
}

func TestHeadsStartAtTheirHalfLives(t *testing.T) {
	biases := decayBiases(2)
	for h, want := range []float64{64, 512} {
		got := math.Ln2 / math.Log1p(math.Exp(float64(biases[h])))
		if math.Abs(got-want) > 1e-6*want {
			t.Errorf("head %d: half-life %g tokens, want %g", h, got, want)
		}
	}
}
