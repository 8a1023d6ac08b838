package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"harness/experiments"
	"harness/runs"
)

// summary is what a run ends with on the screen.
type summary struct {
	*experiments.Outcome
	ref    string // what names the run in commands
	where  string // the flag that names the store in commands, "" where it goes without saying
	report string // absolute path of its page; "" if none was written
}

// write prints the summary, no line wider than width but paths and commands.
func (s summary) write(w io.Writer, width int) {
	o := s.Outcome
	fmt.Fprintf(w, "\n%s  %s  %s\n", visible(o.Run.Name), o.Run.ID, strings.ToUpper(string(o.State)))
	if o.Message != "" {
		fmt.Fprintf(w, "%s\n", visible(o.Message))
	}
	fmt.Fprintln(w)
	writeFacts(w, s.facts())
	scores := outcomeScores(o)
	if len(scores) > 0 {
		fmt.Fprintln(w)
		writeScores(w, scores, width)
	}
	if len(o.Generations) > 0 {
		fmt.Fprintln(w)
		fmt.Fprintln(w, "  generations, greedy")
		writeGenerations(w, o.Generations, width)
	}
	fmt.Fprintln(w)
	writeFacts(w, s.files())
	fmt.Fprintln(w)
	if o.State == runs.Interrupted || o.State == runs.Failed {
		fmt.Fprintf(w, "go on with   harness resume %s%s\n", s.ref, s.where)
	}
	if o.Checkpoint != "" {
		fmt.Fprintf(w, "try it with  harness generate %s --prompt \"The\"%s\n", s.ref, s.where)
	}
}

func (s summary) facts() [][2]string {
	o := s.Outcome
	var facts [][2]string
	if math.IsNaN(o.Validation) {
		facts = append(facts, [2]string{"validation loss", "not measured in this attempt"})
	} else {
		facts = append(facts, [2]string{"validation loss", fmt.Sprintf("%s nats   perplexity %.4g", nats(o.Validation), math.Exp(o.Validation))})
	}
	unigram := nats(o.Unigram) + " nats"
	if below := o.Unigram - o.Validation; below >= 0 {
		unigram += fmt.Sprintf("   the loss is %s nats below", nats(below))
	} else if below < 0 {
		unigram += fmt.Sprintf("   the loss is %s nats ABOVE", nats(-below))
	}
	facts = append(facts, [2]string{"unigram entropy", unigram},
		[2]string{"trained on", fmt.Sprintf("%s tokens in %s steps", count(o.Tokens), count(o.Steps))})
	if o.TrainSpeed > 0 {
		facts = append(facts, [2]string{"speed", count(int64(o.TrainSpeed)) + " tokens/s, of training alone"})
	}
	took := duration(wallTime(o.Run))
	if n := len(o.Run.Attempts); n > 1 {
		took += fmt.Sprintf(" in %d attempts", n)
	}
	return append(facts, [2]string{"time", took})
}

func (s summary) files() [][2]string {
	checkpoint := s.Checkpoint
	if checkpoint == "" {
		checkpoint = "none"
	}
	facts := [][2]string{{"checkpoint", checkpoint}}
	if s.Weights != "" {
		facts = append(facts, [2]string{"weights", "sha256 " + s.Weights})
	}
	if s.report != "" {
		facts = append(facts, [2]string{"report", s.report}, [2]string{"", fileURL(s.report)})
	}
	return facts
}

// wallTime adds up a run's attempts; one without an end counts to its last heartbeat.
func wallTime(r runs.Run) time.Duration {
	var total time.Duration
	for _, a := range r.Attempts {
		total += attemptTime(a)
	}
	return total
}

func attemptTime(a runs.Attempt) time.Duration {
	end := a.Ended
	if end.IsZero() {
		end = a.Heartbeat
	}
	return max(0, end.Sub(a.Started))
}

func fileURL(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// writeFacts prints labels and values in two columns.
func writeFacts(w io.Writer, facts [][2]string) {
	wide := 0
	for _, f := range facts {
		wide = max(wide, len(f[0]))
	}
	for _, f := range facts {
		fmt.Fprintf(w, "  %-*s  %s\n", wide, f[0], visible(f[1]))
	}
}

// outcomeScores are the last scores of a run as the store keeps them.
func outcomeScores(o *experiments.Outcome) []runs.Score {
	var scores []runs.Score
	for _, r := range o.Scores {
		scores = append(scores, runs.Score{Step: o.Steps, Tokens: o.Tokens, Name: r.Task, Value: r.Accuracy(),
			Low: r.Low, High: r.High, Chance: r.Chance, N: r.N, Seed: r.Seed})
	}
	return scores
}

// aboveChance holds only where the whole interval does: a model that guesses well
// once has shown nothing.
func aboveChance(s runs.Score) bool { return s.Low > s.Chance }

// writeScores prints one row per task, with its verdict.
func writeScores(w io.Writer, scores []runs.Score, width int) {
	percent := func(v float64) string {
		if math.IsNaN(v) {
			return "unknown"
		}
		return fmt.Sprintf("%.1f%%", 100*v)
	}
	var rows []table.Row
	for _, s := range scores {
		verdict := "not shown"
		if aboveChance(s) {
			verdict = "above chance"
		}
		rows = append(rows, table.Row{visible(s.Name), percent(s.Value), percent(s.Low) + " to " + percent(s.High),
			percent(s.Chance), count(int64(s.N)), s.Seed, verdict})
	}
	writeTable(w, width, table.Row{"probe", "accuracy", "95% interval", "chance", "n", "seed", "verdict"}, rows,
		"accuracy", "95% interval", "chance", "n", "seed")
}

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
