package amx

import (
	"context"
	"math"
	"runtime"
	"slices"
	"strconv"
	"time"
	"unsafe"
)

// Measurement is one rate or time of this machine, from several bursts. Whatever
// shares the machine only ever makes a burst slower, so Value is that of the best.
type Measurement struct {
	Group, Name string // "peak", "fp32": unique together
	Unit        string
	Value       float64 // of the best burst
	Low, High   float64 // over nine bursts in ten: the slowest tenth is left out
	Median      float64
	N           int               // bursts
	Detail      map[string]string // what else there is to know
}

// Groups of measurements.
const (
	GroupFrequency = "frequency"
	GroupPeak      = "peak"
	GroupBandwidth = "bandwidth"
	GroupDispatch  = "dispatch"
	GroupGemm      = "gemm"
)

// Effort is how long to measure. The zero value measures thoroughly.
type Effort struct {
	Quick bool
}

// sampling is how one quantity is sampled: at least `least` bursts of at least `length`,
// until `budget` is spent.
type sampling struct {
	least          int
	length, budget time.Duration
}

// times returns the seconds of one call in each burst, in processor time and sorted:
// what other processes take of the core is left out, but not what they do to its caches
// and its frequency. One burst goes before, to warm up and to find out how many calls fill a burst.
// A cancelled ctx ends it between bursts.
func (b sampling) times(ctx context.Context, call func()) ([]float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	calls := 1
	burst := func() time.Duration {
		start := ThreadTime()
		for range calls {
			call()
		}
		return ThreadTime() - start
	}
	for calls < 1<<24 {
		took := burst()
		if took >= b.length && took < 4*b.length {
			took = min(took, burst()) // it may have been a hiccup
		}
		if took >= b.length {
			break
		}
		calls = max(2*calls, int(1.2*float64(calls)*float64(b.length)/float64(max(took, time.Microsecond))))
	}
	var times []float64
	for begun := time.Now(); len(times) < b.least || time.Since(begun) < b.budget; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		times = append(times, burst().Seconds()/float64(calls))
	}
	slices.Sort(times)
	return times, nil
}

// timesAfter returns the seconds of single calls, sorted, each right after another work.
func (b sampling) timesAfter(ctx context.Context, before, call func()) ([]float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var times []float64
	for begun := time.Now(); len(times) < b.least || time.Since(begun) < b.budget; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		before()
		start := ThreadTime()
		call()
		times = append(times, (ThreadTime() - start).Seconds())
	}
	slices.Sort(times)
	return times, nil
}

// slowest9in10 is the time that nine bursts in ten did not exceed.
func slowest9in10(sorted []float64) float64 { return sorted[(9*len(sorted)-1)/10] }

func median(sorted []float64) float64 {
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// rate is amount of work a second, in billions, if one call does `work` in sorted seconds.
func rate(m Measurement, work float64, sorted []float64) Measurement {
	per := func(seconds float64) float64 { return work / max(seconds, math.SmallestNonzeroFloat32) / 1e9 }
	m.Value, m.High, m.N = per(sorted[0]), per(sorted[0]), len(sorted)
	m.Low, m.Median = per(slowest9in10(sorted)), per(median(sorted))
	return m
}

// microseconds is the time of a call.
func microseconds(m Measurement, sorted []float64) Measurement {
	m.Unit, m.N = "us", len(sorted)
	m.Value, m.Low, m.High, m.Median = 1e6*sorted[0], 1e6*sorted[0], 1e6*slowest9in10(sorted), 1e6*median(sorted)
	return m
}

// fixed prints a figure for a Detail.
func fixed(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// alignedFloats is n floats that start at a cache line.
func alignedFloats(n int) []float32 {
	var m memory
	return unsafe.Slice((*float32)(m.reserve(4*n)), n)
}
