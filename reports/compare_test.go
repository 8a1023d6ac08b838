package reports

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"harness/runs"
)

// seriesOf is a series of the given values, a step of 10 tokens apart.
func seriesOf(name, unit string, values ...float64) runs.Series {
	s := runs.Series{Name: name, Unit: unit}
	for i, v := range values {
		s.Points = append(s.Points, runs.Point{Step: int64(i + 1), Tokens: int64(i+1) * 10, Value: v})
	}
	return s
}

func TestManyCurvesBecomeAFamilyOnSharedAxes(t *testing.T) {
	charts := newCharts([]runs.Series{
		seriesOf("train/loss", "nats", 9, 8), seriesOf("train/loss/go", "nats", 6, 5), seriesOf("train/loss/shift", "nats", 1, 0.5),
		seriesOf("train/loss/copy", "nats", 2, 1), seriesOf("validation/loss", "nats", 7, 6, 5),
	}, record{})
	var titles []string
	ids := map[string]bool{}
	for _, c := range charts {
		titles = append(titles, c.Family+":"+c.Title)
		ids[c.ID] = true
		if len(c.Curves) != 1 {
			t.Errorf("%s has %d curves", c.Title, len(c.Curves))
		}
		if c.Family != "" && (c.Bottom != charts[2].Bottom || c.Top != charts[2].Top || c.Left != 10 || c.Right != 30) {
			t.Errorf("%s spans %v to %v by %v to %v, unlike its family", c.Title, c.Left, c.Right, c.Bottom, c.Top)
		}
	}
	want := []string{":train/loss", ":validation/loss", "train/loss:copy", "train/loss:go", "train/loss:shift"}
	if !slices.Equal(titles, want) || len(ids) != len(charts) {
		t.Errorf("charts %q, want %q; %d ids", titles, want, len(ids))
	}
	if charts[2].Bottom > 0.5 || charts[2].Top < 6 || charts[2].Top > 7 {
		t.Errorf("the family spans %v to %v, want its own values", charts[2].Bottom, charts[2].Top)
	}
	few := newCharts([]runs.Series{seriesOf("a/x", "u", 1), seriesOf("a/y", "u", 1), seriesOf("a/z", "u", 1)}, record{})
	if len(few) != 1 || len(few[0].Curves) != 3 {
		t.Errorf("three curves became %d charts", len(few))
	}
	var crowd []runs.Series
	for i := range maxFamily + 1 {
		crowd = append(crowd, seriesOf(fmt.Sprintf("load/%d", i), "share", 1))
	}
	if charts := newCharts(crowd, record{}); len(charts) != 4 || charts[0].Curves[2].Name != "load/2" || charts[1].Curves[2].Name != "load/10" {
		t.Errorf("a crowd became %d charts, out of the order of numbers", len(charts))
	}
}

