package amx

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

var transposes = []Trans{NN, NT, TN}

func TestGemmTails(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		for size := 1; size <= 70; size++ {
			for _, trans := range transposes {
				compare(t, k, gemmOperation(trans, size, 1+(size*7)%67, 1+(size*11)%40, 0, false), uint64(size), nil)
				compare(t, k, gemmOperation(trans, 1+(size*13)%15, size, 1+(size*5)%9, 3, true), uint64(size), nil)
				compare(t, k, gemmOperation(trans, 1+(size*3)%7, 1+(size*17)%140, size, size%2, size%3 == 0), uint64(size), nil)
			}
		}
	})
}

// gemmForms is one product in every form and orientation.
func gemmForms(m, n, k, pad int) (ops []operation) {
	for _, trans := range transposes {
		for _, form := range []gemmForm{{}, {accumulate: true}, {residual: true}, {packed: true}, {packed: true, accumulate: true}, {packed: true, residual: true}} {
			ops = append(ops, gemmOperationIn(form, trans, m, n, k, pad))
		}
	}
	return ops
}

func TestGemmForms(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		for _, s := range []struct{ m, n, k, pad int }{{1, 1, 1, 0}, {1, 300, 70, 2}, {5, 64, 256, 0}, {9, 40, 1300, 0}, {13, 65, 257, 3}, {70, 129, 515, 1}} {
			for _, op := range gemmForms(s.m, s.n, s.k, s.pad) {
				compare(t, k, op, uint64(s.n), nil)
			}
		}
	})
}

// TestPackedBits: packing B first changes no bit.
func TestPackedBits(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		for _, s := range []struct{ m, n, k int }{{1, 33, 300}, {1, 700, 40}, {7, 128, 64}, {100, 200, 520}} {
			for _, trans := range transposes {
				plain := runOperation(k, gemmOperationIn(gemmForm{}, trans, s.m, s.n, s.k, 1), 3, nil)[2]
				packed := runOperation(k, gemmOperationIn(gemmForm{packed: true}, trans, s.m, s.n, s.k, 1), 3, nil)[2]
				for i := range s.m * s.n {
					if plain.at(i) != packed.at(i) {
						t.Fatalf("trans %d, %+v: element %d is %v, and %v with B packed", trans, s, i, plain.at(i), packed.at(i))
					}
				}
			}
		}
	})
}

func TestPackedByAnother(t *testing.T) {
	p := new(Packed)
	Reference().Pack(p, NN, 1, 1, []float32{1}, 1)
	portable, err := Select("portable")
	if err != nil {
		t.Fatal(err)
	}
	if message := panicOf(func() { portable.GemmPacked(1, []float32{1}, 1, p, nil, []float32{0}, 1) }); message == "" {
		t.Error("an operand packed by another set did not panic")
	}
}

func TestGemmLarge(t *testing.T) {
	shapes := []struct{ m, n, k int }{{1, 600, 300}, {13, 200, 520}, {100, 65, 257}, {64, 64, 32}, {5, 128, 1000}}
	eachSet(t, func(t *testing.T, k *Kernels) {
		for _, s := range shapes {
			for _, trans := range transposes {
				compare(t, k, gemmOperation(trans, s.m, s.n, s.k, 16, false), 1, nil)
				compare(t, k, gemmOperation(trans, s.m, s.n, s.k, 0, true), 2, nil)
			}
		}
	})
}

func TestGemmEmpty(t *testing.T) {
	for _, s := range Sets() {
		if !runs(s) {
			continue
		}
		k := s.New()
		c := []float32{7}
		k.Gemm(NN, 0, 1, 1, nil, 1, []float32{1}, 1, nil, nil, 1)
		k.Gemm(NN, 1, 1, 0, nil, 0, nil, 1, c, c, 1)
		if c[0] != 7 {
			t.Errorf("%s: accumulating an empty product changed C to %v", s.Name, c[0])
		}
		k.Gemm(NN, 1, 1, 0, nil, 0, nil, 1, nil, c, 1)
		if c[0] != 0 {
			t.Errorf("%s: an empty product left C at %v", s.Name, c[0])
		}
	}
}

func TestGemmNonFinite(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		for _, trans := range transposes {
			for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
				for operand := range 3 {
					compare(t, k, gemmOperation(trans, 20, 37, 19, 2, true), 1, func(i int, g guarded) {
						if i == operand {
							g.set(g.shape.rows*g.shape.width/2, bad)
						}
					})
				}
			}
		}
	})
}

