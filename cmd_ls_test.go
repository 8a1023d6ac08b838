package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/rivo/uniseg"

	"harness/runs"
)

func someRuns() []listedRun {
	score := func(name string, value, low, high float64) runs.Score {
		return runs.Score{Name: name, Value: value, Low: low, High: high, Chance: 0.1}
	}
	start := time.Unix(1e9, 0)
	return []listedRun{
		{Run: runs.Run{Name: "quickstart", State: runs.Finished, Step: 1758, Tokens: 1800192, Seed: 1, Created: start, Tags: []string{"quickstart"},
			Provenance: map[string]string{"steps": "1758", "parameters": "1101234"},
			Attempts:   []runs.Attempt{{Started: start, Ended: start.Add(100 * time.Second)}}}, ref: "01JD8Q4M00", validation: 3.1, speed: 18123,
			scores: []runs.Score{score("induct", 0.98, 0.9, 1), score("shift", 0.1, 0.05, 0.2), score("copy", 0.01, 0, 0.05)}},
		{Run: runs.Run{Name: "new", State: runs.Pending, Created: start}, ref: "01JD8Q4N00", validation: math.NaN(), speed: math.NaN()},
	}
}

func TestListGivesColumnsWayToWidth(t *testing.T) {
	var b bytes.Buffer
	for _, width := range []int{60, 80, 115, 120, unlimited} {
		var one bytes.Buffer
		writeRuns(&one, someRuns(), width)
		for line := range strings.Lines(one.String()) {
			if got := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); got > width {
				t.Errorf("%d columns in %d: %s", got, width, line)
			}
		}
		if width == unlimited { // how long ago it was depends on today
			header, _, _ := strings.Cut(one.String(), "\n")
			for _, name := range []string{"created", "tags", "tokens", "seed"} {
				if !strings.Contains(header, name) {
					t.Errorf("no %s in %q", name, header)
				}
			}
			continue
		}
		b.WriteString(one.String() + "\n")
	}
	golden(t, "ls.golden", b.String())

	var unprobed bytes.Buffer
	if writeRuns(&unprobed, someRuns()[1:], unlimited); strings.Contains(unprobed.String(), shortScoresKey) {
		t.Errorf("probes are explained where there are none: %s", unprobed.String())
	}
}

func TestNothingOfATableIsCut(t *testing.T) {
	meaning := "a meaning of many words that would not fit beside the rest of its row in a narrow terminal"
	rows := []table.Row{{"part", "1,234", meaning}}
	for _, width := range []int{30, 60, unlimited} {
		var b bytes.Buffer
		writeTable(&b, width, table.Row{"part", "parameters", "meaning"}, rows, "parameters")
		words := strings.Join(strings.Fields(b.String()), " ")
		for _, word := range strings.Fields(meaning) {
			if !strings.Contains(words, word) {
				t.Errorf("%d columns cut %q: %s", width, word, b.String())
			}
		}
		if lines := strings.Count(b.String(), "\n"); width == unlimited && lines != 2 {
			t.Errorf("%d lines where there is room", lines)
		}
	}
}
