package reports

import (
	"math"
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
	if got := factOf(page, "unigram entropy"); got.Value != "6.052 nats" || got.Note != "loss is 0.55 below" {
		t.Errorf("unigram entropy %+v", got)
	}
	r.series = append(r.series, runs.Series{Name: "validation/unigram", Unit: "nats", Points: []runs.Point{{Value: 5}}})
	if got := factOf(newRunPage(r), "unigram entropy"); got.Value != "5 nats" || got.Note != "loss is 0.50 above" {
		t.Errorf("unigram entropy %+v, want the metric before the table", got)
	}
	if page.Problem != "loss is NaN at step 40" || factOf(page, "took").Value != "2m11s" {
		t.Errorf("problem %q, took %+v", page.Problem, factOf(page, "took"))
	}
}

func TestScoresAreTheNewestBesideChance(t *testing.T) {
	page := newRunPage(smallRecord())
	if len(page.Scores) != 2 || page.Scores[0].Name != "add" || page.Scores[1].Step != 40 {
		t.Fatalf("scores %+v", page.Scores)
	}
	if got := page.Scores[0].Verdict(); got != "may be chance" {
		t.Errorf("add at 0.012 with chance 0.010: %q", got)
	}
	if got := page.Scores[1].Verdict(); got != "above chance" {
		t.Errorf("shift: %q", got)
	}
	below := ScoreRow{Value: 0.01, Low: 0, High: 0.02, Chance: 0.07}
	if got := below.Verdict(); got != "below chance" {
		t.Errorf("below chance: %q", got)
	}
	unknown := ScoreRow{Value: math.NaN(), Low: math.NaN(), High: 1, Chance: 0.1}
	if unknown.Verdict() != "" || unknown.Interval() != "unknown" || scoreBar(unknown) != "" {
		t.Errorf("an unknown score is judged: %q, %q", unknown.Verdict(), unknown.Interval())
	}
}

func TestTablesShowTheNewestAndKeepTheOlder(t *testing.T) {
	page := newRunPage(smallRecord())
	if len(page.Tables) != 2 || page.Tables[1].Title != "participation" || page.Tables[1].Note != "at step 40" {
		t.Fatalf("tables %+v", page.Tables)
	}
	if older := page.Tables[1].Older; len(older) != 1 || older[0].Note != "at step 20" {
		t.Errorf("older %+v", older)
	}
	if n := page.Tables[1].Numeric; n[0] || !n[1] {
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