// TestBatchInvariance: a row of A gives the same bits alone, among a few and
// among many rows, wherever it stands, with B packed or not. There are more rows than
// any engine treats at a time, and K of one block and of several.
func TestBatchInvariance(t *testing.T) {
	const rows = 600
	eachSet(t, func(t *testing.T, kernels *Kernels) {
		for _, trans := range transposes {
			for _, shape := range []struct{ n, k int }{{300, 70}, {33, 600}, {1, 257}, {70, 1300}} {
				n, k := shape.n, shape.k
				a, b := filled(rows*k, gaussian), filled(n*k, gaussian)
				ldb := n
				if trans == NT {
					ldb = k
				}
				var packed Packed
				kernels.Pack(&packed, trans, n, k, b, ldb)
				// products are rows [from,from+m) of A alone, times B and times B packed.
				products := func(from, m int) [2][]float32 {
					plain, again := make([]float32, m*n), make([]float32, m*n)
					part, lda := a[from*k:], k
					if trans == TN {
						part, lda = a[from:], rows
					}
					kernels.Gemm(trans, m, n, k, part, lda, b, ldb, nil, plain, n)
					kernels.GemmPacked(m, part, lda, &packed, nil, again, n)
					return [2][]float32{plain, again}
				}
				all := products(0, rows)[0]
				for _, part := range []struct{ from, m int }{{0, 600}, {0, 1}, {599, 1}, {300, 1}, {3, 2}, {7, 5}, {11, 6}, {100, 13}, {1, 64}, {239, 361}, {40, 257}} {
					for form, product := range products(part.from, part.m) {
						for i, got := range product {
							if want := all[part.from*n+i]; math.Float32bits(got) != math.Float32bits(want) {
								t.Fatalf("trans %d, n %d, k %d, packed %t: rows %d+%d alone give %v at %d, among %d rows %v",
									trans, n, k, form == 1, part.from, part.m, got, i, rows, want)
							}
						}
					}
				}
			}
		}
	})
}

// TestRowInvariance: the same for operations that work row by row.
func TestRowInvariance(t *testing.T) {
	const rows, d = 37, 45
	rng := rand.New(rand.NewPCG(9, 9))
	x, gain := make([]float32, rows*2*d), make([]float32, 2*d)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for i := range gain {
		gain[i] = float32(rng.NormFloat64())
	}
	target := indices(rows, d)
	eachSet(t, func(t *testing.T, k *Kernels) {
		forward := func(from, m int) [][]float32 {
			y, rstd := make([]float32, m*d), make([]float32, m)
			k.RMSNorm(y, rstd, x[from*d:], gain, m, d, 1e-6)
			h := make([]float32, m*d)
			k.GatedAct(h, x[from*2*d:], m, d, SiLU)
			loss, logits := make([]float32, m), append([]float32(nil), x[from*d:(from+m)*d]...)
			k.SoftmaxXent(loss, logits, gain, target[from:], m, d, d, 1)
			return [][]float32{y, h, logits, rstd, loss}
		}
		all := forward(0, rows)
		for r := range rows {
			for i, got := range forward(r, 1) {
				for c := range got {
					if want := all[i][r*len(got)+c]; got[c] != want {
						t.Fatalf("result %d, row %d, column %d: %v alone, %v in the batch", i, r, c, got[c], want)
					}
				}
			}
		}
	})
}

func TestShapePanics(t *testing.T) {
	x := make([]float32, 10)
	for _, s := range Sets() {
		if !runs(s) {
			continue
		}
		k := s.New()
		for name, call := range map[string]func(){
			"short c":           func() { k.Gemm(NN, 4, 3, 1, x, 1, x, 3, nil, x, 3) },
			"stride too small":  func() { k.Gemm(NN, 2, 3, 1, x, 1, x, 3, nil, x, 2) },
			"short gain":        func() { k.RMSNorm(x, x, x, x[:2], 2, 5, 0) },
			"index past table":  func() { k.GatherRows(x, x, []int32{2}, 1, 5, 1) },
			"negative index":    func() { k.ScatterAddRows(x, x, []int32{-1}, 1, 5, 1) },
			"target past row":   func() { k.SoftmaxXent(x, x, nil, []int32{5}, 1, 5, 5, 0) },
			"band past columns": func() { k.SoftmaxBand(x, 2, 5, 5, 5, 1, 1) },
			"band before first": func() { k.SoftmaxBand(x, 2, 5, 5, -1, 5, 1) },
			"short moments":     func() { k.AdamW(x, x, x[:9], x, AdamWStep{}) },
			"lengths differ":    func() { k.Dot(x[:9], x) },
		} {
			if message := panicOf(call); message == "" {
				t.Errorf("%s: %s did not panic", s.Name, name)
			}
		}
	}
}

func panicOf(call func()) (message string) {
	defer func() {
		if r := recover(); r != nil {
			message = fmt.Sprint(r)
		}
	}()
	call()
	return ""
}
