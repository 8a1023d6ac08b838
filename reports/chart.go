package reports

import (
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize"

	"harness/runs"
)

// Axis names what a chart's horizontal axis counts.
type Axis string

const (
	AxisTokens Axis = "tokens"
	AxisSteps  Axis = "step"
)

// Point is one measurement of a curve. Value may be NaN or infinite: such a
// point is a gap in the line with a mark at X, never a zero.
type Point struct {
	X     float64 // tokens or steps, by the chart's axis
	Value float64 // in the curve's unit
}

// Curve is the one series type behind both drawings of a chart: the SVG and the
// interactive chart read the same points.
type Curve struct {
	Name   string // the metric's full name
	Better string // "lower", "higher" or "": which direction is an improvement
	Points []Point
}

// MarkKind says what a mark on a chart's horizontal axis means.
type MarkKind string

const (
	MarkResume    MarkKind = "resumed"
	MarkDiverged  MarkKind = "diverged"
	MarkNonFinite MarkKind = "not finite"
)

// Mark is an event at one place of the horizontal axis.
type Mark struct {
	Kind  MarkKind
	X     float64 // tokens or steps, by the chart's axis
	Label string
}

// Chart is a group of curves that share one unit and therefore one vertical axis.
type Chart struct {
	ID     string // unique on the page, safe as an HTML id
	Title  string
	Unit   string // "" when the metric has none
	Axis   Axis
	Curves []Curve
	Marks  []Mark
	// Left and Right bound the horizontal axis. All charts of a page that count
	// the same thing share them, so that one place means one moment.
	Left, Right float64
}

// maxNonFiniteMarks bounds the marks of a chart whose metric is mostly broken.
const maxNonFiniteMarks = 60

func newChart(series []runs.Series) Chart {
	chart := Chart{Title: chartTitle(series), Unit: series[0].Unit, Axis: axisOf(series)}
	var gaps []Mark
	for _, s := range series {
		curve := Curve{Name: s.Name, Better: s.Better}
		for _, p := range s.Points {
			curve.Points = append(curve.Points, Point{X: chart.Axis.of(p), Value: p.Value})
		}
		chart.Curves = append(chart.Curves, curve)
		gaps = append(gaps, nonFiniteMarks(curve)...)
	}
	chart.Marks = thin(gaps, maxNonFiniteMarks)
	return chart
}

// of returns the point's place on the axis.
func (a Axis) of(p runs.Point) float64 {
	if a == AxisTokens {
		return float64(p.Tokens)
	}
	return float64(p.Step)
}

// axisOf prefers tokens, in which schedules count, and falls back to steps where
// a series was logged without them.
func axisOf(series []runs.Series) Axis {
	for _, s := range series {
		if len(s.Points) > 0 && s.Points[len(s.Points)-1].Tokens == 0 {
			return AxisSteps
		}
	}
	return AxisTokens
}

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

// attemptMarks marks where resumed attempts took over and where diverged ones
// ended. The places come from the attempts, not from a chart's own points, so that
// the same event stands at the same place in every chart.
func attemptMarks(axis Axis, series []runs.Series, attempts []runs.Attempt) []Mark {
	var marks []Mark
	for _, a := range attempts {
		if a.FromStep > 0 {
			at := runs.Point{Step: a.FromStep, Tokens: tokensAt(series, a.FromStep)}
			marks = append(marks, Mark{Kind: MarkResume, X: axis.of(at), Label: fmt.Sprintf("attempt %d resumes after step %s", a.Number, humanize.Comma(a.FromStep))})
		}
		if a.State == runs.Diverged {
			at := runs.Point{Step: a.Step, Tokens: a.Tokens}
			marks = append(marks, Mark{Kind: MarkDiverged, X: axis.of(at), Label: fmt.Sprintf("attempt %d diverged at step %s", a.Number, humanize.Comma(a.Step))})
		}
	}
	return marks
}

// tokensAt is how many tokens were trained on at a step, as far as the points tell.
func tokensAt(series []runs.Series, step int64) int64 {
	var tokens int64
	for _, s := range series {
		for _, p := range s.Points {
			if p.Step <= step {
				tokens = max(tokens, p.Tokens)
			}
		}
	}
	return tokens
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

// Bounds returns the range of the finite values, ok false when there are none.
func (c Curve) Bounds() (low, high float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, p := range c.Points {
		if finite(p.Value) {
			low, high, ok = min(low, p.Value), max(high, p.Value), true
		}
	}
	return low, high, ok
}

// Summary describes the curve in words: its last value, and its best one where a
// direction is known.
func (c Curve) Summary() string {
	if len(c.Points) == 0 {
		return "no points"
	}
	text := "last " + number(c.Points[len(c.Points)-1].Value)
	low, high, ok := c.Bounds()
	switch {
	case !ok || len(c.Points) == 1:
	case low == high:
		text += ", constant"
	case c.Better == "lower":
		text += ", best " + number(low)
	case c.Better == "higher":
		text += ", best " + number(high)
	default:
		text += ", " + number(low) + " to " + number(high)
	}
	return text
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

// AttemptMarks lists resumes and divergences once for all charts, which share them.
func (page RunPage) AttemptMarks() []Mark {
	var marks []Mark
	for _, c := range page.Charts {
		for _, m := range c.Marks {
			known := slices.ContainsFunc(marks, func(k Mark) bool { return k.Label == m.Label })
			if m.Kind != MarkNonFinite && !known {
				marks = append(marks, m)
			}
		}
	}
	return marks
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
