package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"

	"harness/amx"
	"harness/experiments"
	"harness/runs"
)

// someTrainBench is one step that is slow and two that are fast, on no core of its own.
func someTrainBench() *experiments.TrainBench {
	return &experiments.TrainBench{Spec: "quickstart", Core: -1, Kernels: "vnni16", Choice: someChoice(), Arithmetic: amx.Int16, StepTokens: 1024, TokenFLOP: 7.11e6,
		Formula: "6 x 607936 body parameters + 6 x 524288 readout elements + the mixers' own products", Started: time.Unix(1e9, 0),
		Steps: []time.Duration{46 * time.Millisecond, 47 * time.Millisecond, 50 * time.Millisecond}, Profiled: 42 * time.Millisecond,
		Ops: []experiments.OpShare{
			{Op: "LinearAttentionBackward", Calls: 54, Time: 40 * time.Millisecond, Slowest: 50 * time.Millisecond, FLOP: 1e9, Bytes: 1e6, Bound: runs.BoundCompute, Limit: 20 * time.Millisecond},
			{Op: "Go and other", Time: 2 * time.Millisecond, Slowest: 3 * time.Millisecond}},
		Peaks: []amx.Measurement{{Group: amx.GroupPeak, Name: "fp32", Value: 118, Unit: "GFLOP/s", N: 3}}}
}

func TestTrainBenchFits(t *testing.T) {
	for _, width := range []int{80, 120, unlimited} {
		var b bytes.Buffer
		writeTrainBench(&b, someTrainBench(), width)
		for line := range strings.Lines(b.String()) {
			if got := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); got > width {
				t.Errorf("%d columns in %d: %q", got, width, line)
			}
		}
		// As the page rounds: 1024 tokens in 47 ms are 21787.2, in 46 ms 22260.9.
		if text := b.String(); !strings.Contains(text, "21,787 tokens/s") || !strings.Contains(text, "22,261)") {
			t.Errorf("%s", text)
		}
	}
}

func TestTrainBenchSaysWhereItWasMeasured(t *testing.T) {
	b := someTrainBench()
	record := trainRecord(b, map[string]string{})
	p := record.Provenance
	if _, is := p["core"]; is || p["kernels"] != "vnni16" || p["kernels_choice"] != b.Choice.String() || p["cores"] == "" {
		t.Errorf("%v", p)
	}
	record.ID = "01JD"
	decoded := func(v any) (m map[string]any) {
		text, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	j := decoded(newTrainBenchJSON(b, record, "/s/benches/01JD.html"))
	machine := someBench()
	machine.bench.ID = "01JE"
	m := decoded(machine.json())
	for _, key := range []string{"bench", "kind", "started"} {
		if j[key] == nil || m[key] == nil {
			t.Errorf("%s is %v of a step, %v of a machine", key, j[key], m[key])
		}
	}
	if j["report_url"] != "file:///s/benches/01JD.html" {
		t.Errorf("the page is at %v", j["report_url"])
	}
}