func TestProbeChartsShowChanceAndIntervals(t *testing.T) {
	r := record{
		series: []runs.Series{seriesOf("probe/shift", "", 0.5, 0.9), seriesOf("probe/new", "", 0.1, 0.2)},
		scores: []runs.Score{
			{Name: "shift", Step: 1, Tokens: 10, Value: 0.5, Low: 0.4, High: 0.6, Chance: 0.07},
			{Name: "shift", Step: 2, Tokens: 20, Value: 0.9, Low: 0.8, High: 0.95, Chance: 0.07},
			{Name: "shift", Step: 2, Tokens: 20, Value: 0.1, Low: 0, High: 0.2, Chance: 0.07, Seed: 8}, // not what is drawn
		},
	}
	chart := newCharts(r.series, r)[0]
	if chart.Scale != ScaleShare || chart.Bottom != 0 || chart.Top != 1 {
		t.Errorf("scale %s from %v to %v, want 0 to 1", chart.Scale, chart.Bottom, chart.Top)
	}
	i := slices.IndexFunc(chart.Curves, func(c Curve) bool { return c.Name == "probe/shift" })
	shift, other := chart.Curves[i], chart.Curves[1-i]
	if shift.Level != (Level{"chance", 0.07}) || other.Level != (Level{}) {
		t.Errorf("levels %+v and %+v", shift.Level, other.Level)
	}
	if want := []Interval{{10, 0.4, 0.6}, {20, 0.8, 0.95}}; !slices.Equal(shift.Intervals, want) || other.Intervals != nil {
		t.Errorf("intervals %+v, want %+v", shift.Intervals, want)
	}
	svg, err := chart.SVG()
	if err != nil {
		t.Fatal(err)
	}
	colour := curveVariable(shift.Colour)
	dashed := 0
	for _, line := range strings.Split(string(svg), "<path") {
		if strings.Contains(line, "dasharray") && strings.Contains(line, "stroke:"+colour) {
			dashed++
		}
	}
	if dashed != 1 || !strings.Contains(string(svg), ">100%<") || !strings.Contains(string(svg), ">0%<") {
		t.Errorf("%d dashed lines of chance, want 1; or the axis has no percents", dashed)
	}
	// One line, and three strokes for each of two intervals.
	if strokes := strings.Count(string(svg), "stroke:"+colour); strokes != 1+1+6 {
		t.Errorf("%d strokes of the curve's colour, want 8", strokes)
	}
	encoded, err := chart.Option()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(chartScript, `"`+untoldID+` "`) {
		t.Error("the script does not know the series that it is to keep out of tooltips")
	}
	option := string(encoded)
	for _, want := range []string{`"name":"chance","yAxis":0.07`, `"min":0,"max":1`, `"value":[10,0.4]`, `"value":[10,null]`} {
		if !strings.Contains(option, want) {
			t.Errorf("interactive chart lacks %s", want)
		}
	}
	if !strings.Contains(chart.Reading(), "95% interval") || !strings.Contains(chart.Summary(shift), "chance 7.0%") {
		t.Errorf("caption %q, %q", chart.Reading(), chart.Summary(shift))
	}
}

func TestScoresOutsideOfSharesAreNotForcedIntoThem(t *testing.T) {
	chart := newCharts([]runs.Series{seriesOf("probe/reward", "", -3, 12)}, record{})[0]
	if chart.Scale != ScaleLinear || chart.Top < 12 || chart.Bottom > -3 {
		t.Errorf("%s from %v to %v", chart.Scale, chart.Bottom, chart.Top)
	}
}

func TestGradientNormsAreLogarithmic(t *testing.T) {
	chart := newCharts([]runs.Series{seriesOf("gradient_norm", "", 30, 0.7, math.Inf(1), 1.2)}, record{})[0]
	if chart.Scale != ScaleLog || chart.Bottom <= 0 || chart.Bottom > 0.7 || chart.Top < 30 {
		t.Errorf("%s from %v to %v", chart.Scale, chart.Bottom, chart.Top)
	}
	svg, err := chart.SVG()
	if err != nil {
		t.Fatal(err)
	}
	for _, label := range []string{">1<", ">10<", ">20<"} {
		if !strings.Contains(string(svg), label) {
			t.Errorf("axis lacks %s", label)
		}
	}
	option, err := chart.Option()
	if err != nil || !strings.Contains(string(option), `"type":"log"`) {
		t.Errorf("interactive chart is not logarithmic: %v", err)
	}
	for name, values := range map[string][]float64{"zero": {1, 0}, "none": {math.NaN()}} {
		if chart := newCharts([]runs.Series{seriesOf("gradient_norm", "", values...)}, record{})[0]; chart.Scale != ScaleLinear {
			t.Errorf("%s: scale %s", name, chart.Scale)
		}
	}
	for _, values := range [][]float64{{2, 2}, {1e-300, 1e300}, {5e-324, 1}, {1, math.MaxFloat64}, {3, 3.01}} {
		chart := newCharts([]runs.Series{seriesOf("gradient_norm", "", values...)}, record{})[0]
		svg, err := chart.SVG()
		if err != nil || strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
			t.Errorf("%v: %v, or a coordinate is not finite", values, err)
		}
	}
	if chart := newCharts([]runs.Series{seriesOf("learning_rate", "", 1e-3, 1e-5)}, record{})[0]; chart.Scale != ScaleLinear {
		t.Error("the learning rate is not drawn as it is")
	}
}

