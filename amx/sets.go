package amx

import (
	"slices"
	"time"

	"golang.org/x/sys/cpu"
)

// Arithmetic is the format in which a set multiplies matrices; it adds in float32.
type Arithmetic string

const (
	FP32  Arithmetic = "fp32"
	BF16  Arithmetic = "bf16"  // operands rounded to 8 significant bits
	Int16 Arithmetic = "int16" // operands scaled to 12 bits over each row's blocks of K
)

// GemmError bounds the relative rms error of a Gemm with Gaussian operands.
func (a Arithmetic) GemmError() float64 {
	switch a {
	case BF16:
		return 3e-3
	case Int16:
		return 6e-4
	default:
		return 1e-6
	}
}

// Set is one way to compute everything: an instruction set, and the format of
// its matrix products.
type Set struct {
	Name       string
	Arithmetic Arithmetic
	// Needs names the CPU features the set asks for, as Machine.Flags spells them.
	Needs []string
	// Available reports whether this build contains the set and this CPU runs it.
	Available func() bool
	// New returns kernels with scratch of their own: one value per goroutine.
	New func() *Kernels
	// FMAPeak measures the set's fp32 multiply-add rate on registers, in GFLOP/s:
	// the ceiling to quote an fp32 GEMM's speed against. It takes some 10 ms.
	FMAPeak func() float64
	// Peak measures the rate of the set's own arithmetic on registers alone, in
	// billions of operations a second. For an fp32 set it is FMAPeak.
	Peak func() float64
}

var needsAVX512 = []string{"avx512f", "avx512dq", "avx512bw", "avx512vl", "fma", "bmi2"}

func hasAVX512() bool {
	x := cpu.X86
	return tableAVX512() != nil && x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL && x.HasFMA && x.HasBMI2
}

// with512 is the avx512 set with matrix products of its own.
func with512(name string, a Arithmetic, has func() bool, table func() *ckernels, peak func() float64, features ...string) Set {
	return Set{
		Name: name, Arithmetic: a, Needs: append(slices.Clone(needsAVX512), features...),
		Available: func() bool { return hasAVX512() && has() },
		New:       func() *Kernels { return fromC(name, a, table) },
		FMAPeak:   func() float64 { return peakFromC(table) },
		Peak:      peak,
	}
}

// Sets lists every set; the last two run anywhere.
func Sets() []Set {
	return []Set{
		with512("amx", BF16, func() bool { return cpu.X86.HasAVX512BF16 && amxPermitted() }, tableAMX, peakTile, "amx_bf16", "avx512_bf16"),
		with512("vnni16", Int16, func() bool { return cpu.X86.HasAVX512VNNI }, tableVNNI16, peakInt16, "avx512_vnni"),
		with512("avx512bf16", BF16, func() bool { return cpu.X86.HasAVX512BF16 }, tableAVX512BF16, peakBF16, "avx512_bf16"),
		{
			Name: "avx512", Arithmetic: FP32, Needs: needsAVX512,
			Available: hasAVX512,
			New:       func() *Kernels { return fromC("avx512", FP32, tableAVX512) },
			FMAPeak:   func() float64 { return peakFromC(tableAVX512) },
			Peak:      func() float64 { return peakFromC(tableAVX512) },
		},
		{
			Name: "avx2", Arithmetic: FP32, Needs: []string{"avx2", "fma", "bmi2"},
			Available: func() bool {
				return tableAVX2() != nil && cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasBMI2
			},
			New:     func() *Kernels { return fromC("avx2", FP32, tableAVX2) },
			FMAPeak: func() float64 { return peakFromC(tableAVX2) },
			Peak:    func() float64 { return peakFromC(tableAVX2) },
		},
		{
			Name: "portable", Arithmetic: FP32,
			Available: func() bool { return true },
			New:       func() *Kernels { return fromC("portable", FP32, tablePortable) },
			FMAPeak:   func() float64 { return peakFromC(tablePortable) },
			Peak:      func() float64 { return peakFromC(tablePortable) },
		},
		{
			Name: "reference", Arithmetic: FP32,
			Available: func() bool { return true },
			New:       Reference,
			FMAPeak:   referenceFMAPeak,
			Peak:      referenceFMAPeak,
		},
	}
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
