package reports

import (
	"fmt"
	"math"

	"harness/runs"
)

// Axis names what a chart's horizontal axis counts.
type Axis string

const (
	AxisTokens Axis = "tokens"
	AxisSteps  Axis = "step"
)

// Scale says how a chart's vertical axis is divided.
type Scale string

const (
	ScaleLinear Scale = "linear" // spans the values
	ScaleLog    Scale = "log"    // spans the values, all of them positive
	ScaleShare  Scale = "share"  // 0 to 1 whatever the values, printed in percent
)

// Point is one measurement of a curve. Value may be NaN or infinite: such a
// point is a gap in the line with a mark at X, never a zero.
type Point struct {
	X     float64 // tokens or steps, by the chart's axis
	Value float64 // in the curve's unit
}

// Interval is the confidence interval of the point at X.
type Interval struct {
	X         float64
	Low, High float64 // finite
}

// Curve is the one series type behind both drawings of a chart: the SVG and the
// interactive chart read the same points.
type Curve struct {
	Name   string // the metric's full name
	Better string // "lower", "higher" or "": which direction is an improvement
	Colour int    // place in the page's palette, from 0
	Points []Point
	// Smooth is the running mean of Points, as long as they are and not finite
	// where they are not; nil where the points are drawn as they are.
	Smooth    []Point
	Intervals []Interval // of some or all points; nil where none are known
	Plain     bool       // a line to compare with that is no measurement: dashed, without dots
	Level     Level      // what the curve is to be compared with
}

// Level is a height to compare a curve with, such as chance. Its Label is "" where
// there is nothing to compare with.
type Level struct {
	Label string
	Value float64
}

// Chart is a group of curves that share one unit and therefore one vertical axis.
type Chart struct {
	ID     string // unique on the page, safe as an HTML id
	Title  string
	Unit   string // "" when the metric has none
	Family string // what the chart is one of several small ones of, "" for one that stands alone
	// Section is the section of the page that the chart stands in, "" for the curves.
	Section string
	Part    string // what the chart is one of several full-size parts of, "" for a whole
	Note    string // what the values are, "" where the title says it
	Noisy   bool   // batches measure the values afresh, whatever their names
	Share   bool   // the values are shares, whatever their names
	Axis    Axis
	Scale   Scale
	Curves  []Curve
	Marks   []Mark
	// Left and Right bound the horizontal axis. All charts of a page that count
	// the same thing share them, so that one place means one moment.
	Left, Right float64
	// Bottom and Top bound the vertical axis. The charts of a family share them.
	Bottom, Top float64
}

func newChart(series []runs.Series) Chart {
	chart := Chart{Title: chartTitle(series), Unit: series[0].Unit, Axis: axisOf(series), Scale: ScaleLinear}
	var gaps []Mark
	for _, s := range series {
		curve := Curve{Name: s.Name, Better: s.Better}
		for _, p := range s.Points {
			curve.Points = append(curve.Points, Point{X: chart.Axis.of(p), Value: p.Value})
		}
		chart.Curves = append(chart.Curves, curve)
		gaps = append(gaps, nonFiniteMarks(curve)...)
	}
	assignColours(chart.Curves)
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

// Summary describes a curve of the chart in words: its last value, and its best one
// where a direction is known. The best of a noisy curve is the luckiest of its
// values, so that a smoothed curve gives its running mean instead.
func (c Chart) Summary(curve Curve) string {
	if len(curve.Points) == 0 {
		return "no points"
	}
	last := curve.Points[len(curve.Points)-1].Value
	text := "last " + c.value(last)
	low, high, ok := curve.Bounds()
	switch {
	case curve.Plain:
	case curve.Smooth != nil:
		if mean := curve.Smooth[len(curve.Smooth)-1].Value; finite(mean) {
			text = "running mean " + c.value(mean) + ", " + text
		}
	case !ok || len(curve.Points) == 1 || isTrainingLoss(curve.Name):
	case low == high:
		text += ", constant"
	case c.Scale == ScaleShare:
		text = "first " + c.value(curve.Points[0].Value) + ", " + text
	case curve.Better == "lower":
		text += ", best " + c.value(low)
	case curve.Better == "higher":
		text += ", best " + c.value(high)
	default:
		text += ", " + c.value(low) + " to " + c.value(high)
	}
	if curve.Level.Label != "" {
		text += ", " + curve.Level.Label + " " + c.value(curve.Level.Value)
	}
	return text
}

// value prints a value of the chart.
func (c Chart) value(v float64) string {
	if c.Scale == ScaleShare {
		return percent(v)
	}
	return number(v)
}

// Description says in one line what the picture shows.
func (c Chart) Description() string {
	text := visible(c.Title)
	if c.Unit != "" {
		text += " in " + visible(c.Unit)
	}
	text += " against " + plural(string(c.Axis))
	for _, curve := range c.Curves {
		text += "; " + visible(curve.Name) + ": " + c.Summary(curve)
	}
	return text
}

// Reading explains what the chart holds besides plain lines, "" if nothing.
func (c Chart) Reading() string {
	text := c.Note
	if len(c.Curves) > 0 && prefixOf(c.Curves[0].Name) == "branch_share" {
		text = shareMeaning
	}
	for _, curve := range c.Curves {
		if curve.Smooth != nil {
			text = join(text, fmt.Sprintf("bold: exponential running mean, span 1/%d of the run", smoothingShare))
			if c.Family == "" {
				text += fmt.Sprintf(" (%s %s)", tick(round((c.Right-c.Left)/smoothingShare, 2)), plural(string(c.Axis)))
			}
			text += "; pale: as recorded"
			break
		}
	}
	for _, curve := range c.Curves {
		if len(curve.Intervals) > 0 {
			text = join(text, "whiskers: 95% interval")
			break
		}
	}
	for _, curve := range c.Curves {
		if curve.Level.Label != "" {
			text = join(text, "dashed: "+curve.Level.Label)
			break
		}
	}
	if c.Scale == ScaleLog {
		text = join(text, "logarithmic axis")
	}
	return text
}

func join(text, more string) string {
	if text == "" {
		return more
	}
	return text + "; " + more
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
