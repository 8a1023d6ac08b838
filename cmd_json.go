package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"harness/experiments"
	"harness/runs"
)

// number is a float that JSON can hold whatever its value: NaN and the infinities
// are strings, "NaN", "+Inf" and "-Inf".
type number float64

// MarshalJSON writes a finite value as a number and another as a string.
func (n number) MarshalJSON() ([]byte, error) {
	f := float64(n)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return json.Marshal(strconv.FormatFloat(f, 'g', -1, 64))
	}
	return json.Marshal(f)
}

// writeJSON prints a value, indented. Control characters that JSON leaves alone are
// escaped, since the reader may be a terminal.
func writeJSON(w io.Writer, value any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return fmt.Errorf("encode the result as JSON: %w", err)
	}
	var out bytes.Buffer
	for _, r := range text.String() {
		if r >= 0x7f && r < 0xa0 {
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// timeOrNone is nil for the zero time.
func timeOrNone(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

type runJSON struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	State      string    `json:"state"`
	Step       int64     `json:"step"`
	Steps      int64     `json:"steps,omitempty"` // of the whole budget
	Tokens     int64     `json:"tokens"`
	Validation number    `json:"validation_loss_nats"`
	Parameters int64     `json:"parameters,omitempty"`
	Active     int64     `json:"active_parameters,omitempty"` // besides embedding rows
	Created    time.Time `json:"created"`
	Tags       []string  `json:"tags"`
}

func newRunJSON(r runs.Run, validation float64) runJSON {
	all, active := parameters(r)
	return runJSON{ID: r.ID, Name: r.Name, State: string(r.State), Step: r.Step, Steps: totalSteps(r), Tokens: r.Tokens,
		Validation: number(validation), Parameters: all, Active: active, Created: r.Created, Tags: append([]string{}, r.Tags...)}
}

type attemptJSON struct {
	Number   int        `json:"number"`
	State    string     `json:"state"`
	Message  string     `json:"message,omitempty"`
	FromStep int64      `json:"from_step"`
	Step     int64      `json:"step"`
	Started  time.Time  `json:"started"`
	Ended    *time.Time `json:"ended"`
	Host     string     `json:"host"`
	PID      int        `json:"pid"`
	Core     int        `json:"core"`
	Kernels  string     `json:"kernels"`
	Command  string     `json:"command"`
}

type scoreJSON struct {
	Step    int64  `json:"step"`
	Task    string `json:"task"`
	Value   number `json:"value"`
	Low     number `json:"low"`
	High    number `json:"high"`
	Chance  number `json:"chance"`
	N       int    `json:"n"`
	Seed    int64  `json:"seed"`
	Verdict string `json:"verdict"`
}

func scoresJSON(scores []runs.Score) []scoreJSON {
	out := []scoreJSON{}
	for _, s := range scores {
		out = append(out, scoreJSON{Step: s.Step, Task: s.Name, Value: number(s.Value), Low: number(s.Low), High: number(s.High),
			Chance: number(s.Chance), N: s.N, Seed: s.Seed, Verdict: verdict(s)})
	}
	return out
}

type generationJSON struct {
	Step      int64             `json:"step"`
	Prompt    string            `json:"prompt"`
	Text      string            `json:"text"`
	Reference string            `json:"reference,omitempty"`
	Scores    map[string]number `json:"scores"`
}

func generationsJSON(generations []runs.Generation) []generationJSON {
	out := []generationJSON{}
	for _, g := range generations {
		scores := map[string]number{}
		for name, v := range g.Scores {
			scores[name] = number(v)
		}
		out = append(out, generationJSON{Step: g.Step, Prompt: g.Prompt, Text: g.Text, Reference: g.Reference, Scores: scores})
	}
	return out
}

type sampleJSON struct {
	Task     string `json:"task"`
	Prompt   string `json:"prompt"`
	Answer   string `json:"answer"`
	Expected string `json:"expected"`
	Right    bool   `json:"right"`
}

func samplesJSON(samples []experiments.Sample) []sampleJSON {
	out := []sampleJSON{}
	for _, s := range samples {
		out = append(out, sampleJSON(s))
	}
	return out
}

type summaryJSON struct {
	runJSON
	Message         string           `json:"message,omitempty"`
	BitsPerByte     number           `json:"validation_bits_per_byte"`
	ValidatedAt     int64            `json:"validation_step"`
	Unigram         number           `json:"unigram_entropy_nats"`
	Epochs          number           `json:"epochs"` // passes over the training text
	TokensPerSecond number           `json:"training_tokens_per_second"`
	Seconds         float64          `json:"seconds"` // all attempts together
	Scores          []scoreJSON      `json:"scores"`
	Samples         []sampleJSON     `json:"probe_samples"`
	Generations     []generationJSON `json:"generations"`
	Checkpoint      string           `json:"checkpoint,omitempty"`
	Weights         string           `json:"weights_sha256"`
	Report          string           `json:"report,omitempty"`
	ReportURL       string           `json:"report_url,omitempty"`
	Kernels         string           `json:"kernels,omitempty"`
	Core            *int             `json:"core,omitempty"` // of the last attempt; -1 is any
}

func (s summary) json() summaryJSON {
	o := s.Outcome
	j := summaryJSON{runJSON: newRunJSON(o.Run, o.Validation), Message: o.Message, BitsPerByte: number(o.BitsPerByte), ValidatedAt: o.ValidatedAt, Unigram: number(o.Unigram), Epochs: number(o.Epochs),
		TokensPerSecond: number(o.TrainSpeed), Seconds: wallTime(o.Run).Seconds(), Scores: scoresJSON(outcomeScores(o)),
		Samples: samplesJSON(o.Samples), Generations: generationsJSON(o.Generations), Checkpoint: o.Checkpoint, Weights: o.Weights, Report: s.report}
	if s.report != "" {
		j.ReportURL = fileURL(s.report)
	}
	if n := len(o.Run.Attempts); n > 0 {
		last := o.Run.Attempts[n-1]
		j.Kernels, j.Core = last.Kernels, &last.Core
	}
	j.State, j.Step, j.Tokens = string(o.State), o.Steps, o.Tokens
	return j
}
