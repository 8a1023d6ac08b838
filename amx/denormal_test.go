package amx

import (
	"math/rand/v2"
	"runtime"
	"testing"
)

// tiny is a product that is a denormal, and 0 in a thread left to flush them.
//
//go:noinline
func tiny(x, y float32) float32 { return x * y }

// TestDenormalMode: kernels count denormals as 0, and leave the thread's mode as it was.
func TestDenormalMode(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		ops := append(rowOperations(7, 61, 3), gemmForms(33, 70, 300, 1)...)
		for _, op := range append(ops, mixerOperations(20, 90, 1)...) {
			runOperation(k, op, 1, nil)
			if tiny(1e-30, 1e-10) == 0 {
				t.Fatalf("%s leaves denormals flushed", op.name)
			}
		}
	})
}

// TestDenormalOperands: every operation agrees with the reference, which flushes
// nothing, when an operand holds denormals.
func TestDenormalOperands(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		ops := append(rowOperations(4, 40, 2), gemmForms(5, 70, 33, 1)...)
		for _, op := range append(ops, mixerOperations(20, 70, 1)...) {
			for operand := range op.buffers {
				compare(t, k, op, 5, func(i int, g guarded) {
					if i == operand {
						for e := 0; e < g.shape.rows*g.shape.width; e += 3 {
							g.set(e, 1e-40*float32(1+e%7))
						}
					}
				})
			}
		}
	})
}

// TestRounding: in the mode that flushes denormals results are still rounded to
// nearest, which no tolerance would notice: single products equal Go's.
func TestRounding(t *testing.T) {
	const n = 1000
	x, y, got := filled(n, gaussian), filled(1, gaussian), make([]float32, n)
	eachSet(t, func(t *testing.T, k *Kernels) {
		for name, product := range map[string]func(){
			"GatherRows": func() { k.GatherRows(got, x, []int32{0}, 1, n, y[0]) },
			"Gemm32":     func() { k.Gemm32(NN, n, 1, 1, x, 1, y, 1, nil, got, 1) },
		} {
			product()
			for i := range got {
				if want := x[i] * y[0]; got[i] != want {
					t.Fatalf("%s: %v times %v is %v, want %v", name, x[i], y[0], got[i], want)
				}
			}
		}
	})
}

// decayedMoments are AdamW's operands for parameters that get no gradient: their
// moments have decayed to scale.
func decayedMoments(n int, scale float32) [4][]float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	var data [4][]float32 // p, g, m, v
	for i := range data {
		data[i] = make([]float32, n)
	}
	for i := range n {
		data[0][i], data[2][i], data[3][i] = rng.Float32(), scale*(1+rng.Float32()), scale*(1+rng.Float32())
	}
	return data
}

var idleStep = AdamWStep{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Correct1: 1, Correct2: 1, GradScale: 1}

func TestAdamWFlushesMoments(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("kernels flush denormals on amd64 and arm64")
	}
	eachSet(t, func(t *testing.T, k *Kernels) {
		data := decayedMoments(100, 1e-40)
		k.AdamW(data[0], data[1], data[2], data[3], idleStep)
		for i := range data[2] {
			if data[2][i] != 0 || data[3][i] != 0 {
				t.Fatalf("moments %d of a parameter without gradient are %v and %v, want 0", i, data[2][i], data[3][i])
			}
		}
	})
}

// BenchmarkDenormals is AdamW on moments of ordinary size and on such that are denormal.
func BenchmarkDenormals(b *testing.B) {
	const n = 4096
	for _, s := range Sets() {
		for _, c := range []struct {
			name  string
			scale float32
		}{{"normal", 1e-3}, {"denormal", 1e-40}} {
			b.Run(s.Name+"/"+c.name, func(b *testing.B) {
				if !runs(s) {
					b.Skipf("this build or CPU lacks one of %v", s.Needs)
				}
				k := s.New()
				start := decayedMoments(n, c.scale)
				data := decayedMoments(n, c.scale)
				b.ReportMetric(bursts(b, func() {
					copy(data[2], start[2])
					copy(data[3], start[3])
					k.AdamW(data[0], data[1], data[2], data[3], idleStep)
				})/n, "ns/element")
			})
		}
	}
}
