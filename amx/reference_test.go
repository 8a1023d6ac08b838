package amx

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// guardBits is a NaN that no arithmetic produces: what lies outside an operand's
// shape holds it before a call and must still hold it afterwards.
const guardBits = 0x7fc0beef

// guarded is a buffer's memory: bands before, behind and between its rows.
type guarded struct {
	shape buffer
	all   []float32
	start int
}

func newGuarded(shape buffer, rng *rand.Rand, start int) guarded {
	const band = 33
	g := guarded{shape, make([]float32, start+span(shape)+band), start}
	for i := range g.all {
		g.all[i] = math.Float32frombits(guardBits)
	}
	for i := range shape.rows * shape.width {
		g.set(i, shape.value(rng, i))
	}
	return g
}

func span(s buffer) int {
	if s.rows == 0 || s.width == 0 {
		return 0
	}
	return (s.rows-1)*s.ld + s.width
}

// data is the operand as a kernel sees it: it ends with the last row's last column.
func (g guarded) data() []float32 { return g.all[g.start : g.start+span(g.shape)] }

// place is the position in data of element i of rows*width.
func (g guarded) place(i int) int { return i/g.shape.width*g.shape.ld + i%g.shape.width }

func (g guarded) at(i int) float32     { return g.data()[g.place(i)] }
func (g guarded) set(i int, x float32) { g.data()[g.place(i)] = x }

// checkGuards reports an element outside the shape that was written to.
func (g guarded) checkGuards() error {
	for i, x := range g.all {
		at := i - g.start
		inside := at >= 0 && at < span(g.shape) && at%g.shape.ld < g.shape.width
		if !inside && math.Float32bits(x) != guardBits {
			return fmt.Errorf("wrote %v outside the shape, at element %d of [%d,%d] with row stride %d",
				x, at, g.shape.rows, g.shape.width, g.shape.ld)
		}
	}
	return nil
}

// runOperation fills fresh operands from seed, each starting at an address of its
// own alignment, and runs op on them.
func runOperation(k *Kernels, op operation, seed uint64, spoil func(operand int, g guarded)) []guarded {
	rng := rand.New(rand.NewPCG(seed, 1))
	operands := make([]guarded, len(op.buffers))
	data := make([][]float32, len(op.buffers))
	for i, shape := range op.buffers {
		operands[i] = newGuarded(shape, rng, 17+(int(seed)+3*i)%16)
		data[i] = operands[i].data()
		if spoil != nil {
			spoil(i, operands[i])
		}
	}
	op.run(k, data)
	return operands
}

// difference compares one operand after two runs: NaN and infinities must agree
// (but for their kind, if anyKind), the rest within tolerance of their power, which
// counts as floor at least.
func difference(got, want guarded, tolerance, floor float64, anyKind bool) error {
	if err := got.checkGuards(); err != nil {
		return err
	}
	var wrong, power float64
	for i := range want.shape.rows * want.shape.width {
		g, w := float64(got.at(i)), float64(want.at(i))
		if !finite(w) || !finite(g) {
			same := g == w || math.IsNaN(g) && math.IsNaN(w)
			if anyKind {
				same = !finite(g) && !finite(w)
			}
			if !same {
				return fmt.Errorf("element %d of [%d,%d]: got %v, want %v", i, want.shape.rows, want.shape.width, g, w)
			}
			continue
		}
		wrong += (g - w) * (g - w)
		power += w * w
	}
	if nmse := wrong / max(power, floor); nmse > tolerance {
		return fmt.Errorf("[%d,%d] differs: normalised mean squared error %.2g > %.2g",
			want.shape.rows, want.shape.width, nmse, tolerance)
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// compare runs op on k and on the reference. A Gemm's tolerance is its format's;
// in 16 bits an infinite operand may give NaN where the reference gives infinity.
func compare(t *testing.T, k *Kernels, op operation, seed uint64, spoil func(int, guarded)) {
	t.Helper()
	want := runOperation(Reference(), op, seed, spoil)
	got := runOperation(k, op, seed, spoil)
	// The floor forgives results that should all be 0: they may differ by 1e-7.
	tolerance, floor, anyKind := op.tolerance, 1e-2, false
	if op.gemm {
		tolerance = k.Arithmetic.GemmError() * k.Arithmetic.GemmError()
	}
	if op.gemm && k.Arithmetic != FP32 {
		// What products that cancel lose counts against the power they would have on
		// average; and a few operands may all round as badly as can be.
		c := op.buffers[2]
		steps := float64(op.buffers[0].rows*op.buffers[0].width) / float64(c.rows)
		tolerance *= 1 + 6/math.Sqrt(steps*float64(min(c.rows, c.width)))
		floor, anyKind = steps*float64(c.rows*c.width), true
	}
	for i := range want {
		if err := difference(got[i], want[i], tolerance, floor, anyKind); err != nil {
			t.Errorf("%s, operand %d: %v (tolerance: %s)", op.name, i, err, op.why)
		}
	}
}

// eachSet runs a test on every set but the reference itself.
func eachSet(t *testing.T, test func(t *testing.T, k *Kernels)) {
	for _, s := range Sets() {
		if s.Name == "reference" {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			if !runs(s) {
				t.Skipf("this build or CPU lacks one of %v", s.Needs)
			}
			test(t, s.New())
		})
	}
}

func TestTails(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		for w := 1; w <= 70; w++ {
			for _, op := range rowOperations(1+w%5, w, w%3*7) {
				compare(t, k, op, uint64(w), nil)
			}
		}
	})
}

