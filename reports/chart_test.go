package reports

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"harness/runs"
)

// noisySeries has its extremes, its NaN and its infinity at places that no even
// sampling of it would hit.
func noisySeries(n int) runs.Series {
	rng := rand.New(rand.NewPCG(1, 2))
	s := runs.Series{Name: "train/noise", Points: make([]runs.Point, n)}
	for i := range s.Points {
		s.Points[i] = runs.Point{Step: int64(i), Tokens: int64(i+1) * 1024, Value: rng.NormFloat64()}
	}
	s.Points[n/3+1].Value = 1000
	s.Points[n/2+3].Value = -1000
	s.Points[n/5+7].Value = math.NaN()
	s.Points[n/7+5].Value = math.Inf(1)
	return s
}

func TestDecimateKeepsWhatIsSeen(t *testing.T) {
	const n, buckets = 100_000, 400
	all := newCharts([]runs.Series{noisySeries(n)}, record{})[0].Curves[0].Points
	kept := decimate(all, buckets)
	if len(kept) > 5*buckets {
		t.Errorf("%d points are left, want at most %d", len(kept), 5*buckets)
	}
	for _, i := range []int{0, n - 1, n/3 + 1, n/2 + 3, n/5 + 7, n/7 + 5} {
		if !slices.ContainsFunc(kept, func(p Point) bool { return p.X == all[i].X }) {
			t.Errorf("point %d (%v) is gone", i, all[i].Value)
		}
	}
	if !slices.IsSortedFunc(kept, func(a, b Point) int { return int(a.X - b.X) }) {
		t.Error("points are out of order")
	}
	short := all[:5*buckets]
	if got := decimate(short, buckets); len(got) != len(short) {
		t.Errorf("a short curve lost %d points", len(short)-len(got))
	}
}

func TestChartsKeepDifferentThingsApart(t *testing.T) {
	series := func(name, unit string) runs.Series {
		value := 1.0
		if name == "train/lr" {
			value = 3e-3
		}
		return runs.Series{Name: name, Unit: unit, Points: []runs.Point{{Step: 1, Tokens: 10, Value: value}}}
	}
	charts := newCharts([]runs.Series{
		series("loss/validation", "nats"), series("loss/train", "nats"), // same prefix and unit, other data
		series("validation/loss", "nats"), series("validation/loss/go", ""), // the part inherits the unit
		series("train/lr", ""), series("train/grad_norm", ""), // no unit, other scale
		series("branch_share/swa 0", ""), series("branch_share/mlp 0", ""), // no unit, siblings
		series("cache/0/load", ""), series("cache/1/load", ""), // no unit, not siblings
		series("tokens_per_second", "tok/s"), series("memory", "tok/s"),
	}, record{})
	var got []string
	for _, c := range charts {
		var names []string
		for _, curve := range c.Curves {
			names = append(names, curve.Name)
		}
		got = append(got, strings.Join(names, "+"))
	}
	want := []string{"loss/train", "loss/validation", "validation/loss+validation/loss/go",
		"train/lr", "train/grad_norm", "tokens_per_second", "branch_share/mlp 0+branch_share/swa 0", "cache/0/load", "cache/1/load", "memory"}
	if !slices.Equal(got, want) {
		t.Errorf("charts are\n%q, want\n%q", got, want)
	}
}

func TestScoresBecomeCurvesOnce(t *testing.T) {
	score := func(task string, step, seed int64) runs.Score { return runs.Score{Name: task, Step: step, Seed: seed} }
	series := scoreSeries([]runs.Score{
		score("shift", 1, 7), score("shift", 2, 7), // drawn
		score("copy", 1, 7), score("copy", 2, 7), // logged as a metric already
		score("add", 2, 7),                         // measured once
		score("shift", 1, 8), score("shift", 2, 8), // another seed, another curve
	}, []runs.Series{{Name: "probe/copy"}})
	var names []string
	for _, s := range series {
		names = append(names, s.Name)
		if len(s.Points) != 2 || s.Points[0].Step != 1 {
			t.Errorf("%s has points %+v", s.Name, s.Points)
		}
	}
	slices.Sort(names)
	if want := []string{"score/shift", "score/shift (seed 8)"}; !slices.Equal(names, want) {
		t.Errorf("curves %q, want %q", names, want)
	}
}

func TestNonFiniteValuesAreGapsWithMarks(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(-1)
	s := runs.Series{Name: "train/loss", Unit: "nats"}
	for i, v := range []float64{5, nan, inf, 4, 3, nan, 2} {
		s.Points = append(s.Points, runs.Point{Step: int64(i), Tokens: int64(i) * 100, Value: v})
	}
	chart := newCharts([]runs.Series{s}, record{})[0]
	if len(chart.Marks) != 2 || chart.Marks[0].X != 100 || chart.Marks[1].X != 500 {
		t.Errorf("marks %+v, want one at 100 and one at 500", chart.Marks)
	}
	if !strings.Contains(chart.Marks[0].Label, "NaN") {
		t.Errorf("label %q", chart.Marks[0].Label)
	}
	if low, high, ok := chart.Curves[0].Bounds(); low != 2 || high != 5 || !ok {
		t.Errorf("bounds %v to %v: a gap counted as a value", low, high)
	}
	svg, err := chart.SVG()
	if err != nil {
		t.Fatal(err)
	}
	// Three stretches (5 | 4 3 | 2): one line, since a point alone makes none, four
	// dots, and two strokes for each cross.
	colour := curveVariable(chart.Curves[0].Colour)
	if got := strings.Count(string(svg), ";stroke:"+colour); got != 1 {
		t.Errorf("%d lines, want 1", got)
	}
	if got := strings.Count(string(svg), `"fill:`+colour); got != 4 {
		t.Errorf("%d dots, want 4", got)
	}
	if got := strings.Count(string(svg), "stroke:var(--alert)"); got != 4 {
		t.Errorf("%d strokes of crosses, want 4", got)
	}
	if strings.Contains(string(svg), "NaN,") || strings.Contains(string(svg), "Inf,") {
		t.Error("a path has a non-finite coordinate")
	}
	if data := optionData(t, chart); string(data[1]) != "[100,null]" || string(data[3]) != "[300,4]" {
		t.Errorf("interactive data %s", data)
	}
}

