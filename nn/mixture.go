package nn

import (
	"fmt"
	"math/bits"
)

// Mixture holds a layer's routed experts (paper, sections 2 and 3). A split leaves
// the routers before it as they are and adds one with two rows for every row of the
// last: the first ranks families of experts, the others pick a child in a family.
type Mixture struct {
	GateUp  *Param   // [E, D, gate Fe | up Fe]
	Down    *Param   // [E, Fe, D]
	Routers []*Param // level l [E0 * 2^l, D]; the last has E rows
	First   *Param   // [D] routes a segment's first block
	// Load is the running share [E] of routed tokens that each expert had, first blocks
	// left out: the balance loss reads it, ObserveLoad moves it.
	Load []float64
}

// Experts is E.
func (x *Mixture) Experts() int { return len(x.Load) }

// families is the number of experts that compete in top-k: E but for splits.
func (x *Mixture) families() int { return x.Routers[0].Shape[0] }

// shape is the number of families and of split levels after some growth.
func (c MoE) shape(grown []Growth) (families, levels int) {
	families = c.Experts
	for _, g := range grown {
		switch experts := families << levels; {
		case g.Experts <= experts || g.Method != InsertZero && !isPowerOfTwo(g.Experts, experts):
			panic(fmt.Sprintf("nn: %d experts cannot become %d by %s", experts, g.Experts, g.Method))
		case g.Method == Split:
			levels += bits.TrailingZeros(uint(g.Experts / experts))
		case levels > 0:
			panic(fmt.Sprintf("nn: %s after a split: families nest under split alone", g.Method))
		default:
			families = g.Experts
		}
	}
	return families, levels
}

func isPowerOfTwo(n, times int) bool {
	return n%times == 0 && bits.OnesCount(uint(n/times)) == 1
}

// newMixture adds a layer's parameters in the order in which a checkpoint lists them.
func newMixture(cfg Config, grown []Growth, p func(name string, kind Kind, shape ...int) *Param) *Mixture {
	c, d := cfg.MoE, cfg.DModel
	families, levels := c.shape(grown)
	if c.TopK > families {
		panic(fmt.Sprintf("nn: top %d of %d experts", c.TopK, families))
	}
	x := &Mixture{First: p("moe.first", Vector, d)}
	for level := range levels + 1 {
		name := "moe.router"
		if level > 0 {
			name = fmt.Sprintf("moe.router.%d", level)
		}
		x.Routers = append(x.Routers, p(name, Router, families<<level, d))
	}
	e := families << levels
	x.GateUp = p("moe.gate_up", Expert, e, d, 2*c.DFF)
	x.Down = p("moe.down", Expert, e, c.DFF, d)
	x.Load = make([]float64, e)
	for i := range x.Load {
		x.Load[i] = 1 / float64(e)
	}
	return x
}

// loadMemory is how much of the running load a step keeps: it forgets in some
// hundred steps.
const loadMemory = 0.99

// ObserveLoad moves the running load of every mixture by what the last training
// forward routed. A step without routed blocks says nothing.
func (m *Model) ObserveLoad(a *Activations) {
	for i := range m.Layers {
		x := m.Layers[i].Mixture
		if x == nil {
			continue
		}
		r := &a.layers[i].routing
		total := float64(a.routed * m.MoE.TopK)
		if total == 0 {
			continue
		}
		for e := range x.Load {
			x.Load[e] *= loadMemory
		}
		for _, b := range a.blocks {
			if b.First() {
				continue
			}
			for _, e := range r.chosen(b.Item) {
				x.Load[e] += (1 - loadMemory) * float64(b.Hi-b.Lo) / total
			}
		}
	}
}
