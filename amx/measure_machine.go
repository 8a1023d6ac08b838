package amx

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// MeasureMachine measures one core: frequency, peaks, bandwidths, the cost of a call, and
// products with every set, in this order. core is the one the process is pinned to, or -1.
// told hears how far it is.
func MeasureMachine(ctx context.Context, e Effort, core int, sets []Set, told func(done, total int)) ([]Measurement, error) {
	products := Products()
	limits := []func() ([]Measurement, error){
		func() ([]Measurement, error) { return MeasureFrequency(ctx, e) },
		func() ([]Measurement, error) { return MeasurePeaks(ctx, e) },
		func() ([]Measurement, error) { return MeasureBandwidth(ctx, e, DetectCaches(core)) },
		func() ([]Measurement, error) { return MeasureDispatch(ctx, e, sets) },
	}
	total := len(limits) + len(products)
	var all []Measurement
	for done, measure := range limits {
		told(done, total)
		found, err := measure()
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	gemms, err := MeasureGemm(ctx, e, sets, products, func(i int) { told(len(limits)+i, total) })
	if err != nil {
		return nil, err
	}
	told(total, total)
	return append(all, gemms...), nil
}

// Contention is how much of its core a process gets, by a burst of arithmetic.
type Contention struct {
	Share  float64 // of the wall-clock time on the processor
	Steady float64 // the median speed over the best
}

// MeasureContention computes for some 60 ms.
func MeasureContention(ctx context.Context) (Contention, error) {
	kinds := slices.DeleteFunc(peakKinds(), func(p peakKind) bool { return !p.available() })
	work := func() { peakFromC(tablePortable) }
	if len(kinds) > 0 {
		work = func() { kinds[0].burst(20 * peakRounds) }
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	work() // warms up
	start, spent := time.Now(), ThreadTime()
	times, err := sampling{least: 20, budget: 60 * time.Millisecond}.timesAfter(ctx, func() {}, work)
	if err != nil {
		return Contention{}, err
	}
	share := (ThreadTime() - spent).Seconds() / time.Since(start).Seconds()
	return Contention{Share: min(1, share), Steady: times[0] / median(times)}, nil
}

// MultiplyAddsPerCycle is the floating-point operations in fp32 that a core of this kind
// does in a cycle, a multiplication and an addition counting as two; 0 where it is not known.
func (id Identity) MultiplyAddsPerCycle(flags []string) float64 {
	wide, fma := slices.Contains(flags, "avx512f"), slices.Contains(flags, "fma")
	switch {
	case !fma:
		return 0
	case id.Vendor == "GenuineIntel" && id.Family == 6:
		// Servers with AVX-512 have two units of 16 lanes; others two of 8.
		servers := []int{85, 106, 108, 143, 173, 174, 207}
		if wide && slices.Contains(servers, id.Model) {
			return 64
		}
		return 32
	case id.Vendor == "AuthenticAMD" && id.Family == 25: // Zen 3 and 4: two of 8 lanes
		return 32
	case id.Vendor == "AuthenticAMD" && id.Family == 26 && wide && id.Model < 0x20: // Zen 5 servers: two of 16
		return 64
	}
	return 0
}
