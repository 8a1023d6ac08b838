package reports

import (
	"fmt"
	"strconv"
	"time"

	"harness/runs"
)

// spread is a measurement with 2% of room below and 1% above.
func spread(group, name string, value float64, unit string, n int, detail map[string]string) runs.Measurement {
	return runs.Measurement{Group: group, Name: name, Value: value, Unit: unit, Low: value * 0.98, High: value * 1.01, N: n, Detail: detail}
}

// gemmOf is a measured GEMM; shape is M, K, N.
func gemmOf(set, arithmetic, trans string, shape [3]int, value, peak float64) runs.Measurement {
	unit := "GFLOP/s"
	if arithmetic == "int16" {
		unit = "GOP/s"
	}
	return spread(runs.GroupGemm, fmt.Sprintf("%s %s %v", set, trans, shape), value, unit, 5, map[string]string{
		"median": fmt.Sprint(value * 0.995), "packed": fmt.Sprint(value * 1.02), "where": "somewhere", "set": set, "arithmetic": arithmetic, "trans": trans, "of_peak": fmt.Sprintf("%.3f", value/peak),
		"m": strconv.Itoa(shape[0]), "k": strconv.Itoa(shape[1]), "n": strconv.Itoa(shape[2])})
}

// limitsOfZen4 are plausible figures of one Zen 4 core.
func limitsOfZen4() []runs.Measurement {
	var all []runs.Measurement
	all = append(all, spread(runs.GroupFrequency, "scalar adds", 3.7, "GHz", 9, nil))
	for _, p := range []struct {
		name  string
		value float64
		unit  string
	}{{"fp32", 118, "GFLOP/s"}, {"bf16", 236, "GFLOP/s"}, {"int16", 236, "GOP/s"}, {"int8", 473, "GOP/s"}} {
		all = append(all, spread(runs.GroupPeak, p.name, p.value, p.unit, 9, nil))
	}
	for _, l := range []struct {
		name  string
		value float64
		bytes string
	}{{"L1", 224, "16384"}, {"L2", 112, "524288"}, {"L3", 90, "8388608"}, {"DRAM", 28, "268435456"}} {
		all = append(all, spread(runs.GroupBandwidth, l.name, l.value, "GB/s", 7, map[string]string{"bytes": l.bytes}))
	}
	return append(all, spread(runs.GroupDispatch, "smallest GEMM", 0.21, "µs", 200, map[string]string{"shape": "1×1×1"}),
		spread(runs.GroupDispatch, "empty cgo call", 0.041, "µs", 200, nil))
}

func provenanceOfZen4() map[string]string {
	return map[string]string{"cpu": "AMD EPYC 9R14", "core": "1", "amx": "not in this CPU", "l2": "1048576", "l3": "33554432",
		"code_version": "0123456789abcdef0123456789abcdef01234567", "code_dirty": "false", "command": "harness bench", "module:example.org/library": "v1.2.3"}
}

// machineBench measures three kernel sets at the model's shapes, forward and backward.
func machineBench() runs.Bench {
	b := runs.Bench{ID: "01K7XYA3W4N6T8Q2M5R9C1B0DE", Kind: runs.BenchMachine, Started: time.Date(2026, 5, 4, 9, 12, 33, 0, time.UTC),
		Provenance: provenanceOfZen4(), Results: limitsOfZen4()}
	for i, at := range []struct {
		trans string
		shape [3]int
	}{
		{"NN", [3]int{2048, 256, 1280}}, {"NN", [3]int{4096, 256, 640}}, {"NN", [3]int{4096, 640, 256}}, {"NN", [3]int{1024, 1024, 1024}}, {"NN", [3]int{64, 256, 64}},
		{"NT", [3]int{2048, 1280, 256}}, {"NT", [3]int{4096, 640, 256}}, {"TN", [3]int{256, 2048, 1280}}, {"TN", [3]int{256, 4096, 640}},
	} {
		less := 1 - float64(i)/90
		if at.shape[0] == 64 {
			less = 0.55
		}
		b.Results = append(b.Results, gemmOf("avx512", "fp32", at.trans, at.shape, 111*less, 118),
			gemmOf("vnni16", "int16", at.trans, at.shape, 212*less, 236), gemmOf("avx512bf16", "bf16", at.trans, at.shape, 201*less, 236))
	}
	for _, at := range [][3]int{{2048, 256, 1280}, {1024, 1024, 1024}} {
		b.Results = append(b.Results, gemmOf("avx2", "fp32", "NN", at, 57, 118))
	}
	return b
}

