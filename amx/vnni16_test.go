package amx

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func int16Kernels(t *testing.T) *Kernels {
	t.Helper()
	for _, s := range Sets() {
		if s.Arithmetic == Int16 {
			if !runs(s) {
				t.Skipf("this build or CPU lacks one of %v", s.Needs)
			}
			return s.New()
		}
	}
	t.Fatal("no set multiplies in int16")
	return nil
}

// gemmOf is op(A).op(B) of A [m,k] and B [k,n], stored as t wants them.
func gemmOf(kernels *Kernels, t Trans, m, n, k int, a, b []float32) []float32 {
	c := make([]float32, m*n)
	lda, ldb := k, n
	if t == TN {
		a, lda = transposed(a, m, k), m
	}
	if t == NT {
		b, ldb = transposed(b, k, n), k
	}
	kernels.Gemm(t, m, n, k, a, lda, b, ldb, nil, c, n)
	return c
}

func transposed(x []float32, rows, cols int) []float32 {
	y := make([]float32, len(x))
	for r := range rows {
		for c := range cols {
			y[c*rows+r] = x[r*cols+c]
		}
	}
	return y
}

// TestInt16Scales: operands whose numbers are whole multiples of 1/2890 of the
// largest in their chunk, at scales far apart, are multiplied without error.
func TestInt16Scales(t *testing.T) {
	const m, n, k, chunk = 19, 37, 512, 256
	kernels := int16Kernels(t)
	rng := rand.New(rand.NewPCG(1, 2))
	whole := func() float32 { return float32(rng.IntN(2*2890+1) - 2890) }
	a, b := make([]float32, m*k), make([]float32, k*n)
	for i := range a {
		row, l := i/k, i%k
		a[i] = whole()
		if l%chunk == row {
			a[i] = -2890
		}
		a[i] *= float32(math.Ldexp(1, row-l/chunk*9))
	}
	for i := range b {
		l, col := i/n, i%n
		b[i] = whole()
		if l%chunk == 200-col {
			b[i] = 2890
		}
		b[i] *= float32(math.Ldexp(1, -2*col+l/chunk*7))
	}
	want := gemmOf(Reference(), NN, m, n, k, a, b)
	for _, trans := range transposes {
		for i, got := range gemmOf(kernels, trans, m, n, k, a, b) {
			terms := 0.0
			for l := range k {
				terms += math.Abs(float64(a[i/n*k+l]) * float64(b[l*n+i%n]))
			}
			if math.Abs(float64(got-want[i])) > 3e-7*terms {
				t.Fatalf("trans %d: element %d is %v, want %v", trans, i, got, want[i])
			}
		}
	}
}

// TestInt16Extremes: the largest sums a chunk can hold do not overflow, nor with
// the largest correction on top: 2,889.5 rounds to 2,890 in every place.
func TestInt16Extremes(t *testing.T) {
	const k = 256
	kernels := int16Kernels(t)
	for _, below := range []float32{1, 2889.5001 / 2890, 2889.4999 / 2890} {
		for i, signs := range []func(l int) float32{
			func(int) float32 { return 1 },
			func(int) float32 { return -1 },
			func(l int) float32 { return float32(1 - l%2*2) },
		} {
			tolerance := 1e-5
			if i == 2 { // the errors add to 0: nothing is corrected
				tolerance = 4e-4
			}
			a, b := make([]float32, k), make([]float32, k)
			for l := range k {
				a[l], b[l] = below*signs(l), below*signs(l)
			}
			a[3], b[3] = signs(3), signs(3)
			want := gemmOf(Reference(), NN, 1, 1, k, a, b)[0]
			for _, trans := range transposes {
				if got := gemmOf(kernels, trans, 1, 1, k, a, b)[0]; math.Abs(float64(got-want)) > tolerance*float64(want) {
					t.Errorf("trans %d, values of %v: got %v, want %v", trans, below, got, want)
				}
			}
		}
	}
}

// TestInt16Range: chunks of zeros, denormals and numbers near float32's ends give
// no NaN; magnitudes below 1e-34 may count as 0.
func TestInt16Range(t *testing.T) {
	const k = 40
	kernels := int16Kernels(t)
	for _, s := range []struct{ a, b float32 }{{0, 1}, {0, 3e38}, {1e-40, 1}, {1e-45, 1e30}, {1e-36, 3e38}, {1e-30, 1e30}, {1e-33, 1e-3}, {3e38, 1e-30}, {1e20, 1e-20}, {1e34, 1e-34}, {3e38, 0}} {
		a, b := make([]float32, k), make([]float32, k)
		for l := range k {
			a[l], b[l] = s.a/float32(1+l%3), s.b/float32(1+l%5)
		}
		want := float64(gemmOf(Reference(), NN, 1, 1, k, a, b)[0])
		negligible := 1e-34 * k * float64(max(s.a, s.b))
		for _, trans := range transposes {
			for _, swap := range []bool{false, true} {
				left, right := a, b
				if swap {
					left, right = b, a
				}
				got := float64(gemmOf(kernels, trans, 1, 1, k, left, right)[0])
				if !(math.Abs(got-want) <= 1e-3*want+negligible) {
					t.Errorf("trans %d, %v times %v: got %v, want %v", trans, left[0], right[0], got, want)
				}
			}
		}
	}
}

