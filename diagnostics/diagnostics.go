// Package diagnostics measures what the loss hides about a model's insides.
//
// Input: a model, or its activations after a forward pass. Output: plain values;
// experiments stores them. Non-goals: training, storage, scores on tasks (probes).
// Nothing here changes the model.
package diagnostics

import (
	"math"

	"harness/nn"
)

// Participation says how many entries of a norm gain carry its energy.
type Participation struct {
	Name  string
	Ratio float64 // (sum w^2)^2 / sum w^4: Of if all are equal, 1 if one stands alone
	Of    int     // entries
	RMS   float64
}

// ParticipationRatios measures every RMSNorm gain of the model (paper, section
// 6.1). A gain of pure noise reads about a third of its width.
func ParticipationRatios(m *nn.Model) []Participation {
	var out []Participation
	for _, p := range m.Params() {
		if p.Kind == nn.Gain {
			out = append(out, participation(p.Name, p.Data))
		}
	}
	return out
}

func participation(name string, w []float32) Participation {
	squares, fourths := 0.0, 0.0
	for _, x := range w {
		s := float64(x) * float64(x)
		squares += s
		fourths += s * s
	}
	p := Participation{Name: name, Of: len(w), RMS: math.Sqrt(squares / float64(len(w)))}
	if fourths > 0 {
		p.Ratio = squares * squares / fourths
	}
	return p
}

// Branch is one branch's addition to the residual stream.
type Branch struct {
	Name  string
	Share float64 // rms of what the branch adds over rms of the stream after it
}

// BranchShares measures how much each mixer and each MLP adds to the stream, on
// a forward pass just done with training caches.
func BranchShares(m *nn.Model, a *nn.Activations) []Branch {
	var out []Branch
	a.Residuals(m, func(name string, before, after []float32) {
		added, stream := 0.0, 0.0
		for i, x := range after {
			d := float64(x) - float64(before[i])
			added += d * d
			stream += float64(x) * float64(x)
		}
		b := Branch{Name: name}
		if stream > 0 {
			b.Share = math.Sqrt(added / stream)
		}
		out = append(out, b)
	})
	return out
}