func TestUnigramEntropyIsALevelOfTheLoss(t *testing.T) {
	charts := newCharts([]runs.Series{seriesOf("validation/loss", "nats", 7, 6), seriesOf("validation/unigram", "nats", 6.2, 6.2)}, record{})
	if len(charts) != 1 || len(charts[0].Curves) != 1 || charts[0].Curves[0].Level != (Level{"unigram entropy", 6.2}) {
		t.Fatalf("charts %+v", charts)
	}
	for name, series := range map[string][]runs.Series{
		"changing": {seriesOf("validation/loss", "nats", 7, 6), seriesOf("validation/unigram", "nats", 6.2, 6.1)},
		"alone":    {seriesOf("validation/unigram", "nats", 6.2)},
	} {
		curves := 0
		for _, c := range newCharts(series, record{}) {
			curves += len(c.Curves)
		}
		if curves != len(series) {
			t.Errorf("%s: %d curves, want %d", name, curves, len(series))
		}
	}
}

func TestPhasesAreMarkedOnEveryChart(t *testing.T) {
	page := newRunPage(smallRecord())
	if len(page.Charts) < 4 {
		t.Fatalf("%d charts", len(page.Charts))
	}
	for _, chart := range page.Charts {
		drawn := chart.byKind(MarkPhase)
		if len(drawn) != 1 || drawn[0].X != 20480 || drawn[0].Short != "phase 2" {
			t.Errorf("%s: phases %+v, want the second at 20,480 tokens", chart.Title, drawn)
		}
		svg, err := chart.SVG()
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(svg), ">phase 2<"); n != 1 {
			t.Errorf("%s names the phase %d times", chart.Title, n)
		}
		encoded, err := chart.Option()
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(encoded) || !strings.Contains(string(encoded), `"name":"phase 2","xAxis":20480`) {
			t.Errorf("%s: the interactive chart does not mark the phase", chart.Title)
		}
	}
	var labels []string
	for _, m := range page.SharedMarks() {
		if m.Kind == MarkPhase {
			labels = append(labels, m.Label)
		}
	}
	want := []string{"phase 1 of 2: shift 100 (from step 0)", "phase 2 of 2: go 70, shift 30 (from step 20)"}
	if !slices.Equal(labels, want) {
		t.Errorf("listed are %q, want %q", labels, want)
	}
}

// A fork's first recorded step is far from the first phase, which must not squeeze it.
func TestPhasesDoNotStretchTheAxis(t *testing.T) {
	r := record{
		series: []runs.Series{{Name: "a", Points: []runs.Point{{Step: 900, Tokens: 9000}, {Step: 1000, Tokens: 10_000}}}},
		events: []runs.Event{{Kind: "phase", Text: "phase 1 of 2: x"}, {Kind: "phase", Step: 950, Text: "phase 2 of 2: y"}, {Kind: "phase", Step: 9999, Text: "never"}},
	}
	chart := newCharts(r.series, r)[0]
	if chart.Left != 9000 || chart.Right != 10_000 {
		t.Errorf("the axis spans %v to %v", chart.Left, chart.Right)
	}
}

func TestColoursFollowNames(t *testing.T) {
	colour := func(charts []Chart, name string) int {
		for _, c := range charts {
			for _, curve := range c.Curves {
				if curve.Name == name {
					return curve.Colour
				}
			}
		}
		t.Fatalf("no curve %s", name)
		return -1
	}
	alone := newCharts([]runs.Series{seriesOf("probe/shift", "", 1)}, record{})
	beside := newCharts([]runs.Series{seriesOf("train/loss/copy", "nats", 1), seriesOf("train/loss/shift", "nats", 1), seriesOf("zz", "", 1)}, record{})
	if a, b := colour(alone, "probe/shift"), colour(beside, "train/loss/shift"); a != b {
		t.Errorf("shift has colour %d in one chart and %d in another", a, b)
	}
	tasks := map[int]bool{}
	for _, name := range []string{"induct", "before", "shift", "copy", "add", "go"} {
		tasks[colour(newCharts([]runs.Series{seriesOf("probe/"+name, "", 1)}, record{}), "probe/"+name)] = true
	}
	if len(tasks) != 6 {
		t.Errorf("six names have %d colours", len(tasks))
	}
	curves := make([]Curve, paletteSize)
	for i := range curves {
		curves[i].Name = fmt.Sprintf("%c/same", 'a'+i)
	}
	assignColours(curves)
	seen := map[int]bool{}
	for _, c := range curves {
		seen[c.Colour] = true
	}
	if len(seen) != paletteSize {
		t.Errorf("%d colours for %d curves of one chart", len(seen), paletteSize)
	}
}
