package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"time"

	"harness/amx"
)

const (
	burstTime = 2 * time.Millisecond   // a burst of calls lasts at least this long
	wayTime   = 150 * time.Millisecond // all bursts of one way to form a product
	minBursts = 5
)

// timeSet times one kernel set at one shape, with everything counted and with B
// packed beforehand, and checks what it computed.
func timeSet(set amx.Set, s shape) (result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a, b, c := operands(s)
	t, k := forms[s.Form], set.New()
	lda, ldb := s.strides()
	r := result{Peak: set.FMAPeak()}
	flops := 2 * float64(s.M) * float64(s.K) * float64(s.N)
	tolerance := 2 * set.Arithmetic.GemmError() // of a sample

	r.Rate = flops / fastest(func() { k.Gemm(t, s.M, s.N, s.K, a, lda, b, ldb, nil, c, s.N) })
	if got := sampledError(s, a, b, c); !(got <= tolerance) {
		return r, fmt.Errorf("relative error %.2g, want at most %.2g", got, tolerance)
	}
	clear(c)
	var packed amx.Packed
	k.Pack(&packed, t, s.N, s.K, b, ldb)
	r.PackedRate = flops / fastest(func() { k.GemmPacked(s.M, a, lda, &packed, nil, c, s.N) })
	if got := sampledError(s, a, b, c); !(got <= tolerance) {
		return r, fmt.Errorf("B packed beforehand: relative error %.2g, want at most %.2g", got, tolerance)
	}
	return r, nil
}

// operands are Gaussian, as activations and weights are.
func operands(s shape) (a, b, c []float32) {
	rng := rand.New(rand.NewPCG(uint64(s.M), uint64(s.N)))
	a, b, c = make([]float32, s.M*s.K), make([]float32, s.K*s.N), make([]float32, s.M*s.N)
	for _, x := range [][]float32{a, b} {
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
	}
	return a, b, c
}

// strides are the widths of A's and B's stored rows.
func (s shape) strides() (lda, ldb int) {
	switch s.Form {
	case "NT":
		return s.K, s.K
	case "TN":
		return s.M, s.N
	default:
		return s.K, s.N
	}
}

// fastest returns the nanoseconds of one call in the fastest burst of calls.
func fastest(call func()) float64 {
	call()
	start := amx.ThreadTime()
	call()
	perBurst := 1 + int(burstTime/max(amx.ThreadTime()-start, 1))
	best, spent := math.Inf(1), time.Duration(0)
	for i := 0; i < minBursts || spent < wayTime; i++ {
		start := amx.ThreadTime()
		for range perBurst {
			call()
		}
		burst := amx.ThreadTime() - start
		spent += burst
		best = min(best, float64(burst.Nanoseconds())/float64(perBurst))
	}
	return best
}

// sampledError is the relative rms error of 64 elements of C, the last among them.
func sampledError(s shape, a, b, c []float32) float64 {
	lda, ldb := s.strides()
	var errors, squares float64
	for probe := range 64 {
		i, j := s.M-1-probe*7919%s.M, s.N-1-probe*104729%s.N
		want := 0.0
		for l := range s.K {
			atA, atB := i*lda+l, l*ldb+j
			if s.Form == "TN" {
				atA = l*lda + i
			}
			if s.Form == "NT" {
				atB = j*ldb + l
			}
			want += float64(a[atA]) * float64(b[atB])
		}
		got := float64(c[i*s.N+j])
		errors += (got - want) * (got - want)
		squares += want * want
	}
	return math.Sqrt(errors / squares)
}
