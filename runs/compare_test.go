package runs

import (
	"reflect"
	"testing"
)

func TestMetricIsOneOfTheSeries(t *testing.T) {
	s := open(t, t.TempDir())
	run := create(t, s, "resumed")
	write := func(from, to int64) {
		rec := begin(t, s, run.ID, from)
		for step := from; step <= to; step++ {
			for i, name := range []string{"loss", "loss/go", "speed"} {
				rec.Metric(name, step, 10*step, float64(step)+float64(i)/10)
				rec.Metric(name, step, 10*step, float64(step)+float64(i)/20)
			}
		}
		finish(t, rec, Interrupted)
	}
	write(0, 20)
	write(10, 15)
	write(12, 12)
	for _, one := range must[[]Series](t)(s.Series(t.Context(), run.ID)) {
		got := must[[]Point](t)(s.Metric(t.Context(), run.ID, one.Name))
		if !reflect.DeepEqual(got, one.Points) {
			t.Errorf("%s:\n%+v, want\n%+v", one.Name, got, one.Points)
		}
		if len(got) != 26 {
			t.Errorf("%s has %d points in view, want two of each of the steps 0 to 12", one.Name, len(got))
		}
	}
	if got := must[[]Point](t)(s.Metric(t.Context(), run.ID, "nothing")); len(got) != 0 {
		t.Errorf("a metric that is not there: %+v", got)
	}
}
