package reports

import (
	"math"
	"strings"
	"testing"

	"harness/runs"
)

func TestHeaderAnswersTheFirstQuestions(t *testing.T) {
	r := smallRecord()
	r.series = append(r.series,
		runs.Series{Name: "throughput", Points: []runs.Point{{Value: 1000}, {Value: 9000}, {Value: 3000.4}}},
		runs.Series{Name: "validation/bits_per_byte", Points: []runs.Point{{Value: 2.5}, {Value: 1.25}}})
	page := newRunPage(r)
	for label, want := range map[string][2]string{
		"validation loss": {"5.5 nats", "1.25 bits per byte; last, at 40,960 tokens"},
		"parameters":      {"1,132,224", "607,936 of them body, without the embedding"},
		"model":           {"d_model 128, lin swa", ""},
		"trained on":      {"40,960 tokens", "40 of 80 steps: 50.0% of a budget of 81,920 tokens"},
		"speed":           {"3,000 tokens/s", "median, portable kernels, a test (core 2)"},
		"code":            {"0123456789ab dirty", "the source had changes that no commit holds"},
		"seed":            {"7", ""},
		"run":             {r.run.ID, ""},
	} {
		if got := factOf(page, label); got.Value != want[0] || got.Note != want[1] {
			t.Errorf("%s: %q (%s), want %q (%s)", label, got.Value, got.Note, want[0], want[1])
		}
	}
	sparse := r
	sparse.tables = append([]runs.Table{{Name: "parameters", Rows: [][]string{{"body", "500"}, {"experts active", "100"}}}}, r.tables...)
	if got := factOf(newRunPage(sparse), "parameters"); got.Note != "607,936 of them act on a token, without the embedding" {
		t.Errorf("parameters of a mixture: %+v", got)
	}
	r.run.Step = 80
	if got := factOf(newRunPage(r), "trained on"); got.Note != "80 steps, the whole budget" {
		t.Errorf("at the end: %+v", got)
	}
}

func TestBestValidationIsSaidWhereTheLastIsWorse(t *testing.T) {
	at := func(values ...float64) []runs.Series {
		s := runs.Series{Name: "validation/loss"}
		for i, v := range values {
			s.Points = append(s.Points, runs.Point{Step: int64(i), Tokens: int64(i) * 150_000, Value: v})
		}
		return []runs.Series{{Name: "validation/loss/go", Points: []runs.Point{{Value: 1}}}, s}
	}
	nan := math.NaN()
	for _, c := range []struct {
		values []float64
		note   string
	}{
		{[]float64{5, 4, 3.2771, 3.3}, "; best 3.277 at 300k tokens"},
		{[]float64{5, 4, 3.2771, nan}, "; best 3.277 at 300k tokens"},
		{[]float64{5, 6}, "; best 5 at 0 tokens"},
		{[]float64{5, 4, 3.29, 3.3}, ""},
		{[]float64{5, 4}, ""},
		{[]float64{nan, nan}, ""},
	} {
		note := factOf(newRunPage(record{series: at(c.values...)}), "validation loss").Note
		if _, got, _ := strings.Cut(note, " tokens"); got != c.note {
			t.Errorf("%v: %q, want it to end in %q", c.values, note, c.note)
		}
	}
}

// Runs of earlier versions lack much of the provenance; what the tables hold stands in.
func TestHeaderOfAnOldRun(t *testing.T) {
	r := smallRecord()
	r.run.Provenance = map[string]string{"code_version": "unknown"}
	r.tables = append(r.tables, runs.Table{Name: "parameters", Columns: []string{"part", "parameters"},
		Rows: [][]string{{"body", "3,298,144"}, {"stored", "7,492,448"}, {"lonely"}}})
	page := newRunPage(r)
	if got := factOf(page, "parameters"); got.Value != "7,492,448" || !strings.HasPrefix(got.Note, "3,298,144 ") {
		t.Errorf("parameters %+v", got)
	}
	for _, label := range []string{"model", "speed"} {
		if got := factOf(page, label); got.Value != "" {
			t.Errorf("%s is made up: %+v", label, got)
		}
	}
	if got := factOf(page, "code"); got.Value != "unknown" || got.Note == "" {
		t.Errorf("code %+v", got)
	}
}
