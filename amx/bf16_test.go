package amx

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// eachBF16 runs a test on every set that multiplies in bf16.
func eachBF16(t *testing.T, test func(t *testing.T, k *Kernels)) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		if k.Arithmetic != BF16 {
			t.Skipf("multiplies in %s", k.Arithmetic)
		}
		test(t, k)
	})
}

// bf16Shapes end in tiles and steps that are full, partial or alone.
var bf16Shapes = []struct{ m, n, k int }{{1, 1, 1}, {1, 64, 33}, {6, 64, 32}, {7, 65, 31}, {16, 16, 64}, {33, 47, 700}, {65, 130, 321}}

func filled(n int, value func(*rand.Rand, int) float32) []float32 {
	rng := rand.New(rand.NewPCG(uint64(n), 16))
	x := make([]float32, n)
	for i := range x {
		x[i] = value(rng, i)
	}
	return x
}

// multiply is a product of dense operands: A [m,k] or [k,m], B [k,n] or [n,k].
func multiply(k *Kernels, t Trans, m, n, steps int, a, b, plus []float32) []float32 {
	lda, ldb := steps, n
	switch t {
	case NT:
		ldb = steps
	case TN:
		lda = m
	}
	c := make([]float32, m*n)
	k.Gemm(t, m, n, steps, a, lda, b, ldb, plus, c, n)
	return c
}

// TestBF16Exact: operands that bf16 holds, with sums that fp32 holds, give the
// exact product: every pair is multiplied, once.
func TestBF16Exact(t *testing.T) {
	small := func(rng *rand.Rand, _ int) float32 { return float32(rng.IntN(33) - 16) }
	eachBF16(t, func(t *testing.T, k *Kernels) {
		for _, s := range bf16Shapes {
			a, b, plus := filled(s.m*s.k, small), filled(s.k*s.n, small), filled(s.m*s.n, small)
			for _, trans := range transposes {
				want := multiply(Reference(), trans, s.m, s.n, s.k, a, b, plus)
				for i, got := range multiply(k, trans, s.m, s.n, s.k, a, b, plus) {
					if got != want[i] {
						t.Fatalf("trans %d, %+v: element %d is %v, want %v", trans, s, i, got, want[i])
					}
				}
			}
		}
	})
}

// TestBF16Error: on Gaussian operands the relative rms error is within what the
// format promises, and not much less, or it was not bf16 that was multiplied.
func TestBF16Error(t *testing.T) {
	eachBF16(t, func(t *testing.T, k *Kernels) {
		for _, trans := range transposes {
			const m, n, steps = 40, 50, 900
			a, b := filled(m*steps, gaussian), filled(steps*n, gaussian)
			e := relativeError(multiply(k, trans, m, n, steps, a, b, nil), multiply(Reference(), trans, m, n, steps, a, b, nil))
			if promised := BF16.GemmError(); e > promised || e < promised/2 {
				t.Errorf("trans %d: relative rms error %.2g, want between %.2g and %.2g", trans, e, promised/2, promised)
			}
		}
	})
}

func relativeError(got, want []float32) float64 {
	var wrong, power float64
	for i, w := range want {
		wrong += float64(got[i]-w) * float64(got[i]-w)
		power += float64(w) * float64(w)
	}
	return math.Sqrt(wrong / power)
}

// roundBF16 is the definition: to nearest, ties to even; denormals are 0.
func roundBF16(x float32) float32 {
	bits := math.Float32bits(x)
	switch exponent := bits >> 23 & 0xff; exponent {
	case 0xff:
		return x
	case 0:
		return math.Float32frombits(bits & (1 << 31))
	}
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

// TestBF16Rounding multiplies single numbers by 1, each operand in turn.
func TestBF16Rounding(t *testing.T) {
	x := []float32{0, 1, -1, math.MaxFloat32, -math.MaxFloat32, 3e38, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	for _, bits := range []uint32{
		0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, 0x3fff8000, // ties and their neighbours
		0x007fffff, 0x807fffff, 0x00000001, 0x00800000, 0x00ffffff, // denormals and the least normal numbers
		0x7f7f7fff, 0x7f7f8000, 0x7f800001, 0xff801234, 0x7fc00000, // around infinity; NaN whose payload is lost in rounding
	} {
		x = append(x, math.Float32frombits(bits))
	}
	x = append(x, filled(1000, gaussian)...)
	one := []float32{1}
	check := func(t *testing.T, operand string, got []float32) {
		for i, g := range got {
			want := roundBF16(x[i])
			if g != want && !(g != g && want != want) {
				t.Errorf("%s: %v (%#x) counts as %v, want %v", operand, x[i], math.Float32bits(x[i]), g, want)
			}
		}
	}
	eachBF16(t, func(t *testing.T, k *Kernels) {
		for _, trans := range transposes {
			check(t, fmt.Sprintf("A, trans %d", trans), multiply(k, trans, len(x), 1, 1, x, one, nil))
			check(t, fmt.Sprintf("B, trans %d", trans), multiply(k, trans, 1, len(x), 1, one, x, nil))
		}
	})
}

// TestBF16NonFinite: a number that is none reaches its own row or column and, however
// operands are padded, nothing else.
func TestBF16NonFinite(t *testing.T) {
	eachBF16(t, func(t *testing.T, k *Kernels) {
		for _, s := range bf16Shapes[:5] {
			for _, op := range gemmForms(s.m, s.n, s.k, 1) {
				for operand := range op.buffers {
					for _, last := range []bool{false, true} {
						compare(t, k, op, 1, func(i int, g guarded) {
							if i == operand && last {
								g.set(g.shape.rows*g.shape.width-1, float32(math.NaN()))
							} else if i == operand {
								g.set(0, float32(math.Inf(1)))
							}
						})
					}
				}
			}
		}
	})
}

// TestBF16SetsAgree: both sets round operands alike; only the order of the sums differs.
func TestBF16SetsAgree(t *testing.T) {
	var sets []*Kernels
	for _, s := range Sets() {
		if s.Arithmetic == BF16 && runs(s) {
			sets = append(sets, s.New())
		}
	}
	if len(sets) < 2 {
		t.Skip("fewer than two sets multiply in bf16 here")
	}
	for _, s := range bf16Shapes {
		a, b, plus := filled(s.m*s.k, gaussian), filled(s.k*s.n, gaussian), filled(s.m*s.n, gaussian)
		for _, trans := range transposes {
			one, other := multiply(sets[0], trans, s.m, s.n, s.k, a, b, plus), multiply(sets[1], trans, s.m, s.n, s.k, a, b, plus)
			if e := relativeError(one, other); e > 1e-6 {
				t.Errorf("trans %d, %+v: %s and %s differ by %.2g", trans, s, sets[0].Name, sets[1].Name, e)
			}
		}
	}
}
