package experiments

import (
	"context"
	"strings"
	"testing"
	"time"

	"harness/amx"
	"harness/runs"
)

func TestBenchTrainTellsWhereTheTimeGoes(t *testing.T) {
	spec := load(t, tinySpec(t, ""), "train.kernels=portable")
	b, err := BenchTrain(context.Background(), spec, Options{Store: t.TempDir()}, 2)
	if err != nil {
		t.Fatal(err)
	}
	median, low, high := b.TokensPerSecond()
	if len(b.Steps) != 2 || !(low > 0 && low <= median && median <= high) {
		t.Errorf("steps %v: %g tokens/s, %g to %g", b.Steps, median, low, high)
	}
	sum, seen := time.Duration(0), map[string]OpShare{}
	for _, o := range b.Ops {
		sum += o.Time
		seen[o.Op] = o
		if o.Time <= 0 || o.Time > o.Slowest || o.Op != outside && (o.Calls == 0 || o.Limit <= 0 || o.Bound == "") {
			t.Errorf("%+v", o)
		}
	}
	if sum != b.Profiled {
		t.Errorf("operations take %v of %v", sum, b.Profiled)
	}
	for _, op := range []string{"mlp.gate_up forward", "mlp.gate_up dX", "mlp.gate_up dW", "mixer.in dW", "mixer.out dX", "mlp.down forward",
		"readout forward", "readout dX", "readout dW", "pack weights", "SoftmaxXent", "AdamW", "AdamWRows", "RMSNorm", outside} {
		if _, ok := seen[op]; !ok {
			t.Errorf("no line for %s", op)
		}
	}
	if b.TokenFLOP >= b.SpecFLOP || !strings.Contains(b.Formula, "of 200 draws, with repeats") {
		t.Errorf("%g operations a token, %g by the spec: %s", b.TokenFLOP, b.SpecFLOP, b.Formula)
	}
	for op := range seen {
		if len(op) > 3 && (op[:3] == "NN " || op[:3] == "NT " || op[:3] == "TN ") {
			t.Errorf("a product without a role: %s", op)
		}
	}
}

func TestBoundsByHand(t *testing.T) {
	level := func(name, bytes string, gbs float64) amx.Measurement {
		return amx.Measurement{Name: name, Value: gbs, Detail: map[string]string{"bytes": bytes}}
	}
	b := &TrainBench{Kernels: "vnni16", Arithmetic: amx.Int16,
		Peaks:      []amx.Measurement{{Name: "fp32", Value: 100}, {Name: "int16", Value: 200}},
		Bandwidths: []amx.Measurement{level("L1", "16000", 200), level("L2", "500000", 100), level("DRAM", "64000000", 20)}}
	for _, x := range []struct {
		op    OpShare
		bound string
		level string
		limit time.Duration
	}{
		{OpShare{FLOP: 2e9, Bytes: 1e6, Span: 1e3, Matrix: true}, runs.BoundCompute, "L1", 10 * time.Millisecond},
		{OpShare{FLOP: 2e9, Bytes: 1e6, Span: 1e3}, runs.BoundCompute, "L1", 20 * time.Millisecond},
		{OpShare{FLOP: 1e6, Bytes: 1e9, Span: 32000}, runs.BoundBandwidth, "L1", 5 * time.Millisecond},
		{OpShare{FLOP: 1e6, Bytes: 1e9, Span: 32001}, runs.BoundBandwidth, "L2", 10 * time.Millisecond},
		{OpShare{FLOP: 1e6, Bytes: 1e9, Span: 1e12}, runs.BoundBandwidth, "DRAM", 50 * time.Millisecond},
		{OpShare{}, "", "", 0},
	} {
		o := x.op
		b.limit(&o)
		if o.Bound != x.bound || o.Level != x.level || (o.Limit-x.limit).Abs() > time.Microsecond {
			t.Errorf("%+v: bound by %s of %s at %v, by hand %s of %s at %v", x.op, o.Bound, o.Level, o.Limit, x.bound, x.level, x.limit)
		}
	}
	amxSet := &TrainBench{Kernels: "amx", Arithmetic: amx.BF16, Peaks: []amx.Measurement{{Name: "bf16", Value: 1}, {Name: "amx-bf16", Value: 7}}}
	if got := amxSet.matrixPeak(); got != 7e9 {
		t.Errorf("the peak of amx is %g", got)
	}
}
