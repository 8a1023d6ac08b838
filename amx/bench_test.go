package amx

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"
)

// The benchmarks name the set in their path. Run them on one core,
//
//	taskset -c 1 go test ./amx -run=NONE -bench=Gemm/avx512
//
// Others may share the machine, which only ever makes a call slower: rates are
// therefore those of the fastest burst of calls, in processor time, as the peak
// is the rate of the fastest burst of multiply-adds in the same process; and the
// fraction is worth more than the rate. ns/op is the mean, disturbances included.

// bursts runs call until b has enough and returns the nanoseconds of one call in
// the fastest burst; a burst lasts at least 100 microseconds.
func bursts(b *testing.B, call func()) (fastest float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := ThreadTime()
	call()
	perBurst := 1 + int(100*time.Microsecond/max(ThreadTime()-start, 1))
	fastest = math.Inf(1)
	for b.Loop() {
		start := ThreadTime()
		for range perBurst {
			call()
		}
		fastest = min(fastest, float64((ThreadTime()-start).Nanoseconds())/float64(perBurst))
	}
	return fastest
}

// gemmShapes are those of a d=128 and a d=256 model: projections, readout,
// weight gradients, attention within a block, one streamed token.
var gemmShapes = []struct {
	trans        Trans
	m, k, n, pad int
}{
	{NN, 1024, 128, 640, 0},
	{NN, 1024, 320, 128, 0},
	{NN, 1024, 128, 192, 0},
	{NN, 2048, 256, 1280, 0},
	{NT, 512, 128, 4096, 0},
	{NT, 1024, 640, 128, 0},
	{TN, 128, 1024, 640, 0},
	{TN, 320, 1024, 128, 0},
	{TN, 256, 2048, 1280, 0},
	{NT, 64, 32, 64, 608},
	{NT, 128, 32, 192, 352},
	{NN, 64, 64, 32, 608},
	{NN, 128, 192, 32, 352},
	{TN, 192, 128, 32, 352},
	{TN, 32, 64, 32, 352},
	{NN, 1, 384, 1536, 0},
	{NT, 1, 384, 1536, 0},
	{NT, 1, 128, 4096, 0},
	{NN, 1, 128, 640, 0},
}

func BenchmarkGemm(b *testing.B) {
	for _, s := range Sets() {
		b.Run(s.Name, func(b *testing.B) {
			if !s.Available() {
				b.Skipf("this build or CPU lacks one of %v", s.Needs)
			}
			k := s.New()
			for _, shape := range gemmShapes {
				op := gemmOperation(shape.trans, shape.m, shape.n, shape.k, shape.pad, false)
				b.Run(op.name, func(b *testing.B) {
					data := operands(k, op)
					peak := s.FMAPeak()
					flops := 2 * float64(shape.m) * float64(shape.n) * float64(shape.k)
					gflops := flops / bursts(b, func() { op.run(k, data) })
					b.ReportMetric(gflops, "GFLOP/s")
					b.ReportMetric(gflops/peak, "of-peak")
					b.ReportMetric(peak, "peak-GFLOP/s")
				})
			}
		})
	}
}

func BenchmarkOperations(b *testing.B) {
	for _, s := range Sets() {
		b.Run(s.Name, func(b *testing.B) {
			if !s.Available() {
				b.Skipf("this build or CPU lacks one of %v", s.Needs)
			}
			k := s.New()
			for _, op := range rowOperations(1024, 128, 0) {
				b.Run(op.name, func(b *testing.B) {
					data := operands(k, op)
					elements := 0 // of the largest operand
					for _, shape := range op.buffers {
						elements = max(elements, shape.rows*shape.width)
					}
					b.ReportMetric(bursts(b, func() { op.run(k, data) })/float64(elements), "ns/element")
				})
			}
		})
	}
}

func BenchmarkFMAPeak(b *testing.B) {
	for _, s := range Sets() {
		b.Run(s.Name, func(b *testing.B) {
			if !s.Available() {
				b.Skipf("this build or CPU lacks one of %v", s.Needs)
			}
			best := 0.0
			for b.Loop() {
				best = max(best, s.FMAPeak())
			}
			b.ReportMetric(best, "GFLOP/s")
		})
	}
}

// operands returns op's buffers filled and warm: op has run on them once.
func operands(k *Kernels, op operation) [][]float32 {
	var data [][]float32
	for _, g := range runOperation(k, op, 47, nil) { // seed 47 starts the first operand at a multiple of 32
		data = append(data, g.data())
	}
	return data
}

func ExampleSelect() {
	k, err := Select("portable")
	if err != nil {
		fmt.Println(err)
		return
	}
	c := make([]float32, 1)
	k.Gemm(NN, 1, 1, 2, []float32{1, 2}, 2, []float32{3, 4}, 1, nil, c, 1)
	fmt.Println(k.Name, c[0])
	// Output: portable 11
}
