package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rivo/uniseg"

	"harness/experiments"
	"harness/runs"
)

// hostileOutcome is a run whose name, message and generations try everything.
func hostileOutcome() *experiments.Outcome {
	start := time.Unix(1e9, 0)
	o := &experiments.Outcome{
		Run: runs.Run{ID: "01JD8Q4M000000000000000000", Name: "evil\x1b[2J", Tags: []string{"a"}, Provenance: map[string]string{"steps": "200", "parameters": "1234567", "body_parameters": "234567"},
			Attempts: []runs.Attempt{{Number: 1, Started: start, Ended: start.Add(65 * time.Second)}, {AttemptInfo: runs.AttemptInfo{Kernels: "avx2", Core: 3}, Number: 2, Started: start, Ended: start.Add(5 * time.Second)}}},
		State: runs.Interrupted, Message: "stopped\r\x1b[A", Steps: 100, Tokens: 102400, Validation: 3.25, ValidatedAt: 90, Epochs: 1.527, BitsPerByte: 1.5, Unigram: 5.5,
		Checkpoint: "/store/runs/01JD/checkpoints/step-100.safetensors", Weights: strings.Repeat("ab", 32), TrainSpeed: 12345.6,
		Generations: []runs.Generation{
			{Prompt: strings.Repeat("prompt ", 40) + hostile, Text: hostile + strings.Repeat(" and on", 40), Reference: "short\n",
				Scores: map[string]float64{"distinct": 0.25, "reference nats/token": math.Inf(1), "x\x1b]": math.NaN()}},
			{Prompt: "", Text: "", Scores: nil},
		},
	}
	o.Samples = []experiments.Sample{
		{Task: "shift\x1b[31m", Prompt: strings.Repeat("a│", 60) + hostile, Answer: "b", Expected: "b", Right: true},
		{Task: "copy", Prompt: "x│y", Answer: hostile, Expected: "y\n"},
	}
	o.Scores = twoOf(o.Scores)
	first, second := &o.Scores[0], &o.Scores[1]
	first.Task, first.Correct, first.N, first.Low, first.High, first.Chance, first.Seed = "shift\x1b[31m", 90, 100, 0.825, 0.945, 0.1, 7
	second.Task, second.Correct, second.N, second.Low, second.High, second.Chance, second.Seed = "copy", 15, 100, 0.09, 0.233, 0.1, 7
	return o
}

// twoOf makes two of what a slice holds: main does not import the package that names it.
func twoOf[T any]([]T) []T { return make([]T, 2) }

func TestSummary(t *testing.T) {
	s := summary{Outcome: hostileOutcome(), program: "harness", ref: "01JD8Q4M00", where: " --store 'my store'", report: "/store/a b/report.html", kept: true}
	var b bytes.Buffer
	s.write(&b, 80)
	golden(t, "summary.golden", b.String())
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		if uniseg.StringWidth(line) > 80 && !strings.HasPrefix(line, "try it with ") { // a command stays whole
			t.Errorf("wider than 80 columns: %s", line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf) }) {
			t.Errorf("a control comes through: %q", line)
		}
	}
}

func TestVerdictInWords(t *testing.T) {
	for _, c := range []struct {
		low, high, chance float64
		want, short       string
	}{
		{0.11, 0.95, 0.1, "above chance", "shift:90+"},
		{0.1, 0.95, 0.1, "not told from chance", "shift:90="},
		{0.01, 0.05, 0.1, "below chance", "shift:90-"},
		{math.NaN(), 0.95, 0.1, "unknown", "shift:90?"},
		{0.5, 0.95, math.NaN(), "unknown", "shift:90?"},
	} {
		s := runs.Score{Name: "shift", Value: 0.9, Low: c.low, High: c.high, Chance: c.chance}
		if got := verdict(s); got != c.want {
			t.Errorf("interval %g to %g against chance %g: %s", c.low, c.high, c.chance, got)
		}
		if got := shortScores([]runs.Score{s}); got != c.short {
			t.Errorf("in short: %q, want %q", got, c.short)
		}
	}
}