// trainBench is a step of the released dense shape.
func trainBench() runs.Bench {
	b := runs.Bench{ID: "01K7XYB9Z0N6T8Q2M5R9C1B0DE", Kind: runs.BenchTrain, Started: time.Date(2026, 5, 4, 9, 20, 0, 0, time.UTC), Provenance: provenanceOfZen4()}
	b.Provenance["spec"], b.Provenance["kernels"], b.Provenance["command"] = "release-dense", "vnni16", "harness bench --train release-dense.yaml"
	const peak = 236.0
	b.Results = append(b.Results,
		spread(runs.GroupTrain, runs.TrainThroughput, 5210, "tokens/s", 5, nil),
		spread(runs.GroupTrain, runs.TrainStep, 786, "ms", 5, map[string]string{"tokens": "4096"}),
		runs.Measurement{Group: runs.GroupTrain, Name: runs.TrainFlops, Value: 27.6, Unit: "MFLOP", Low: 27.6, High: 27.6,
			Detail: map[string]string{"formula": "6 × 3,298,144 body parameters + 6 × 256 × 2,240 columns of 4096 draws, with repeats, and the targets, for 93.1% of positions, + 0.77M of the mixers' own products", "by_spec": "26.85"}},
		spread(runs.GroupTrain, runs.TrainRate, 143.8, "GFLOP/s", 5, map[string]string{"of_peak": "1.22", "peak": "fp32"}))
	total := 0.0
	for _, op := range []struct {
		name         string
		ms           float64
		calls        int
		gflop, gbyte float64
		bound        string
	}{
		{"MLP forward", 121, 24, 24.2, 0.31, "compute"}, {"MLP dX", 126, 24, 24.2, 0.35, "compute"}, {"MLP dW", 134, 24, 24.2, 0.42, "compute"},
		{"readout forward", 49, 1, 8.6, 0.09, "compute"}, {"readout dX, dW", 101, 2, 17.2, 0.19, "compute"}, {"attention", 88, 96, 6.1, 0.4, "compute"},
		{"softmax", 41, 1, 0.4, 0.14, "bandwidth"}, {"RMSNorm", 14, 26, 0.05, 0.22, "bandwidth"}, {"relu2 gate", 17, 12, 0.03, 0.19, "bandwidth"},
		{"AdamW", 9, 31, 0.07, 0.12, "bandwidth"}, {"rotary", 5, 8, 0.01, 0.02, "bandwidth"},
	} {
		reached := op.gflop / op.ms * 1e3 / peak
		if op.bound == runs.BoundBandwidth {
			reached = op.gbyte / op.ms * 1e3 / 28
		}
		total += op.ms
		b.Results = append(b.Results, spread(runs.GroupTrain, op.name, op.ms, "ms", 5, map[string]string{
			"op": op.name, "calls": strconv.Itoa(op.calls), "gflop": fmt.Sprint(op.gflop), "gbyte": fmt.Sprint(op.gbyte),
			"bound": op.bound, "level": "DRAM", "of_bound": fmt.Sprintf("%.3f", reached), "share": fmt.Sprintf("%.4f", op.ms/786)}))
	}
	b.Results = append(b.Results, spread(runs.GroupTrain, "Go and other", 786-total, "ms", 5, map[string]string{"op": "Go and other", "share": fmt.Sprintf("%.4f", (786-total)/786)}))
	b.Results = append(b.Results, limitsOfZen4()...)
	return b
}
