package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"harness/experiments"
	"harness/runs"
)

// summary is what a run ends with on the screen.
type summary struct {
	*experiments.Outcome
	program string // how this program is called
	ref     string // what names the run in commands
	where   string // the flag that names the store in commands, "" where it goes without saying
	report  string // absolute path of its page; "" if none was written
	kept    bool   // the run is in its store
}

// withoutPage says why there is no page, and what there is nevertheless.
func (s summary) withoutPage(err error) string {
	switch {
	case s.kept:
		return fmt.Sprintf("the run is kept, its report is not written: %v; try: %s report %s --out FILE%s", err, s.program, s.ref, s.where)
	case errors.Is(err, runs.ErrNoStore) || errors.Is(err, runs.ErrNotFound):
		return fmt.Sprintf("run %s is not in its store any more: %v", s.ref, err)
	}
	return fmt.Sprintf("the report of run %s is not written: %v", s.ref, err)
}

// write prints the summary, no line wider than width but paths and commands. What
// matters most comes last, where a small terminal still shows it.
func (s summary) write(w io.Writer, width int) {
	o := s.Outcome
	if len(o.Generations) > 0 {
		fmt.Fprintln(w, "\ngenerations, greedy")
		writeGenerations(w, o.Generations, width)
	}
	if len(o.Samples) > 0 {
		fmt.Fprintln(w, "\nprobe samples")
		writeSamples(w, o.Samples, width)
	}
	ended, message := strings.ToUpper(string(o.State)), visible(o.Message)
	if rest, is := strings.CutPrefix(message, string(o.State)); is {
		ended, message = ended+rest, ""
	}
	fmt.Fprintf(w, "\n%s  %s  %s\n", visible(o.Run.Name), o.Run.ID, ended)
	if message != "" {
		fmt.Fprintln(w, message)
	}
	writeFacts(w, s.facts())
	if scores := outcomeScores(o); len(scores) > 0 {
		fmt.Fprintln(w)
		writeScores(w, scores, width)
	}
	fmt.Fprintln(w)
	writeFacts(w, s.files())
	fmt.Fprintln(w)
	if s.kept && o.Checkpoint != "" {
		fmt.Fprintf(w, "try it with  %s generate %s --prompt %s%s\n", s.program, s.ref, shellQuote(s.prompt()), s.where)
	}
	if s.kept && (o.State == runs.Interrupted || o.State == runs.Failed) {
		fmt.Fprintf(w, "go on with   %s resume %s%s\n", s.program, s.ref, s.where)
	}
}

// prompt is one that the model may know how to continue: the beginning of the
// first validation document.
func (s summary) prompt() string {
	if len(s.Generations) > 0 {
		if text := opening(s.Generations[0].Prompt); text != "" {
			return text
		}
	}
	return "The"
}

func (s summary) facts() [][2]string {
	o := s.Outcome
	var facts [][2]string
	if math.IsNaN(o.Validation) {
		facts = append(facts, [2]string{"validation loss", "not measured in this attempt"})
	} else {
		loss := nats(o.Validation) + " nats"
		if o.ValidatedAt != o.Steps {
			loss += " at step " + count(o.ValidatedAt)
		}
		loss += fmt.Sprintf(", perplexity %.4g", math.Exp(o.Validation))
		if !math.IsNaN(o.BitsPerByte) {
			loss += fmt.Sprintf(", %.4f bits/byte", o.BitsPerByte)
		}
		facts = append(facts, [2]string{"validation loss", loss})
	}
	unigram := nats(o.Unigram) + " nats"
	if below := o.Unigram - o.Validation; below >= 0 {
		unigram += fmt.Sprintf("; the loss is %s nats below", nats(below))
	} else if below < 0 {
		unigram += fmt.Sprintf("; the loss is %s nats ABOVE", nats(-below))
	}
	trained := fmt.Sprintf("%s tokens in %s steps", count(o.Tokens), count(o.Steps))
	if o.Steps == 0 {
		trained = "nothing: it ended before its first step"
	}
	if o.Epochs > 0 {
		trained += ", " + epochs(o.Epochs) + " epochs of the text"
	}
	facts = append(facts, [2]string{"unigram entropy", unigram}, [2]string{"trained on", trained})
	if o.TrainSpeed > 0 {
		facts = append(facts, [2]string{"speed", count(int64(o.TrainSpeed)) + " tokens/s"})
	}
	if all, active := parameters(o.Run); all > 0 {
		facts = append(facts, [2]string{"model", fmt.Sprintf("%s parameters, %s active without the embedding", count(all), count(active))})
	}
	if len(o.Run.Attempts) == 0 { // the store could not say
		return facts
	}
	facts = append(facts, [2]string{"machine", machine(o.Run.Attempts[len(o.Run.Attempts)-1])})
	took := duration(wallTime(o.Run))
	if n := len(o.Run.Attempts); n > 1 {
		took += fmt.Sprintf(" in %d attempts", n)
	}
	return append(facts, [2]string{"time", took})
}

// epochs has two digits after the point, or two at all where those would say little.
func epochs(v float64) string {
	if v < 0.1 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// parameters are those stored and those that act on a token besides the embedding, 0 where they are not known.
func parameters(r runs.Run) (all, active int64) {
	read := func(key string) int64 {
		n, err := strconv.ParseInt(r.Provenance[key], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return read("parameters"), cmp.Or(read("active_parameters"), read("body_parameters"))
}

// machine is what an attempt ran on.
func machine(a runs.Attempt) string {
	if a.Core < 0 {
		return "kernels " + a.Kernels + ", no core of its own"
	}
	return fmt.Sprintf("kernels %s, core %d", a.Kernels, a.Core)
}

func (s summary) files() [][2]string {
	facts := [][2]string{{"checkpoint", "none"}}
	if s.Checkpoint != "" {
		facts = [][2]string{{"checkpoint", fromHere(s.Checkpoint)}}
	}
	if s.Weights != "" {
		facts = append(facts, [2]string{"weights", fmt.Sprintf("sha256 %.16s…", s.Weights)})
	}
	if s.report != "" {
		facts = append(facts, [2]string{"report", fromHere(s.report)})
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
