package amx

// #include "peaks.h"
// #cgo nocallback peak_burst
// #cgo nocallback dependent_adds
// #cgo noescape halve
// #cgo nocallback halve
import "C"

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sys/cpu"
)

// peakKind is one instruction whose rate on registers alone is a ceiling.
type peakKind struct {
	kind        C.int
	name        string // of the measurement, by format
	instruction string
	unit        string
	available   func() bool
}

// peakKinds has, for each format, the widest instruction first.
func peakKinds() []peakKind {
	x := cpu.X86
	has512 := func(feature bool) func() bool { return func() bool { return x.HasAVX512F && feature } }
	return []peakKind{
		{C.PEAK_FP32_ZMM, "fp32", "VFMADD231PS zmm", "GFLOP/s", has512(true)},
		{C.PEAK_FP32_YMM, "fp32", "VFMADD231PS ymm", "GFLOP/s", func() bool { return x.HasAVX2 && x.HasFMA }},
		{C.PEAK_BF16_TILE, "amx-bf16", "TDPBF16PS", "GFLOP/s", amxPermitted},
		{C.PEAK_BF16_ZMM, "bf16", "VDPBF16PS zmm", "GFLOP/s", has512(x.HasAVX512BF16)},
		{C.PEAK_INT16_ZMM, "int16", "VPDPWSSD zmm", "GOP/s", has512(x.HasAVX512VNNI)},
		{C.PEAK_INT8_TILE, "amx-int8", "TDPBSSD", "GOP/s", func() bool { return x.HasAMXInt8 && amxPermitted() }},
		{C.PEAK_INT8_ZMM, "int8", "VPDPBUSD zmm", "GOP/s", has512(x.HasAVX512VNNI)},
	}
}

// MeasurePeaks measures the rate of every arithmetic this CPU has, on registers alone:
// fp32, bf16, int16, int8, amx-bf16 and amx-int8. Where a format has several instructions it
// is that of the fastest, and the Detail has the others.
func MeasurePeaks(ctx context.Context, e Effort) ([]Measurement, error) {
	b := sampling{least: 20, length: 200 * time.Microsecond, budget: 200 * time.Millisecond}
	if e.Quick {
		b.budget = 40 * time.Millisecond
	}
	var all []Measurement
	for _, p := range peakKinds() {
		if !p.available() {
			continue
		}
		m, err := p.measure(ctx, b)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	if len(all) == 0 || all[0].Name != "fp32" { // a CPU we know no instruction of: the compiler's
		m, err := compiledPeak(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return fastestOfEach(all), nil
}

// fastestOfEach keeps one measurement of each name, in the order of the names.
func fastestOfEach(all []Measurement) []Measurement {
	var kept []Measurement
	for _, m := range all {
		i := slices.IndexFunc(kept, func(k Measurement) bool { return k.Name == m.Name })
		if i < 0 {
			kept = append(kept, m)
			continue
		}
		slower := m
		if m.Value > kept[i].Value {
			slower, kept[i] = kept[i], m
		}
		kept[i].Detail[slower.Detail["instruction"]] = fixed(slower.Value, 1)
	}
	return kept
}

const peakRounds = 512

// burst runs the instruction on registers and returns the operations done.
func (p peakKind) burst(rounds int) float64 { return float64(C.peak_burst(p.kind, C.long(rounds))) }

func (p peakKind) measure(ctx context.Context, b sampling) (Measurement, error) {
	var operations float64
	times, err := b.times(ctx, func() { operations = p.burst(peakRounds) })
	if err != nil {
		return Measurement{}, err
	}
	return rate(Measurement{Group: GroupPeak, Name: p.name, Unit: p.unit, Detail: map[string]string{"instruction": p.instruction}}, operations, times), nil
}

// compiledPeak is the rate of the portable set's multiply-adds.
func compiledPeak(ctx context.Context) (Measurement, error) {
	var rates []float64
	for range 3 {
		if err := ctx.Err(); err != nil {
			return Measurement{}, err
		}
		rates = append(rates, peakFromC(tablePortable))
	}
	slices.Sort(rates)
	return Measurement{Group: GroupPeak, Name: "fp32", Unit: "GFLOP/s", Value: rates[2], Low: rates[0], High: rates[2], Median: rates[1], N: 3,
		Detail: map[string]string{"instruction": "as compiled"}}, nil
}

// peakOf measures the rate of one instruction, in some 10 ms.
func peakOf(kind C.int) float64 {
	p := peakKind{kind: kind}
	var operations float64
	times, err := sampling{least: 40, length: 200 * time.Microsecond}.times(context.Background(), func() { operations = p.burst(peakRounds) })
	if err != nil {
		panic(err) // nobody can have cancelled it
	}
	return operations / times[0] / 1e9
}

// The ceilings of the sets in 16-bit formats.
func peakBF16() float64  { return peakOf(C.PEAK_BF16_ZMM) }
func peakInt16() float64 { return peakOf(C.PEAK_INT16_ZMM) }
func peakTile() float64  { return peakOf(C.PEAK_BF16_TILE) }

// MeasureFrequency measures cycles a second, by additions that each wait for the one
// before: "core" as it is, and "core after wide vectors" right after a burst of the
// widest multiply-adds, for which many cores slow down. None where no such loop is built.
func MeasureFrequency(ctx context.Context, e Effort) ([]Measurement, error) {
	b := sampling{least: 20, length: 200 * time.Microsecond, budget: 50 * time.Millisecond}
	if e.Quick {
		b.budget = 5 * time.Millisecond
	}
	const rounds = 10_000
	if C.dependent_adds(1) == 0 {
		return nil, nil
	}
	adds := func() { C.dependent_adds(rounds) }
	times, err := b.times(ctx, adds)
	if err != nil {
		return nil, err
	}
	const cycles = rounds * C.ADDS_PER_ROUND
	all := []Measurement{rate(Measurement{Group: GroupFrequency, Name: "core", Unit: "GHz"}, cycles, times)}
	for _, p := range peakKinds() {
		if !p.available() {
			continue
		}
		warm, err := b.timesAfter(ctx, func() { p.burst(64 * peakRounds) }, adds)
		if err != nil {
			return nil, err
		}
		m := rate(Measurement{Group: GroupFrequency, Name: "core after wide vectors", Unit: "GHz",
			Detail: map[string]string{"instruction": p.instruction}}, cycles, warm)
		return append(all, m), nil
	}
	return all, nil
}

// MeasureDenormals returns how many times slower arithmetic on denormal numbers is;
// 1 where it is not. Models that produce them stall on cores that are.
func MeasureDenormals(ctx context.Context) (float64, error) {
	const n, rounds = 256, 16
	y, x := alignedFloats(n), alignedFloats(n)
	var seconds [2]float64
	for i, value := range []float32{1, 1e-40} {
		for j := range x {
			x[j] = value
		}
		times, err := sampling{least: 10, length: 20 * time.Microsecond}.times(ctx, func() { C.halve(floats(y), floats(x), n, rounds) })
		if err != nil {
			return 0, err
		}
		seconds[i] = times[0]
	}
	return seconds[1] / seconds[0], nil
}
