package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// Parents says of each expert after g which of the experts before it copies, -1 for
// none: after a split the children of expert e are 2e and 2e+1.
func (g Growth) Parents(before int) []int {
	parents := make([]int, g.Experts)
	for e := range parents {
		switch {
		case g.Method != InsertZero:
			parents[e] = e * before / g.Experts
		case e < before:
			parents[e] = e
		default:
			parents[e] = -1
		}
	}
	return parents
}

// Source says where the rows of a grown model's parameter come from: row r is row
// Rows[r] of the parameter From of the model before, or new where that is -1. Rows nil
// means all rows, as they are. Optimizer state moves the same way.
type Source struct {
	From int // index in Params
	Rows []int
}

// Grow returns the model with more experts in every mixture (paper, section 6.2). It
// takes over the memory of parameters that stay as they are: m must not be used any
// more. rng draws the jitter on copied router rows. See Sources for the optimizer.
func (m *Model) Grow(g Growth, rng *rand.Rand) *Model {
	grown := New(m.Config, m.V, m.K, append(m.grown[:len(m.grown):len(m.grown)], g)...)
	for i, s := range grown.Sources(m) {
		p, from := grown.params[i], m.params[s.From]
		if s.Rows == nil {
			p.Data, p.Grad = from.Data, from.Grad
			continue
		}
		CopyRows(p.Data, from.Data, s.Rows, p.row())
	}
	for i := range grown.Layers {
		x, before := grown.Layers[i].Mixture, m.Layers[i].Mixture
		if x == nil {
			continue
		}
		x.growLoad(before.Load, g.Parents(before.Experts()))
		switch g.Method {
		case Split:
			for _, router := range x.Routers[len(before.Routers):] {
				jitter(router, g.Jitter, rng)
			}
		case SplitFlat:
			jitter(x.Routers[0], g.Jitter, rng)
		case InsertZero:
			// An expert that gives 0 wherever it is chosen, but has a gradient there.
			from := before.Experts() * x.GateUp.row()
			for j := range x.GateUp.Data[from:] {
				x.GateUp.Data[from+j] = float32(rng.NormFloat64() / math.Sqrt(float64(m.DModel)))
			}
		}
	}
	return grown
}

// growLoad shares a parent's load among its children. New experts start with an equal
// share, so that nothing calls them dead at once.
func (x *Mixture) growLoad(before []float64, parents []int) {
	for e, p := range parents {
		x.Load[e] = 1 / float64(len(parents))
		if p >= 0 {
			x.Load[e] = before[p] * float64(len(before)) / float64(len(parents))
		}
	}
}

// jitter adds noise to router rows, as a share of each row's rms.
func jitter(router *Param, share float64, rng *rand.Rand) {
	d := router.row()
	for lo := 0; lo < len(router.Data); lo += d {
		row, squares := router.Data[lo:lo+d], 0.0
		for _, w := range row {
			squares += float64(w) * float64(w)
		}
		std := share * math.Sqrt(squares/float64(d))
		for j := range row {
			row[j] += float32(std * rng.NormFloat64())
		}
	}
}

// CopyRows fills dst, rows of width d, from the listed rows of src; -1 leaves zeros.
func CopyRows(dst, src []float32, rows []int, d int) {
	for r, from := range rows {
		if from >= 0 {
			copy(dst[r*d:(r+1)*d], src[from*d:(from+1)*d])
		}
	}
}

// Sources says where each of m's parameters comes from in the model before its last
// growth.
func (m *Model) Sources(before *Model) []Source {
	g := m.grown[len(m.grown)-1]
	index := map[string]int{}
	for i, p := range before.params {
		index[p.Name] = i
	}
	var sources []Source
	for _, p := range m.params {
		name, s := p.Name, Source{}
		if _, known := index[name]; !known { // a router that a split added copies the last one
			base := name[:strings.LastIndex(name, ".router.")] + ".router"
			name = base
			for level := 1; ; level++ {
				next := fmt.Sprintf("%s.%d", base, level)
				if _, known := index[next]; !known {
					break
				}
				name = next
			}
		}
		s.From = index[name]
		if old := before.params[s.From]; p.Shape[0] != old.Shape[0] {
			grown := g
			grown.Experts = p.Shape[0]
			s.Rows = grown.Parents(old.Shape[0])
		}
		sources = append(sources, s)
	}
	return sources
}
