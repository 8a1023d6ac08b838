package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"harness/runs"
)

// MarkKind says what a mark on a chart's horizontal axis means.
type MarkKind string

const (
	MarkPhase     MarkKind = "phase"
	MarkGrowth    MarkKind = "growth"
	MarkResume    MarkKind = "resumed"
	MarkDiverged  MarkKind = "diverged"
	MarkNonFinite MarkKind = "not finite"
)

// Kinds of events that are marked: a phase of the curriculum begins, the mixtures of
// experts grow.
const (
	phaseEvent  = "phase"
	growthEvent = "growth"
)

// Mark is an event at one place of the horizontal axis.
type Mark struct {
	Kind  MarkKind
	X     float64 // tokens or steps, by the chart's axis
	Label string
	Short string // what fits beside the mark in a drawing; "" for nothing
}

// maxNonFiniteMarks bounds the marks of a chart whose metric is mostly broken.
const maxNonFiniteMarks = 60

// nonFiniteMarks returns one mark per stretch of consecutive non-finite values.
func nonFiniteMarks(c Curve) []Mark {
	var marks []Mark
	for i := 0; i < len(c.Points); {
		if finite(c.Points[i].Value) {
			i++
			continue
		}
		first := i
		for i < len(c.Points) && !finite(c.Points[i].Value) {
			i++
		}
		label := fmt.Sprintf("%s is %s", c.Name, number(c.Points[first].Value))
		if n := i - first; n > 1 {
			label += fmt.Sprintf(", %d points not finite,", n)
		}
		marks = append(marks, Mark{Kind: MarkNonFinite, X: c.Points[first].X, Label: label})
	}
	return marks
}

// marks marks where phases began, where resumed attempts took over and where
// diverged ones ended. The places come from the events and attempts, not from a
// chart's own points, so that the same event stands at the same place in every chart.
func (r record) marks(axis Axis, tokensAt func(step int64) int64) []Mark {
	marks := append(r.phases(axis, tokensAt), r.growths(axis, tokensAt)...)
	for _, a := range r.run.Attempts {
		if a.FromStep > 0 {
			at := runs.Point{Step: a.FromStep, Tokens: tokensAt(a.FromStep)}
			marks = append(marks, Mark{Kind: MarkResume, X: axis.of(at), Label: fmt.Sprintf("attempt %d resumes after step %s", a.Number, humanize.Comma(a.FromStep))})
		}
		if a.State == runs.Diverged {
			at := runs.Point{Step: a.Step, Tokens: a.Tokens}
			marks = append(marks, Mark{Kind: MarkDiverged, X: axis.of(at), Label: fmt.Sprintf("attempt %d diverged at step %s", a.Number, humanize.Comma(a.Step))})
		}
	}
	return marks
}

// phases keeps one mark per phase: an attempt that resumes right where a phase begins
// says so again.
func (r record) phases(axis Axis, tokensAt func(step int64) int64) []Mark {
	var marks []Mark
	for _, e := range r.first(phaseEvent) {
		at := runs.Point{Step: e.Step, Tokens: tokensAt(e.Step)}
		short, _, _ := strings.Cut(e.Text, ":")
		short, _, _ = strings.Cut(short, " of ")
		marks = append(marks, Mark{Kind: MarkPhase, X: axis.of(at), Short: short,
			Label: fmt.Sprintf("%s (from step %s)", e.Text, humanize.Comma(e.Step))})
	}
	return marks
}

// growths keeps one mark per growth step, as phases does.
func (r record) growths(axis Axis, tokensAt func(step int64) int64) []Mark {
	var marks []Mark
	for _, e := range r.first(growthEvent) {
		m := Mark{Kind: MarkGrowth, X: axis.of(runs.Point{Step: e.Step, Tokens: tokensAt(e.Step)}), Short: "grown",
			Label: fmt.Sprintf("%s (after step %s)", cmp.Or(e.Text, growthEvent), humanize.Comma(e.Step))}
		if n := expertsAfter(r.tables, e.Step); n != "" {
			m.Short = "E " + n
		}
		marks = append(marks, m)
	}
	return marks
}