// softmaxGradient returns p - 1 at the target, p elsewhere, of `rows` rows over a
// vocabulary, with the table [vocab,d] and the inputs [rows,d] the logits are made
// of, both around a common mean as trained ones are. The targets are drawn from p;
// if sure, every other row gives its target 0.9.
func softmaxGradient(rng *rand.Rand, rows, vocab, d int, spread float64, sure bool) (gradient, table, inputs []float32) {
	around := func(n int) []float32 {
		mean, x := make([]float64, d), make([]float32, n*d)
		for i := range mean {
			mean[i] = 0.5 * rng.NormFloat64()
		}
		for i := range x {
			x[i] = float32(mean[i%d] + rng.NormFloat64())
		}
		return x
	}
	table, inputs = around(vocab), around(rows)
	gradient = make([]float32, rows*vocab)
	logits := make([]float32, rows*vocab)
	Reference().Gemm(NT, rows, vocab, d, inputs, d, table, d, nil, logits, vocab)
	p := make([]float64, vocab)
	for r := range rows {
		normalise := func() {
			sum := 0.0
			for _, x := range p {
				sum += x
			}
			for v := range p {
				p[v] /= sum
			}
		}
		for v := range p {
			p[v] = math.Exp(spread / math.Sqrt(float64(d)) * float64(logits[r*vocab+v]))
		}
		normalise()
		target, u := 0, rng.Float64()-p[0]
		for u > 0 && target < vocab-1 {
			target++
			u -= p[target]
		}
		if sure && r%2 == 1 {
			p[target] = 9 * (1 - p[target])
			normalise()
		}
		for v := range p {
			gradient[r*vocab+v] = float32(p[v])
		}
		gradient[r*vocab+target] -= 1
	}
	return gradient, table, inputs
}

// errorsOf compares [m,n] results. rms is relative to the results' rms; bias is
// that of the rows' sum, relative to the sum of the rows' magnitudes: it falls
// with the number of rows if errors are noise.
func errorsOf(got, want []float32, n int) (rms, bias float64) {
	var squares, power, biases, magnitudes float64
	for c := range n {
		var sum, magnitude float64
		for i := c; i < len(want); i += n {
			e := float64(got[i]) - float64(want[i])
			squares += e * e
			power += float64(want[i]) * float64(want[i])
			sum += e
			magnitude += math.Abs(float64(want[i]))
		}
		biases += sum * sum
		magnitudes += magnitude * magnitude
	}
	return math.Sqrt(squares / power), math.Sqrt(biases / magnitudes)
}

// TestInt16Distributions: on what training multiplies, int16 is closer to float64
// than bf16 is by rms, and by bias too but in the readout's NN form at init, where
// its bias is twice bf16's (5e-4 of the magnitudes summed). Run with -v for the
// table. The gradients are where the correction is needed: without it their bias is
// 25 to 190 times as large.
func TestInt16Distributions(t *testing.T) {
	kernels := int16Kernels(t)
	rng := rand.New(rand.NewPCG(5, 6))
	filled := func(n int, value func() float64) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(value())
		}
		return x
	}
	relu2 := func() float64 { x := max(0, rng.NormFloat64()); return x * x }
	check := func(name string, trans Trans, m, n, k int, a, b []float32) {
		want := gemmOf(Reference(), trans, m, n, k, a, b)
		rms, bias := errorsOf(gemmOf(kernels, trans, m, n, k, a, b), want, n)
		for _, x := range [][]float32{a, b} {
			for i := range x {
				x[i] = roundBF16(x[i])
			}
		}
		rmsBF16, biasBF16 := errorsOf(gemmOf(Reference(), trans, m, n, k, a, b), want, n)
		t.Logf("%-32s int16: rms %.1e, bias %.1e   bf16: rms %.1e, bias %.1e", name, rms, bias, rmsBF16, biasBF16)
		if rms > 0.8*rmsBF16 || bias > 3*biasBF16 {
			t.Errorf("%s: int16 errs by rms %.1e, bias %.1e, bf16 by %.1e, %.1e", name, rms, bias, rmsBF16, biasBF16)
		}
	}
	const rows, vocab, d = 256, 4096, 32
	check("Gaussian", NN, rows, d, 1024, filled(rows*1024, rng.NormFloat64), filled(1024*d, rng.NormFloat64))
	check("relu2 times Gaussian", NN, rows, d, 640, filled(rows*640, func() float64 { return relu2() * rng.NormFloat64() }), filled(640*d, rng.NormFloat64))
	check("relu2", NN, rows, d, 640, filled(rows*640, relu2), filled(640*d, func() float64 { return 0.5 + rng.NormFloat64() }))
	for _, s := range []struct {
		name   string
		spread float64
		sure   bool
	}{{"at init", 0.1, false}, {"trained", 2, false}, {"sure of half", 2, true}} {
		gradient, table, inputs := softmaxGradient(rng, rows, vocab, d, s.spread, s.sure)
		check(fmt.Sprintf("softmax gradient %s, NN", s.name), NN, rows, d, vocab, append([]float32(nil), gradient...), table)
		check(fmt.Sprintf("softmax gradient %s, TN", s.name), TN, vocab, d, rows, transposed(gradient, rows, vocab), inputs)
	}
}