// optionData returns the [x, y] pairs of the chart's first curve as JSON.
func optionData(t *testing.T, chart Chart) []json.RawMessage {
	t.Helper()
	encoded, err := chart.Option()
	if err != nil {
		t.Fatal(err)
	}
	var option struct {
		Series []struct {
			Data []struct {
				Value json.RawMessage `json:"value"`
			} `json:"data"`
		} `json:"series"`
	}
	if err := json.Unmarshal(encoded, &option); err != nil {
		t.Fatal(err)
	}
	var data []json.RawMessage
	for _, d := range option.Series[0].Data {
		data = append(data, d.Value)
	}
	return data
}

func TestResumeAndDivergenceAreMarked(t *testing.T) {
	page := newRunPage(smallRecord())
	for _, chart := range page.Charts {
		var resumed, diverged []float64
		for _, m := range chart.Marks {
			switch m.Kind {
			case MarkResume:
				resumed = append(resumed, m.X)
			case MarkDiverged:
				diverged = append(diverged, m.X)
			}
		}
		if !slices.Equal(resumed, []float64{20480}) || !slices.Equal(diverged, []float64{40960}) {
			t.Errorf("%s: resumed at %v, diverged at %v", chart.Title, resumed, diverged)
		}
		if chart.Left != 0 || chart.Right != 40960 {
			t.Errorf("%s spans %v to %v, want the whole run", chart.Title, chart.Left, chart.Right)
		}
	}
}

func TestDegenerateCurvesAreDrawn(t *testing.T) {
	point := func(v float64) []runs.Point { return []runs.Point{{Step: 3, Value: v}} }
	for name, points := range map[string][]runs.Point{
		"one point": point(3), "zero": point(0), "none": nil, "only NaN": point(math.NaN()), "only Inf": point(math.Inf(1)),
		"tiny":      {{Step: 1, Value: 1e-300}, {Step: 2, Value: 2e-300}},
		"huge":      {{Step: 1, Value: -math.MaxFloat64}, {Step: 2, Value: math.MaxFloat64}},
		"constant":  {{Step: 1, Value: 3e-4}, {Step: 2, Value: 3e-4}},
		"same step": {{Step: math.MaxInt64, Value: 1}, {Step: math.MaxInt64, Value: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			chart := newCharts([]runs.Series{{Name: "m", Points: points}}, record{})[0]
			svg, err := chart.SVG()
			if err != nil {
				t.Fatal(err)
			}
			drawn := strings.Contains(string(svg), curveVariable(chart.Curves[0].Colour))
			if want := len(points) > 0 && finite(points[0].Value); drawn != want {
				t.Errorf("curve drawn: %v, want %v", drawn, want)
			}
			if strings.Contains(string(svg), "MNaN") || strings.Contains(string(svg), "Inf") && name != "only Inf" {
				t.Error("a coordinate is not finite")
			}
			optionData(t, chart)
		})
	}
}

func TestAxisFallsBackToSteps(t *testing.T) {
	charts := newCharts([]runs.Series{
		{Name: "a", Points: []runs.Point{{Step: 5, Value: 1}}},
		{Name: "b", Points: []runs.Point{{Step: 5, Tokens: 5120, Value: 1}}},
	}, record{})
	if charts[0].Axis != AxisSteps || charts[1].Axis != AxisTokens {
		t.Errorf("axes %s and %s", charts[0].Axis, charts[1].Axis)
	}
}

func TestManyNonFiniteMarksAreThinned(t *testing.T) {
	s := runs.Series{Name: "broken"}
	for i := range 10_000 {
		v := math.NaN()
		if i%2 == 0 {
			v = 1
		}
		s.Points = append(s.Points, runs.Point{Step: int64(i), Value: v})
	}
	chart := newCharts([]runs.Series{s}, record{})[0]
	if n := len(chart.Marks); n != maxNonFiniteMarks || chart.Marks[0].X != 1 || chart.Marks[n-1].X != 9999 {
		t.Errorf("%d marks", n)
	}
	if got := decimate(chart.Curves[0].Points, 100); len(got) > 500 {
		t.Errorf("%d points are left, want at most 500", len(got))
	}
}

func TestBranchSharesAreExplained(t *testing.T) {
	for name, want := range map[string]bool{"branch_share/layer 0": true, "rms/layer 0": false} {
		reading := newCharts([]runs.Series{{Name: name, Points: []runs.Point{{Step: 1, Value: 0.5}, {Step: 2, Value: 0.4}}}}, record{})[0].Reading()
		if strings.Contains(reading, shareMeaning) != want {
			t.Errorf("%s: %q", name, reading)
		}
	}
}
