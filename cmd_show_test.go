package main

import (
	"bytes"
	"strings"
	"testing"

	"harness/runs"
)

func TestShowSaysTheBestLossAndExplainsGenerations(t *testing.T) {
	said := func(v runView) string {
		var b bytes.Buffer
		v.write(&b, 80)
		return b.String()
	}
	v := runView{program: "harness", run: runs.Run{ID: "01JD8Q4M00"}, latest: []metric{{"validation/loss", "nats", 1170, 3.29991}},
		best: runs.Point{Tokens: 300_000, Value: 3.2771}, hasBest: true,
		generations: []runs.Generation{{Scores: map[string]float64{"distinct": 0.1, "reference top-1": 0.4}}}}
	full := said(v)
	if !strings.Contains(full, "  validation loss  3.2999 nats; best 3.277 at 300k tokens\n") {
		t.Errorf("the best loss is not said: %s", full)
	}
	if words := strings.Join(strings.Fields(full), " "); !strings.Contains(words, "(near 0: a loop); reference nats/token and top-1: loss and accuracy on the true continuation") {
		t.Errorf("the scores are not explained: %s", full)
	}
	for line := range strings.Lines(full) {
		if len(line) > 81 {
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
	v.hasBest, v.generations[0].Scores = false, nil
	if plain := said(v); strings.Contains(plain, "best") || strings.Contains(plain, "a loop") {
		t.Errorf("said without a reason: %s", plain)
	}
}
