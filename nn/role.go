package nn

import (
	"fmt"

	"harness/amx"
)

// Role names the part of a training step that an operation's work belongs to:
// products by the matrix they are about, the rest by the operation.
func (m *Model) Role(w amx.Work) string {
	if w.Op == "Pack" {
		return "pack weights"
	}
	if w.K == 0 {
		return w.Op
	}
	d, hd := m.DModel, m.Heads*m.HeadWidth
	dim := [3]int{w.M, w.N, w.K}
	forward, input, weights := [2]int{w.K, w.N}, [2]int{w.N, w.K}, [2]int{w.M, w.N} // the weight [in, out] that each form would be about
	name := func(shape [2]int) string {
		for i := range m.Layers {
			l, mlp := &m.Layers[i], "mlp"
			if l.Mixture != nil {
				mlp = "shared"
			}
			switch f := l.dense(); {
			case f > 0 && shape == [2]int{d, 2 * f}:
				return mlp + ".gate_up"
			case f > 0 && shape == [2]int{f, d}:
				return mlp + ".down"
			case shape == [2]int{d, l.In.Shape[1]}:
				return "mixer.in"
			case shape == [2]int{hd, d}:
				return "mixer.out"
			}
		}
		if m.mixture() != nil {
			switch shape {
			case [2]int{d, 2 * m.MoE.DFF}:
				return "experts.gate_up"
			case [2]int{m.MoE.DFF, d}:
				return "experts.down"
			}
		}
		return ""
	}
	switch w.Trans {
	case amx.NN:
		if n := name(forward); n != "" {
			return n + " forward"
		}
		if w.N == d {
			return "readout dX"
		}
	case amx.NT:
		if n := name(input); n != "" {
			return n + " dX"
		}
		if w.K == d {
			return "readout forward"
		}
	case amx.TN:
		if n := name(weights); n != "" {
			return n + " dW"
		}
		if w.N == d {
			return "readout dW"
		}
	}
	return fmt.Sprintf("%s %dx%dx%d", [...]string{"NN", "NT", "TN"}[w.Trans], dim[0], dim[2], dim[1])
}
