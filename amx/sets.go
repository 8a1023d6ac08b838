package amx

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/cpu"
)

// Set is one instruction set that kernels were written for.
type Set struct {
	Name string
	// Needs names the CPU features the set asks for, as Machine.Flags spells them.
	Needs []string
	// Available reports whether this build contains the set and this CPU runs it.
	Available func() bool
	// New returns kernels with scratch of their own: one value per goroutine.
	New func() *Kernels
	// FMAPeak measures the set's fp32 multiply-add rate on registers, in GFLOP/s:
	// the ceiling to quote a GEMM's speed against. It takes some 10 ms.
	FMAPeak func() float64
}

// Sets lists every set, fastest first; the last two run anywhere.
func Sets() []Set {
	return []Set{
		{
			Name:  "avx512",
			Needs: []string{"avx512f", "avx512dq", "avx512bw", "avx512vl", "fma", "bmi2"},
			Available: func() bool {
				x := cpu.X86
				return tableAVX512() != nil && x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL && x.HasFMA && x.HasBMI2
			},
			New:     func() *Kernels { return fromC("avx512", tableAVX512) },
			FMAPeak: func() float64 { return peakFromC(tableAVX512) },
		},
		{
			Name:  "avx2",
			Needs: []string{"avx2", "fma", "bmi2"},
			Available: func() bool {
				return tableAVX2() != nil && cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasBMI2
			},
			New:     func() *Kernels { return fromC("avx2", tableAVX2) },
			FMAPeak: func() float64 { return peakFromC(tableAVX2) },
		},
		{
			Name:      "portable",
			Available: func() bool { return true },
			New:       func() *Kernels { return fromC("portable", tablePortable) },
			FMAPeak:   func() float64 { return peakFromC(tablePortable) },
		},
		{
			Name:      "reference",
			Available: func() bool { return true },
			New:       Reference,
			FMAPeak:   referenceFMAPeak,
		},
	}
}

// Select returns kernels of the named set, or of the fastest one this CPU runs
// for "auto".
func Select(name string) (*Kernels, error) {
	valid := []string{"auto"}
	for _, s := range Sets() {
		if (s.Name == name || name == "auto") && s.Available() {
			return s.New(), nil
		}
		if s.Name == name {
			return nil, fmt.Errorf("select kernel set %q: this build or CPU lacks one of %s", name, strings.Join(s.Needs, ", "))
		}
		valid = append(valid, s.Name)
	}
	return nil, fmt.Errorf("select kernel set %q: unknown; valid are %s", name, strings.Join(valid, ", "))
}

// referenceFMAPeak measures the reference's own arithmetic: float64
// multiply-adds in a Go loop with enough independent sums to hide latency.
func referenceFMAPeak() (gflops float64) {
	const rounds = 1_000_000
	var sums [8]float64
	x, y := 0.5, 1.0
	for range 3 {
		start := time.Now()
		for range rounds {
			sums[0] = sums[0]*x + y
			sums[1] = sums[1]*x + y
			sums[2] = sums[2]*x + y
			sums[3] = sums[3]*x + y
			sums[4] = sums[4]*x + y
			sums[5] = sums[5]*x + y
			sums[6] = sums[6]*x + y
			sums[7] = sums[7]*x + y
		}
		gflops = max(gflops, 2*8*rounds/float64(time.Since(start).Nanoseconds()))
	}
	return gflops
}
