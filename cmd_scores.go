package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"harness/experiments"
	"harness/runs"
)

// outcomeScores are the last scores of a run as the store keeps them.
func outcomeScores(o *experiments.Outcome) []runs.Score {
	var scores []runs.Score
	for _, r := range o.Scores {
		scores = append(scores, runs.Score{Step: o.Steps, Tokens: o.Tokens, Name: r.Task, Value: r.Accuracy(),
			Low: r.Low, High: r.High, Chance: r.Chance, N: r.N, Seed: r.Seed})
	}
	return scores
}

// verdict is what a score shows, in words.
func verdict(s runs.Score) string {
	if v := s.Verdict(); v != "" {
		return v
	}
	return "unknown"
}

// writeScores prints one row per task, in the order given, with its verdict.
func writeScores(w io.Writer, scores []runs.Score, width int) {
	percent := func(v float64) string {
		if math.IsNaN(v) {
			return "unknown"
		}
		return fmt.Sprintf("%.1f%%", 100*v)
	}
	var rows []table.Row
	for _, s := range scores {
		rows = append(rows, table.Row{visible(s.Name), percent(s.Value), percent(s.Low) + " to " + percent(s.High),
			percent(s.Chance), count(int64(s.N)), s.Seed, verdict(s)})
	}
	writeTable(w, width, table.Row{"task", "accuracy", "95% interval", "chance", "n", "seed", "verdict"}, rows,
		"accuracy", "95% interval", "chance", "n", "seed")
}

// shortScores is a run's scores in a line that may break between tasks only:
// percent, and a sign for the verdict.
func shortScores(scores []runs.Score) string {
	var parts []string
	for _, s := range scores {
		sign := "?"
		switch v := s.Verdict(); {
		case strings.HasPrefix(v, "above"):
			sign = "+"
		case strings.HasPrefix(v, "below"):
			sign = "-"
		case v != "":
			sign = "="
		}
		parts = append(parts, fmt.Sprintf("%s:%.0f%s", visible(s.Name), 100*s.Value, sign))
	}
	return strings.Join(parts, " ")
}

// shortScoresKey explains shortScores.
const shortScoresKey = "probes: percent; + above chance, - below it, = not told from it, ? unknown"

// writeGenerations prints what a model wrote below its scores and beside what the
// corpus says. Prompts lose their beginning and texts their end where they are long.
func writeGenerations(w io.Writer, generations []runs.Generation, width int) {
	const label = len("    reference  ")
	for _, g := range generations {
		var scores []string
		for _, name := range slices.Sorted(maps.Keys(g.Scores)) {
			scores = append(scores, visible(name)+" "+strconv.FormatFloat(g.Scores[name], 'g', 3, 64))
		}
		if len(scores) == 0 {
			scores = []string{"no score"}
		}
		fmt.Fprintf(w, "  %s\n", shorten(strings.Join(scores, ", "), width-2))
		fmt.Fprintf(w, "    prompt     %s\n", shortenLeft(orNothing(visible(g.Prompt)), width-label))
		fmt.Fprintf(w, "    model      %s\n", shorten(orNothing(visible(g.Text)), width-label))
		if g.Reference != "" {
			fmt.Fprintf(w, "    reference  %s\n", shorten(visible(g.Reference), width-label))
		}
	}
}

func orNothing(s string) string {
	if s == "" {
		return "(nothing)"
	}
	return s
}

// writeSamples prints how a model answered single prompts of probes, one a line.
// Prompts lose their beginning: the question is at the end.
func writeSamples(w io.Writer, samples []experiments.Sample, width int) {
	wide := 0
	for _, s := range samples {
		wide = max(wide, len([]rune(visible(s.Task))))
	}
	for _, s := range samples {
		mark, answer := "wrong", strconv.Quote(visible(s.Answer))
		if s.Right {
			mark = "right"
		} else {
			answer += " instead of " + strconv.Quote(visible(s.Expected))
		}
		head := fmt.Sprintf("  %s  %-*s  ", mark, wide, visible(s.Task))
		answer = " → " + answer
		room := max(width/4, width-len([]rune(head+answer)))
		fmt.Fprintln(w, shorten(head+shortenLeft(orNothing(visible(s.Prompt)), room)+answer, width))
	}
}