func TestLongRows(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		for _, op := range rowOperations(3, 300, 5) {
			compare(t, k, op, 1, nil)
		}
		for _, op := range rowOperations(130, 32, 0) {
			compare(t, k, op, 2, nil)
		}
	})
}

func TestNonFinite(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			eachSet(t, func(t *testing.T, k *Kernels) {
				for _, w := range []int{5, 19, 40} {
					for _, op := range rowOperations(4, w, 2) {
						for operand := range op.buffers {
							compare(t, k, op, 5, func(i int, g guarded) {
								if i == operand {
									last := g.shape.rows*g.shape.width - 1
									g.set(0, bad)
									g.set(last/2, bad)
									g.set(last, bad)
								}
							})
						}
					}
				}
			})
		})
	}
}

func TestSameBitsTwice(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		ops := append(rowOperations(7, 61, 3), gemmForms(33, 70, 300, 1)...)
		for _, op := range ops {
			first := runOperation(k, op, 3, nil)
			// Other work in between must leave nothing behind, scratch included.
			runOperation(k, gemmOperation(TN, 90, 130, 400, 0, false), 4, nil)
			if at := firstDifference(first, runOperation(k, op, 3, nil)); at != "" {
				t.Fatalf("%s, %s", op.name, at)
			}
		}
	})
}

func TestNoAllocations(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		ops := append(rowOperations(7, 61, 3), gemmForms(33, 70, 300, 0)...)
		for _, op := range ops {
			data := make([][]float32, len(op.buffers))
			for i, g := range runOperation(k, op, 3, nil) {
				data[i] = g.data()
			}
			if n := testing.AllocsPerRun(5, func() { op.run(k, data) }); n != 0 {
				t.Errorf("%s allocates %v times a call", op.name, n)
			}
		}
	})
}

// TestScratchAllocatesOnce: scratch that a product needed is enough for every smaller
// one. The count is the whole process's, in which the Go runtime may allocate too at any
// moment: fresh kernels that allocate nothing in one of three tries will do.
func TestScratchAllocatesOnce(t *testing.T) {
	const m, n, k = 300, 150, 1300
	a, b, c := make([]float32, m*k), make([]float32, n*k), make([]float32, m*n)
	eachSet(t, func(t *testing.T, kernels *Kernels) {
		set := Sets()[slices.IndexFunc(Sets(), func(s Set) bool { return s.Name == kernels.Name })]
		least := uint64(math.MaxUint64)
		for range 3 {
			kernels := set.New()
			multiply := func(trans Trans, m, n, k int) {
				lda, ldb := k, n
				if trans == TN {
					lda = m
				} else if trans == NT {
					ldb = k
				}
				kernels.Gemm(trans, m, n, k, a, lda, b, ldb, nil, c, n)
			}
			for _, trans := range transposes {
				multiply(trans, m, n, k)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, trans := range transposes {
				for _, smaller := range []int{1280, 1024, 640, 320, 256} {
					multiply(trans, m, n, smaller)
					multiply(trans, 256, 20, smaller)
				}
			}
			runtime.ReadMemStats(&after)
			if least = min(least, after.Mallocs-before.Mallocs); least == 0 {
				return
			}
		}
		t.Errorf("%d allocations", least)
	})
}

// TestExp reads vexp off SigmoidGate for x > 0 (far below 0, sigmoid(x) is
// 1/exp(-x)) and off SoftmaxBand for x <= 0, beside a score so much larger that it
// alone is the sum.
func TestExp(t *testing.T) {
	const n = 40_000
	x, y, got := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range x {
		x[i], y[i] = -110+float32(i)*(220.0/n), 1
	}
	scores := make([]float32, n)
	eachSet(t, func(t *testing.T, k *Kernels) {
		k.SigmoidGate(got, y, x, 1, n, n)
		for i := range x {
			want := sigmoid(float64(x[i]))
			if want < 3e-38 { // it reaches 0 where exp(-x) leaves float32
				if got[i] > 3.1e-38 {
					t.Fatalf("sigmoid(%v) = %v, want at most %v", x[i], got[i], want)
				}
				continue
			}
			if relative := math.Abs(float64(got[i])-want) / want; relative > 4e-7 {
				t.Fatalf("sigmoid(%v) = %v, want %v: relative error %.2g", x[i], got[i], want, relative)
			}
		}
		for i := range scores {
			scores[i] = -30 - float32(i)/512 // differences to 0 are exact
		}
		scores[0] = 0
		k.SoftmaxBand(scores, 1, n, n, n-1, n, 1)
		for i, got := range scores {
			exponent := -30 - float64(i)/512
			if i == 0 {
				exponent = 0
			}
			want := math.Exp(exponent)
			if exponent < -87.3 {
				want = 0
			}
			if math.Abs(float64(got)-want) > 2e-7*want {
				t.Fatalf("exp(%v) = %v, want %v", exponent, got, want)
			}
		}
	})
}
