package reports

import (
	"math"
	"strings"
	"testing"

	"harness/runs"
)

func TestSmoothKeepsGapsAndIsAMean(t *testing.T) {
	nan := math.NaN()
	points := []Point{{0, 4}, {10, 2}, {20, nan}, {30, math.Inf(1)}, {40, 6}, {1e6, 1}}
	got := smooth(points, 10)
	e := math.Exp(-1)
	e3 := math.Exp(-3)
	want := []float64{4, (4*e + 2) / (e + 1), nan, math.Inf(1), ((4*e+2)*e3 + 6) / ((e+1)*e3 + 1), 1}
	for i, w := range want {
		if got[i].X != points[i].X {
			t.Errorf("point %d moved to %v", i, got[i].X)
		}
		same := math.Abs(got[i].Value-w) < 1e-12 || !finite(w) && number(got[i].Value) == number(w)
		if !same {
			t.Errorf("point %d is %v, want %v", i, got[i].Value, w)
		}
	}
}

// denseRecord has enough points for running means, one of them not a number.
func denseRecord() record {
	var r record
	for _, name := range []string{"train/loss", "validation/loss", "gradient_norm", "throughput", "learning_rate"} {
		s := runs.Series{Name: name, Better: "lower"}
		for i := range int64(200) {
			v := 2 + math.Sin(float64(i))
			if i == 100 {
				v = math.NaN()
			}
			s.Points = append(s.Points, runs.Point{Step: i + 1, Tokens: (i + 1) * 1024, Value: v})
		}
		r.series = append(r.series, s)
	}
	return r
}

func chartOf(t *testing.T, charts []Chart, name string) Chart {
	t.Helper()
	for _, c := range charts {
		for _, curve := range c.Curves {
			if curve.Name == name {
				return c
			}
		}
	}
	t.Fatalf("no chart holds %s", name)
	return Chart{}
}

func TestOnlyBatchMetricsAreSmoothed(t *testing.T) {
	r := denseRecord()
	charts := newCharts(r.series, r)
	for name, want := range map[string]bool{"train/loss": true, "gradient_norm": true, "throughput": true, "validation/loss": false, "learning_rate": false} {
		chart := chartOf(t, charts, name)
		if got := chart.Curves[0].Smooth != nil; got != want {
			t.Errorf("%s smoothed: %v, want %v", name, got, want)
		}
		if got := strings.Contains(chart.Reading(), "exponential running mean, span 1/50 of the run"); got != want {
			t.Errorf("%s says %q", name, chart.Reading())
		}
		svg, err := chart.SVG()
		if err != nil {
			t.Fatal(err)
		}
		pale := strings.Replace(curveVariable(chart.Curves[0].Colour), "--c", "--p", 1)
		if got := strings.Contains(string(svg), "stroke:"+pale); got != want {
			t.Errorf("%s is drawn over a pale line: %v, want %v", name, got, want)
		}
	}
	train := chartOf(t, charts, "train/loss")
	if gap := train.Curves[0].Smooth[100].Value; !math.IsNaN(gap) {
		t.Errorf("the gap of the training loss was filled with %v", gap)
	}
	if summary := train.Summary(train.Curves[0]); strings.Contains(summary, "best") || !strings.HasPrefix(summary, "running mean ") {
		t.Errorf("training loss is summed up as %q", summary)
	}
	few := train.Curves[0]
	few.Smooth = nil
	if summary := train.Summary(few); strings.Contains(summary, "best") {
		t.Errorf("a training loss of few points is summed up as %q", summary)
	}
}