func TestSummaryAsJSON(t *testing.T) {
	o := hostileOutcome()
	o.Validation = math.NaN()
	var b bytes.Buffer
	if err := writeJSON(&b, summary{Outcome: o, report: "/store/a b/report.html"}.json()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		State      string
		Validation any   `json:"validation_loss_nats"`
		At         int64 `json:"validation_step"`
		Epochs     float64
		Scores     []struct {
			Task, Verdict string
		}
		Samples []struct {
			Answer string
			Right  bool
		} `json:"probe_samples"`
		URL         string `json:"report_url"`
		Generations []struct {
			Text   string
			Scores map[string]any
		}
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.State != "interrupted" || got.At != 90 || got.Epochs != 1.527 || got.Validation != "NaN" || len(got.Scores) != 2 || got.Scores[0].Verdict != "above chance" || got.Scores[1].Verdict != "not told from chance" ||
		len(got.Samples) != 2 || !got.Samples[0].Right || got.URL != "file:///store/a%20b/report.html" {
		t.Errorf("%+v", got)
	}
	if len(got.Generations) != 2 || got.Generations[0].Scores["reference nats/token"] != "+Inf" {
		t.Errorf("%+v", got.Generations)
	}
	if want := strings.ToValidUTF8(hostile, "\ufffd\ufffd"); !strings.HasPrefix(got.Generations[0].Text, want) {
		t.Errorf("JSON alters the text: %q", got.Generations[0].Text)
	}
	if strings.ContainsFunc(b.String(), func(r rune) bool { return r != '\n' && unicode.Is(unicode.Cc, r) }) {
		t.Error("a control comes through in JSON")
	}
}

func TestSummarySaysTheStepOfAnEarlierValidationOnly(t *testing.T) {
	o := hostileOutcome()
	o.ValidatedAt, o.Epochs = o.Steps, 0.00412
	var b bytes.Buffer
	summary{Outcome: o, program: "harness"}.write(&b, 80)
	if strings.Contains(b.String(), "at step") || !strings.Contains(b.String(), " in 100 steps, 0.0041 epochs of the text\n") {
		t.Error(b.String())
	}
}

func TestOutcomeError(t *testing.T) {
	for state, code := range map[runs.State]int{runs.Finished: 0, runs.Diverged: exitDiverged, runs.Interrupted: exitInterrupted} {
		err := outcomeError(summary{Outcome: &experiments.Outcome{State: state}})
		if got := 0; err != nil {
			if got = exitCode(t.Context(), err); got != code {
				t.Errorf("%s: exit code %d, want %d", state, got, code)
			}
		} else if code != 0 {
			t.Errorf("%s is no error", state)
		}
	}
}

func TestFailedRunPromisesNothing(t *testing.T) {
	o := hostileOutcome()
	o.State, o.Message, o.Steps, o.Tokens, o.Checkpoint, o.Weights = runs.Failed, "no space left", 0, 0, "", ""
	o.Run.Attempts = nil
	said := func(s summary) string {
		var b bytes.Buffer
		s.write(&b, 80)
		return b.String()
	}
	gone := said(summary{Outcome: o, program: "harness", ref: "01JD8Q4M00"})
	for _, unwanted := range []string{"0 tokens", "resume", "generate ", "  time ", "machine"} {
		if strings.Contains(gone, unwanted) {
			t.Errorf("a run that is not in its store promises %q: %s", unwanted, gone)
		}
	}
	if !strings.Contains(gone, "trained on       nothing") {
		t.Errorf("what it trained on: %s", gone)
	}
	o.Steps, o.Tokens = 7, 700
	if kept := said(summary{Outcome: o, program: "harness", ref: "01JD8Q4M00", kept: true}); !strings.Contains(kept, "harness resume 01JD8Q4M00") || !strings.Contains(kept, "700 tokens in 7 steps") {
		t.Errorf("a run that is kept: %s", kept)
	}
}

func TestWhatIsGoneIsNotOffered(t *testing.T) {
	dir := storeOf(t, "a")
	s, err := runs.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kept, err := s.Find(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	removed := kept
	removed.ID = "01JD8Q4M000000000000000000"
	for _, c := range []struct {
		run            runs.Run
		resume, warned bool
	}{{kept, true, false}, {removed, false, true}} {
		var stdout, stderr bytes.Buffer
		root := newRoot(&cli{})
		root.SetContext(t.Context())
		root.SetOut(&stdout)
		root.SetErr(&stderr)
		err := (&cli{store: dir, program: "harness"}).train(root, ending{noReport: true}, experiments.Options{}, func(context.Context, experiments.Options) (*experiments.Outcome, error) {
			return &experiments.Outcome{Run: c.run, State: runs.Failed, Checkpoint: filepath.Join(dir, "step-7")}, errors.New("no space left")
		})
		if err == nil || strings.Contains(stdout.String(), "step-7") || strings.Contains(stdout.String(), "try it with") || strings.Contains(stdout.String(), "harness resume") != c.resume {
			t.Errorf("%v: %s", err, stdout.String())
		}
		if strings.Contains(stderr.String(), "not in its store any more") != c.warned || strings.Contains(stderr.String(), "is kept") {
			t.Errorf("warnings: %q", stderr.String())
		}
	}
}

func TestLostMetricsAreSaidAsTheyAre(t *testing.T) {
	for state, want := range map[runs.State]string{
		runs.Finished:    "training is finished, but not all metrics of run x are stored: disk full",
		runs.Failed:      "not all metrics of run x are stored: disk full",
		runs.Diverged:    "run x diverged: at step 3; not all metrics of run x are stored: disk full",
		runs.Interrupted: "run x at step 3; not all metrics of run x are stored: disk full",
	} {
		err := outcomeError(summary{Outcome: &experiments.Outcome{State: state, Message: "at step 3", Tracking: errors.New("disk full")}, ref: "x"})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", state, err, want)
		}
	}
}

func TestWhyThereIsNoPage(t *testing.T) {
	s := summary{Outcome: &experiments.Outcome{}, program: "harness", ref: "x"}
	for want, err := range map[string]error{"not in its store any more": runs.ErrNotFound, "the report of run x is not written": runs.ErrCorrupt} {
		if got := s.withoutPage(err); !strings.Contains(got, want) || strings.Contains(got, "kept") {
			t.Errorf("%v: %s", err, got)
		}
	}
	s.kept = true
	if got := s.withoutPage(runs.ErrCorrupt); !strings.Contains(got, "the run is kept") {
		t.Error(got)
	}
}

func TestInterruptIsSaidOnce(t *testing.T) {
	o := hostileOutcome()
	o.Message = "interrupted after step 100 of 200"
	var b bytes.Buffer
	summary{Outcome: o, program: "harness"}.write(&b, 80)
	if got := strings.Count(strings.ToLower(b.String()), "interrupted"); got != 1 || !strings.Contains(b.String(), "  INTERRUPTED after step 100 of 200\n") {
		t.Errorf("said %d times: %s", got, b.String())
	}
}

func TestOpening(t *testing.T) {
	for prompt, want := range map[string]string{
		"":                                "",
		"<|bos|>\n\n  func main() {\n\tx": "func main() {",
		"<|bos|>one<|mark|>two":           "one",
		"// Copyright 2009 The Go Authors. All rights reserved.": "// Copyright 2009 The Go Authors. All",
		strings.Repeat("x", 60):                                  strings.Repeat("x", 40),
		"a\x1b[2J":                                               "a",
		"half \ufffd":                                            "half",
	} {
		if got := opening(prompt); got != want {
			t.Errorf("opening(%q) = %q, want %q", prompt, got, want)
		}
	}
	if got := shellQuote("it's"); got != `'it'\''s'` {
		t.Errorf("quoted: %s", got)
	}
}

func TestCommandName(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/bin/harness":                          "harness",
		"/tmp/go-build2492521509/b001/exe/harness":  "go run .",
		"/root/.cache/go-build/ab/abcd-d/harness":   "go run .",
		"/tmp/go-build2492521509/b001/harness.test": "harness",
		"/home/go-builder/harness":                  "harness",
	} {
		if got := commandName(path); got != want {
			t.Errorf("%s is called as %s, want %s", path, got, want)
		}
	}
}
