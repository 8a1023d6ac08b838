package main

import (
	"bytes"
	"encoding/json"
	"math"
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
		State: runs.Interrupted, Message: "stopped\r\x1b[A", Steps: 100, Tokens: 102400, Validation: 3.25, BitsPerByte: 1.5, Unigram: 5.5,
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
	s := summary{Outcome: hostileOutcome(), program: "harness", ref: "01JD8Q4M00", where: " --store 'my store'", report: "/store/a b/report.html"}
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
		Validation any `json:"validation_loss_nats"`
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
	if got.State != "interrupted" || got.Validation != "NaN" || len(got.Scores) != 2 || got.Scores[0].Verdict != "above chance" || got.Scores[1].Verdict != "not told from chance" ||
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
