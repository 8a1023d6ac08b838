package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"harness/runs"
)

// Roofline is what the core can do at each arithmetic intensity, and what was
// reached. Both axes are logarithmic: FLOP per byte, and GFLOP/s.
type Roofline struct {
	Roofs  []Roof   // of arithmetics, from the highest
	Slopes []Roof   // of memory levels, in GB/s, from the highest
	Sets   []DotSet // in the order of their colours
	Unit   string   // what the dots are: shapes or operations

	Left, Right, Bottom, Top float64
}

// Roof is one limit.
type Roof struct {
	Name  string
	Value float64 // GFLOP/s or GB/s
	Unit  string
	Also  string // how its label goes on, with the roofs whose own would lie on it
}

// DotSet is what one kernel set reached, or the operations of a step.
type DotSet struct {
	Name   string
	Colour int // place in the palette, and the form of the dot
	Dots   []Dot
}

// Dot is one measured speed.
type Dot struct {
	Key       string // letter of its shape or operation
	Text      string // what it is, in words
	X         float64
	Y         float64
	Low, High float64
}

// newRoofline is nil where there is no roof, no slope or nothing below them.
func newRoofline(b benchData) *Roofline {
	r := &Roofline{Roofs: roofsOf(b.group(runs.GroupPeak)), Slopes: roofsOf(b.group(runs.GroupBandwidth)), Unit: "shape"}
	for i, set := range b.sets() {
		r.Sets = append(r.Sets, DotSet{Name: set, Colour: i})
	}
	for i, shape := range b.shapes() {
		for _, g := range shape {
			set := &r.Sets[slices.IndexFunc(r.Sets, func(s DotSet) bool { return s.Name == g.set })]
			text := strings.TrimSpace(fmt.Sprintf("%s: %s %s: %s", g.set, g.trans, shapeName(g.shape()), figureOf(g.Measurement).Value))
			if g.Value > 0 && finite(g.intensity()) {
				set.Dots = append(set.Dots, Dot{letter(i), text, g.intensity(), g.Value, g.Low, g.High})
			}
		}
	}
	if len(r.Sets) == 0 {
		r.Unit = "operation"
		r.Sets = opDots(b)
	}
	r.Sets = slices.DeleteFunc(r.Sets, func(s DotSet) bool { return len(s.Dots) == 0 })
	if len(r.Roofs) == 0 || len(r.Slopes) == 0 || len(r.Sets) == 0 {
		return nil
	}
	r.bound()
	return r
}

// opDots are the operations of a step, apart by what bounds them.
func opDots(b benchData) []DotSet {
	sets := []DotSet{{Name: "bound by compute", Colour: 0}, {Name: "bound by bandwidth", Colour: 1}}
	for _, op := range b.ops() {
		gflop, gbyte := share(op.Detail["gflop"]), share(op.Detail["gbyte"])
		if gflop == 0 || gbyte == 0 || op.Value <= 0 || op.Low <= 0 {
			continue
		}
		set := &sets[0]
		if op.Detail["bound"] == runs.BoundBandwidth {
			set = &sets[1]
		}
		rate := func(ms float64) float64 { return gflop / ms * 1e3 }
		set.Dots = append(set.Dots, Dot{op.key, fmt.Sprintf("%s: %s GFLOP/s", op.name, threeDigits(rate(op.Value))), gflop / gbyte, rate(op.Value), rate(op.High), rate(op.Low)})
	}
	return sets
}

// roofsOf sorts limits from the highest. What is not above zero limits nothing.
func roofsOf(measured []runs.Measurement) []Roof {
	var roofs []Roof
	for _, m := range measured {
		if m.Value > 0 {
			roofs = append(roofs, Roof{Name: m.Name, Value: m.Value, Unit: m.Unit})
		}
	}
	slices.SortStableFunc(roofs, func(a, b Roof) int { return cmp.Compare(b.Value, a.Value) })
	return roofs
}

// bound spans all dots, every ridge, and enough of the slopes to read them.
func (r *Roofline) bound() {
	top, low := r.Roofs[0].Value, r.Roofs[len(r.Roofs)-1].Value
	fast, slow := r.Slopes[0].Value, r.Slopes[len(r.Slopes)-1].Value
	r.Left, r.Right = low/fast/3, top/slow*3
	r.Bottom, r.Top = slow*low/fast, top*1.5
	for _, s := range r.Sets {
		for _, d := range s.Dots {
			r.Left, r.Right = min(r.Left, d.X/1.5), max(r.Right, d.X*1.7)
			r.Bottom, r.Top = min(r.Bottom, d.Low/1.5), max(r.Top, d.High*1.5)
		}
	}
	r.Bottom = max(r.Bottom, r.Top/1e5) // one slow reference would flatten the rest
}

// Description says in one line what the picture shows.
func (r *Roofline) Description() string {
	text := "Roofline: speed in GFLOP/s against FLOP per byte"
	for _, roof := range r.Roofs {
		text += fmt.Sprintf("; %s %s %s", roof.Name, threeDigits(roof.Value), roof.Unit)
	}
	for _, s := range r.Slopes {
		text += fmt.Sprintf("; %s %s %s", s.Name, threeDigits(s.Value), s.Unit)
	}
	for _, s := range r.Sets {
		text += fmt.Sprintf("; %s: %d %ss", s.Name, len(s.Dots), r.Unit)
	}
	return text
}

// Summary describes a set in words.
func (s DotSet) Summary() string {
	low, high := math.Inf(1), 0.0
	for _, d := range s.Dots {
		low, high = min(low, d.Y), max(high, d.Y)
	}
	if low == high {
		return threeDigits(high)
	}
	return threeDigits(low) + " to " + threeDigits(high)
}

// roofNames joins roofs that are less than a factor apart, whose labels would lie on
// each other, to one label at the highest: each with its value, unless they print the same.
func roofNames(roofs []Roof, apart float64) []Roof {
	var named []Roof
	for _, roof := range roofs {
		if n := len(named); n > 0 && named[n-1].Value/roof.Value < apart {
			if first := &named[n-1]; first.Also == "" && threeDigits(first.Value) == threeDigits(roof.Value) {
				first.Name += ", " + roof.Name
			} else {
				first.Also += ", " + roof.label()
			}
			continue
		}
		named = append(named, roof)
	}
	return named
}

// label is what a drawing writes at a limit. Three digits are more than it resolves.
func (r Roof) label() string { return r.Name + " " + threeDigits(r.Value) + r.Also }
