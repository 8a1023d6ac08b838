package reports

import (
	"math"
	"strings"
	"testing"

	"harness/runs"
)

func factOf(page RunPage, label string) Fact {
	for _, f := range page.Facts {
		if f.Label == label {
			return f
		}
	}
	return Fact{}
}

func TestHeaderComparesLossWithUnigramEntropy(t *testing.T) {
	r := smallRecord()
	r.series = append(r.series, runs.Series{Name: "validation/loss/go", Points: []runs.Point{{Value: 1}}})
	page := newRunPage(r)
	if got := factOf(page, "validation loss"); got.Value != "5.5 nats" || got.Note != "last, at 40,960 tokens" {
		t.Errorf("validation loss %+v, want the overall one", got)
	}
	if got := factOf(page, "unigram entropy"); got.Value != "6.052 nats" || !strings.HasPrefix(got.Note, "the loss is 0.55 below; cross-entropy of the same validation text") {
		t.Errorf("unigram entropy %+v", got)
	}
	r.series = append(r.series, runs.Series{Name: "validation/unigram", Unit: "nats", Points: []runs.Point{{Value: 5}}})
	if got := factOf(newRunPage(r), "unigram entropy"); got.Value != "5 nats" || !strings.HasPrefix(got.Note, "the loss is 0.50 above; ") {
		t.Errorf("unigram entropy %+v, want the metric before the table", got)
	}
	if page.Problem != "loss is NaN at step 40" || factOf(page, "time").Value != "2m11s" {
		t.Errorf("problem %q, time %+v", page.Problem, factOf(page, "time"))
	}
}

func TestTablesShowTheNewestAndKeepTheOlder(t *testing.T) {
	page := newRunPage(smallRecord())
	if len(page.Inputs) != 1 || page.Inputs[0].Title != "corpus" || len(page.Tables) != 1 || page.Tables[0].Note != "at step 40" {
		t.Fatalf("inputs %+v, tables %+v", page.Inputs, page.Tables)
	}
	if older := page.Tables[0].Older; len(older) != 1 || older[0].Note != "at step 20" {
		t.Errorf("older %+v", older)
	}
	if n := page.Tables[0].Numeric; n[0] || !n[1] {
		t.Errorf("numeric columns %v, want the second", n)
	}
}

func TestNumbersArePrintedAsWhatTheyAre(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 4.31934: "4.319", 3e-4: "3e-4", -2.5e-7: "-2.5e-7", 29400.4: "29,400", 999.96: "1000", 1.5e18: "1.5e18",
		math.Inf(1): "+Inf", math.Inf(-1): "-Inf", 0.5: "0.5",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%g) = %q, want %q", v, got, want)
		}
	}
	if got := number(math.NaN()); got != "NaN" {
		t.Errorf("number(NaN) = %q", got)
	}
	for v, want := range map[float64]string{0: "0", 1.5e6: "1.5M", 2000: "2k", 3e9: "3B", 0.25: "0.25", 5e-4: "5e-4", -1e6: "-1M", 1e13: "1e13"} {
		if got := tick(v); got != want {
			t.Errorf("tick(%g) = %q, want %q", v, got, want)
		}
	}
}

func TestVisibleHidesNothing(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\n": "plain\ttext\n", "a\r\nb\rc": "a\nb\u240dc", "\x00\x1b\x7f": "\u2400\u241b\u2421",
		"\xff": "\ufffd", "\u0085": "\ufffd", "\u2028é": "\u2028é",
	} {
		if got := visible(text); got != want {
			t.Errorf("visible(%q) = %q, want %q", text, got, want)
		}
	}
}
