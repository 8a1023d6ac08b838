package reports

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"harness/runs"
)

// smallRecord is a run with a little of everything: a resume, a NaN, two steps of
// generations, an older version of a table.
func smallRecord() record {
	start := time.Date(2026, 5, 4, 9, 12, 33, 0, time.UTC)
	const id = "01K7XYA3W4N6T8Q2M5R9C1B0DE"
	r := record{run: runs.Run{
		ID: id, Name: "small", Notes: "What a page holds.", Tags: []string{"ladder"},
		State: runs.Diverged, Seed: 7, Created: start, Step: 40, Tokens: 40960, SpecHash: "9f2c64d1",
		Spec: "name: small\nseed: 7\ncorpus:\n  tasks:\n    - {name: shift, kind: shift, min: 6, max: 6}\n    - {name: sums, kind: add, min: 0, max: 0}\n",
		Provenance: map[string]string{"kernels": "portable", "cpu": "a test", "steps": "80", "parameters": "1132224", "body_parameters": "607936",
			"model": "d_model 128, lin swa", "code_version": "0123456789abcdef0123456789abcdef01234567", "code_dirty": "true", "module:example.org/library": "v1.2.3"},
		Attempts: []runs.Attempt{
			{AttemptInfo: runs.AttemptInfo{Host: "box", Core: 3, Kernels: "portable"}, Number: 1, State: runs.Interrupted,
				Message: "interrupt signal", Started: start, Ended: start.Add(71 * time.Second), Step: 22, Tokens: 22528},
			{AttemptInfo: runs.AttemptInfo{Host: "box", Core: 2, Kernels: "portable", FromStep: 20}, Number: 2, State: runs.Diverged,
				Message: "loss is NaN at step 40", Started: start.Add(2 * time.Minute), Ended: start.Add(3 * time.Minute), Step: 40, Tokens: 40960},
		},
	}}
	add := func(name, unit, better string, every int64, value func(step int64) float64) {
		s := runs.Series{Name: name, Unit: unit, Better: better}
		for step := every; step <= 40; step += every {
			s.Points = append(s.Points, runs.Point{Step: step, Tokens: step * 1024, Value: value(step), Attempt: int(1 + step/21)})
		}
		r.series = append(r.series, s)
	}
	add("train/loss", "nats", "lower", 4, func(step int64) float64 {
		if step == 40 {
			return math.NaN()
		}
		return 8 - float64(step)/10
	})
	add("validation/loss", "nats", "lower", 10, func(step int64) float64 { return 7.5 - float64(step)/20 })
	add("probe/shift", "", "", 20, func(step int64) float64 { return float64(step) / 50 })
	add("train/lr", "", "", 4, func(int64) float64 { return 3e-4 })
	for _, step := range []int64{20, 40} {
		r.scores = append(r.scores,
			runs.Score{Step: step, Tokens: step * 1024, Name: "shift", Value: float64(step) / 50, Low: float64(step)/50 - 0.04, High: float64(step)/50 + 0.03, Chance: 1.0 / 14, N: 500, Seed: 7},
			runs.Score{Step: step, Tokens: step * 1024, Name: "add", Value: 0.012, Low: 0.005, High: 0.026, Chance: 0.01, N: 500, Seed: 7})
		r.generations = append(r.generations, runs.Generation{Step: step, Tokens: step * 1024, Prompt: "func Read(", Text: "p []byte)", Reference: "b []byte)",
			Scores: map[string]float64{"distinct": 0.25, "reference nats/token": math.NaN()}})
		r.tables = append(r.tables, runs.Table{Step: step, Name: "participation", Columns: []string{"layer", "ratio"}, Rows: [][]string{{"swa 0", "51.7"}}})
		r.artifacts = append(r.artifacts, runs.Artifact{Step: step, Kind: "checkpoint", Path: "runs/" + id + "/step.safetensors", SHA256: "bf4a", Bytes: 15324532})
	}
	r.tables = append(r.tables, runs.Table{Name: "corpus", Columns: []string{"figure", "value"}, Rows: [][]string{{"unigram entropy", "6.052 nats"}}})
	for _, step := range []int64{20, 40} {
		r.tables = append(r.tables, runs.Table{Step: step, Name: "probe samples", Columns: []string{"task", "prompt", "answer", "expected", "right"},
			Rows: [][]string{{"shift", "<|bos|>│a\n│b│<|mark|>", "a", "a", "yes"}}})
	}
	r.gone = map[string]bool{"runs/" + id + "/step.safetensors": true}
	r.events = []runs.Event{
		{Step: 0, Kind: "phase", Text: "phase 1 of 2: shift 100", Attempt: 1},
		{Step: 20, Kind: "phase", Text: "phase 2 of 2: go 70, shift 30", Attempt: 1},
		{Step: 20, Kind: "phase", Text: "phase 2 of 2: go 70, shift 30", Attempt: 2},
		{Step: 40, Kind: "diverged", Text: "loss is NaN", Elapsed: time.Minute, Attempt: 2},
	}
	return r
}

func renderPage(t *testing.T, page RunPage, assets Assets) string {
	t.Helper()
	var out bytes.Buffer
	if err := page.Render(&out, assets); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func parsePage(t *testing.T, page string) *html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// elements returns the elements of a name, in document order.
func elements(root *html.Node, name string) []*html.Node {
	var found []*html.Node
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			found = append(found, n)
		}
	}
	return found
}

func byClass(root *html.Node, name, class string) []*html.Node {
	var found []*html.Node
	for _, n := range elements(root, name) {
		if attribute(n, "class") == class {
			found = append(found, n)
		}
	}
	return found
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func textOf(n *html.Node) string {
	var text strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			text.WriteString(d.Data)
		}
	}
	return text.String()
}

// fakeECharts stands for the real script where only its being inlined matters.
func fakeECharts() Assets { return Assets{ECharts: []byte("window.echarts = { init() {} };")} }

// byID is the element of an id, nil if there is none.
func byID(root *html.Node, id string) *html.Node {
	for n := range root.Descendants() {
		if attribute(n, "id") == id {
			return n
		}
	}
	return nil
}
