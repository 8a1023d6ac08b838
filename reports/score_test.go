package reports

import (
	"math"
	"strings"
	"testing"

	"harness/runs"
)

func TestScoresAreTheNewestInTheOrderOfTheRecord(t *testing.T) {
	page := newRunPage(smallRecord())
	if len(page.Scores) != 2 || page.Scores[0].Name != "shift" || page.Scores[1].Name != "add" {
		t.Fatalf("scores %+v, want shift before add, as recorded", page.Scores)
	}
	shift, add := page.Scores[0], page.Scores[1]
	if shift.Step != 40 || shift.Figure() != "80.0%" || shift.Guessing() != "7.1%" || shift.Interval() != "76.0% to 83.0%" {
		t.Errorf("shift at step %d: %s, chance %s, interval %s", shift.Step, shift.Figure(), shift.Guessing(), shift.Interval())
	}
	if shift.Verdict() != "above chance" || add.Verdict() != "not told from chance" {
		t.Errorf("verdicts %q and %q", shift.Verdict(), add.Verdict())
	}
	unknown := ScoreRow{Score: runs.Score{Value: math.NaN(), Low: math.NaN(), High: 1, Chance: 0.1}}
	if unknown.Figure() != "unknown" || unknown.Interval() != "unknown" || scoreBar(unknown) != "" {
		t.Errorf("an unknown score is told: %q, %q", unknown.Figure(), unknown.Interval())
	}
	if nats := (ScoreRow{Score: runs.Score{Value: 0.5, Unit: "nats"}}); nats.Figure() != "0.500 nats" {
		t.Errorf("a score in nats is told as %q", nats.Figure())
	}
}

func TestTasksSayWhatTheyAsk(t *testing.T) {
	asks := taskQuestions(`
corpus:
  tasks:
    - {name: short, kind: induct, min: 2, max: 4}
    - {name: seven, kind: induct, min: 7, max: 7}
    - {name: add, kind: before, min: 0, max: 0}
    - {name: other, kind: sort}
`)
	for name, want := range map[string]string{
		"short": "pairs, then a key: its value (2 to 4 pairs)", "seven": "pairs, then a key: its value (7 pairs)",
		"add": question("before"), "shift": question("shift"), "other": "",
	} {
		if asks[name] != want {
			t.Errorf("%s asks %q, want %q", name, asks[name], want)
		}
	}
	if broken := taskQuestions("a: [b"); broken["copy"] != question("copy") {
		t.Errorf("without a spec copy asks %q", broken["copy"])
	}
	if rows := newRunPage(smallRecord()).Scores; rows[0].Asks == "" || !strings.Contains(rows[0].Asks, "6 words") {
		t.Errorf("shift asks %q", rows[0].Asks)
	}
}

// On a phone each score is a block: nothing is left of the columns' heads there, so
// every figure carries its own label.
func TestScoreFiguresAreLabelledWithoutTheHead(t *testing.T) {
	root := parsePage(t, renderPage(t, newRunPage(smallRecord()), Assets{}))
	table := byClass(root, "table", "scores")[0]
	cells := elements(table, "td")
	if len(cells) == 0 {
		t.Fatal("no scores")
	}
	for _, cell := range cells {
		if attribute(cell, "data-label") == "" && attribute(cell, "class") != "picture" {
			t.Errorf("cell %q has no label", textOf(cell))
		}
	}
	if bar := byClass(table, "path", "interval"); len(bar) != 2 {
		t.Errorf("%d intervals are drawn, want 2", len(bar))
	}
}