// nameGrowths takes the names from growth marks that would stand on another mark's: the
// list of marks has them.
func nameGrowths(charts []Chart) {
	const room, smallRoom = 0.12, 0.2 // of a name such as "phase 2" or "E 128", in widths of a chart
	for i := range charts {
		c := &charts[i]
		apart := room * (c.Right - c.Left)
		if c.Family != "" {
			apart = smallRoom * (c.Right - c.Left)
		}
		for k := range c.Marks {
			m := &c.Marks[k]
			stands := func(other Mark) bool {
				return other.Short != "" && c.drawn(other) && max(other.X-m.X, m.X-other.X) < apart
			}
			others := slices.Concat(c.byKind(MarkPhase), c.Marks[:k]) // growths after it give way to this one
			if m.Kind == MarkGrowth && slices.ContainsFunc(others, stands) {
				m.Short = ""
			}
		}
	}
}

// first are the events of a kind by step, each text once.
func (r record) first(kind string) []runs.Event {
	events := slices.DeleteFunc(slices.Clone(r.events), func(e runs.Event) bool { return e.Kind != kind })
	slices.SortStableFunc(events, func(a, b runs.Event) int { return cmp.Compare(a.Step, b.Step) })
	seen := map[string]bool{}
	return slices.DeleteFunc(events, func(e runs.Event) bool {
		known := seen[e.Text]
		seen[e.Text] = true
		return known
	})
}

// tokenCounter returns a function that tells how many tokens were trained on at a
// step, as far as the points tell.
func tokenCounter(series []runs.Series) func(step int64) int64 {
	known := map[int64]int64{}
	for _, s := range series {
		for _, p := range s.Points {
			known[p.Step] = max(known[p.Step], p.Tokens)
		}
	}
	steps := make([]int64, 0, len(known))
	for step := range known {
		steps = append(steps, step)
	}
	slices.Sort(steps)
	return func(step int64) int64 {
		i, found := slices.BinarySearch(steps, step)
		switch {
		case found:
			return known[step]
		case i == 0:
			return 0
		}
		return known[steps[i-1]]
	}
}

// thin keeps at most n marks, evenly chosen, the first and the last included.
func thin(marks []Mark, n int) []Mark {
	if len(marks) <= n {
		return marks
	}
	kept := make([]Mark, n)
	for i := range kept {
		kept[i] = marks[i*(len(marks)-1)/(n-1)]
	}
	return kept
}

// NonFinite lists the chart's non-finite stretches for its caption: the first in
// words, the others counted.
func (c Chart) NonFinite() []Mark {
	var first []Mark
	more := 0
	for _, m := range c.Marks {
		switch {
		case m.Kind != MarkNonFinite:
		case first == nil:
			m.Label += " at " + count64(m.X) + " " + plural(string(c.Axis))
			first = []Mark{m}
		default:
			more++
		}
	}
	if more > 0 {
		first[0].Label += fmt.Sprintf(", and %d more such marks", more)
	}
	return first
}

// drawn holds for marks that are lines inside the drawing: the first phase begins
// where the drawing does, or before it.
func (c Chart) drawn(m Mark) bool {
	return m.Kind != MarkPhase && m.Kind != MarkGrowth || m.X > c.Left+(c.Right-c.Left)*1e-3 && m.X <= c.Right
}

// SharedMarks lists phases, growth steps, resumes and divergences once for all charts, which
// share them.
func (page RunPage) SharedMarks() []Mark {
	var marks []Mark
	charts := page.Charts
	if page.Mixture != nil {
		charts = append(slices.Clip(charts), page.Mixture.Charts...)
	}
	for _, c := range charts {
		for _, m := range c.Marks {
			known := slices.ContainsFunc(marks, func(k Mark) bool { return k.Label == m.Label })
			if m.Kind != MarkNonFinite && !known {
				marks = append(marks, m)
			}
		}
	}
	return marks
}

// byKind selects the marks of a kind that are drawn.
func (c Chart) byKind(kind MarkKind) []Mark {
	return slices.DeleteFunc(slices.Clone(c.Marks), func(m Mark) bool { return m.Kind != kind || !c.drawn(m) })
}
