package amx

import (
	"math/bits"
	"slices"
	"time"
)

// Work is what one operation did at one class of shapes, over all its calls.
type Work struct {
	Op      string // the field of Kernels
	Trans   Trans  // of a product
	M, N, K int    // the largest shape of the class: rows and width, and a product's K
	Calls   int64
	Time    time.Duration
	FLOP    float64 // a multiply-add counts 2, an exp expFLOP
	Bytes   float64 // compulsory traffic: every operand read once, every result written once
	Span    float64 // bytes that a cache must hold to serve it: the largest call's operands, or those of all updates
}

// Profile collects the Work of Timed kernels. It is as little safe for
// concurrent use as they are.
type Profile struct {
	clock func() time.Duration
	lines map[class]*Work
	order []*Work
}

// class groups calls of nearly one shape: segments, last blocks and the readout's
// columns differ from step to step. Rows and all that is large agree to the next power of
// two, but a product's matrix agrees exactly.
type class struct {
	op      string
	trans   Trans
	m, n, k int
}

func classOf(op string, t Trans, m, n, k int) class {
	rough := func(x int) int { return -bits.Len(uint(max(x-1, 0))) }
	exact := func(x int) int {
		if x > 2048 {
			return rough(x)
		}
		return x
	}
	switch {
	case k == 0:
		return class{op, t, rough(m), rough(n), 0}
	case t == TN:
		return class{op, t, exact(m), exact(n), rough(k)}
	}
	return class{op, t, rough(m), exact(n), exact(k)}
}

// Work returns a copy of what was collected, in the order of first calls.
func (p *Profile) Work() []Work {
	var all []Work
	for _, w := range p.order {
		if w.Calls > 0 {
			all = append(all, *w)
		}
	}
	return slices.Clip(all)
}

// Reset starts the counting anew.
func (p *Profile) Reset() {
	for _, w := range p.order {
		w.Calls, w.Time, w.FLOP, w.Bytes, w.Span = 0, 0, 0, 0, 0
	}
}

// cost is what one call asks of the machine, in floats and operations.
type cost struct {
	flop          int
	read, written int  // floats
	updated       int  // floats both read and written
	fresh         bool // no other call until Reset finds these operands in a cache
}

// expFLOP is what an exp costs, in the slots of the multiply-add units that the
// vector code occupies: 12 instructions, each as dear as a multiply-add.
const expFLOP = 24

// time runs call and books it. A class seen before costs no allocation.
func (p *Profile) time(op string, t Trans, m, n, k int, c cost, call func()) {
	start := p.clock()
	call()
	took := p.clock() - start
	key := classOf(op, t, m, n, k)
	w := p.lines[key]
	if w == nil {
		w = &Work{Op: op, Trans: t}
		p.lines[key] = w
		p.order = append(p.order, w)
	}
	w.M, w.N, w.K = max(w.M, m), max(w.N, n), max(w.K, k)
	w.Calls++
	w.Time += took
	w.FLOP += float64(c.flop)
	w.Bytes += 4 * float64(c.read+c.written+2*c.updated)
	span := 4 * float64(c.read+c.written+c.updated)
	if c.fresh {
		span += w.Span
	}
	w.Span = max(w.Span, span)
}

// product is the cost of C [m,n] = plus + A.B.
func product(m, n, k int, plus, c []float32) cost {
	x := cost{flop: 2 * m * n * k, read: m*k + k*n, written: m * n}
	if len(plus) > 0 && len(c) > 0 {
		if &plus[0] == &c[0] {
			x.written, x.updated = 0, m*n
		} else {
			x.read += m * n
		}
	}
	return x
}

// Timed returns kernels that run k's, and the profile that they fill with the
// time that passes on clock.
func Timed(k *Kernels, clock func() time.Duration) (*Kernels, *Profile) {
	p := &Profile{clock: clock, lines: map[class]*Work{}}
	t := &Kernels{Name: k.Name, Arithmetic: k.Arithmetic}
	p.products(t, k)
	p.rows(t, k)
	p.softmaxes(t, k)
	p.mixers(t, k)
	p.updates(t, k)
	return t, p
}

func (p *Profile) products(to, k *Kernels) {
	to.Gemm = func(t Trans, m, n, steps int, a []float32, lda int, b []float32, ldb int, plus, c []float32, ldc int) {
		p.time("Gemm", t, m, n, steps, product(m, n, steps, plus, c), func() {
			k.Gemm(t, m, n, steps, a, lda, b, ldb, plus, c, ldc)
		})
	}
	to.Gemm32 = func(t Trans, m, n, steps int, a []float32, lda int, b []float32, ldb int, plus, c []float32, ldc int) {
		p.time("Gemm32", t, m, n, steps, product(m, n, steps, plus, c), func() {
			k.Gemm32(t, m, n, steps, a, lda, b, ldb, plus, c, ldc)
		})
	}
	to.Pack = func(to *Packed, t Trans, n, steps int, b []float32, ldb int) {
		p.time("Pack", t, 0, n, steps, cost{read: n * steps, written: n * steps}, func() { k.Pack(to, t, n, steps, b, ldb) })
	}
	to.GemmPacked = func(m int, a []float32, lda int, b *Packed, plus, c []float32, ldc int) {
		p.time("GemmPacked", b.t, m, b.n, b.k, product(m, b.n, b.k, plus, c), func() { k.GemmPacked(m, a, lda, b, plus, c, ldc) })
	}
}

func (p *Profile) rows(to, k *Kernels) {
	to.RMSNorm = func(y, rstd, x, gain []float32, rows, d int, eps float32) {
		p.time("RMSNorm", 0, rows, d, 0, cost{flop: 4 * rows * d, read: rows*d + d, written: rows*d + rows}, func() {
			k.RMSNorm(y, rstd, x, gain, rows, d, eps)
		})
	}
	to.RMSNormBackward = func(dX, dGain, y, dY, x, gain, rstd []float32, rows, d int) {
		p.time("RMSNormBackward", 0, rows, d, 0, cost{flop: 13 * rows * d, read: 2*rows*d + rows + d, written: rows * d, updated: rows*d + d}, func() {
			k.RMSNormBackward(dX, dGain, y, dY, x, gain, rstd, rows, d)
		})
	}
	to.GatedAct = func(h, gu []float32, rows, f int, act Activation) {
		p.time("GatedAct", 0, rows, f, 0, cost{flop: (3 + sigmoidFLOP(act)) * rows * f, read: 2 * rows * f, written: rows * f}, func() {
			k.GatedAct(h, gu, rows, f, act)
		})
	}
	to.GatedActBackward = func(dGU, h, gu, dH []float32, rows, f int, act Activation) {
		p.time("GatedActBackward", 0, rows, f, 0, cost{flop: (7 + sigmoidFLOP(act)) * rows * f, updated: 3 * rows * f}, func() {
			k.GatedActBackward(dGU, h, gu, dH, rows, f, act)
		})
	}
	to.SigmoidGate = func(out, y, gate []float32, rows, w, ldg int) {
		p.time("SigmoidGate", 0, rows, w, 0, cost{flop: (2 + expFLOP) * rows * w, read: 2 * rows * w, written: rows * w}, func() {
			k.SigmoidGate(out, y, gate, rows, w, ldg)
		})
	}
	to.SigmoidGateBackward = func(dY, dGate, dOut, y, gate []float32, rows, w, ldg, lddg int) {
		p.time("SigmoidGateBackward", 0, rows, w, 0, cost{flop: (6 + expFLOP) * rows * w, read: 3 * rows * w, written: 2 * rows * w}, func() {
			k.SigmoidGateBackward(dY, dGate, dOut, y, gate, rows, w, ldg, lddg)
		})
	}
	to.Rotary = func(x []float32, rows, ld, heads, dh int, pos []int32, cos, sin []float32, sign float32) {
		p.time("Rotary", 0, rows, heads*dh, 0, cost{flop: 3 * rows * heads * dh, read: rows * (dh + 1), updated: rows * heads * dh}, func() {
			k.Rotary(x, rows, ld, heads, dh, pos, cos, sin, sign)
		})
	}
	to.ScaleRows = func(table, s []float32, idx []int32, rows, d int) {
		p.time("ScaleRows", 0, rows, d, 0, cost{flop: rows * d, read: 2 * rows, updated: rows * d}, func() { k.ScaleRows(table, s, idx, rows, d) })
	}
	to.GatherRows = func(dst, table []float32, idx []int32, rows, d int, scale float32) {
		p.time("GatherRows", 0, rows, d, 0, cost{flop: rows * d, read: rows*d + rows, written: rows * d}, func() {
			k.GatherRows(dst, table, idx, rows, d, scale)
		})
	}
	to.ScatterAddRows = func(table, src []float32, idx []int32, rows, d int, scale float32) {
		p.time("ScatterAddRows", 0, rows, d, 0, cost{flop: 2 * rows * d, read: rows*d + rows, updated: rows * d}, func() {
			k.ScatterAddRows(table, src, idx, rows, d, scale)
		})
	}
}

func sigmoidFLOP(act Activation) int {
	if act == SiLU {
		return expFLOP + 4
	}
	return 0
}

func (p *Profile) softmaxes(to, k *Kernels) {
	to.SoftmaxBand = func(s []float32, rows, cols, ld, off, window int, scale float32) {
		p.time("SoftmaxBand", 0, rows, cols, 0, cost{flop: (5 + expFLOP) * rows * cols, updated: rows * cols}, func() {
			k.SoftmaxBand(s, rows, cols, ld, off, window, scale)
		})
	}
	to.SoftmaxXent = func(loss, logits, bias []float32, target []int32, rows, cols, ld int, scale float32) {
		c := cost{flop: (5 + expFLOP) * rows * cols, read: 2*rows + len(bias), written: rows, updated: rows * cols}
		if scale == 0 {
			c.read, c.updated = c.read+c.updated, 0
		}
		p.time("SoftmaxXent", 0, rows, cols, 0, c, func() { k.SoftmaxXent(loss, logits, bias, target, rows, cols, ld, scale) })
	}
}

func (p *Profile) mixers(to, k *Kernels) {
	// seen is how many positions all queries of a segment see together.
	seen := func(s AttentionShape) int {
		w := min(s.Window, s.N)
		return s.Heads * (w*(w+1)/2 + (s.N-w)*w)
	}
	to.Attention = func(out, norm, in []float32, s AttentionShape) {
		row := s.Heads * s.HeadWidth
		c := cost{flop: seen(s) * (4*s.HeadWidth + expFLOP + 3), read: s.N * (row + 2*s.HeadWidth), written: s.N * (row + s.Heads)}
		p.time("Attention", 0, s.N, row, 0, c, func() { k.Attention(out, norm, in, s) })
	}
	to.AttentionBackward = func(dIn, in, out, dOut, norm []float32, s AttentionShape) {
		row := s.Heads * s.HeadWidth
		c := cost{flop: seen(s) * (10*s.HeadWidth + expFLOP + 3), read: s.N * (3*row + 2*s.HeadWidth + s.Heads), written: s.N * (row + 2*s.HeadWidth)}
		p.time("AttentionBackward", 0, s.N, row, 0, c, func() { k.AttentionBackward(dIn, in, out, dOut, norm, s) })
	}
	// A position's products: scores and their sum over half a chunk, and the state's update and reading.
	linear := func(s LinearShape, passes int) cost {
		half := min(s.N, LinearChunk) / 2
		row := s.Heads * s.HeadWidth
		flop := s.N * (2*half*(s.State+row) + 4*s.State*row + half*s.Heads*(expFLOP+2))
		return cost{flop: passes * flop, read: s.N * (2*s.State + row + s.Heads), written: s.N*row + s.States()}
	}
	to.LinearAttention = func(out, states, in, bias []float32, s LinearShape) {
		p.time("LinearAttention", 0, s.N, s.Heads*s.HeadWidth, 0, linear(s, 1), func() { k.LinearAttention(out, states, in, bias, s) })
	}
	to.LinearAttentionBackward = func(dIn, states, in, dOut, bias []float32, s LinearShape) {
		p.time("LinearAttentionBackward", 0, s.N, s.Heads*s.HeadWidth, 0, linear(s, 3), func() {
			k.LinearAttentionBackward(dIn, states, in, dOut, bias, s)
		})
	}
}

func (p *Profile) updates(to, k *Kernels) {
	to.AdamW = func(w, g, m, v []float32, s AdamWStep) {
		p.time("AdamW", 0, 1, len(w), 0, cost{flop: 16 * len(w), read: len(w), updated: 3 * len(w), fresh: true}, func() { k.AdamW(w, g, m, v, s) })
	}
	to.AdamWRows = func(w, g, m, v []float32, idx []int32, correct1, correct2 []float32, rows, d int, s AdamWStep) {
		n := rows * d
		p.time("AdamWRows", 0, rows, d, 0, cost{flop: 16 * n, read: n + 3*rows, updated: 3 * n, fresh: true}, func() {
			k.AdamWRows(w, g, m, v, idx, correct1, correct2, rows, d, s)
		})
	}
	to.SumSquares = func(x []float32) (sum float64) {
		p.time("SumSquares", 0, 1, len(x), 0, cost{flop: 2 * len(x), read: len(x), fresh: true}, func() { sum = k.SumSquares(x) })
		return sum
	}
	to.Dot = func(x, y []float32) (sum float64) {
		p.time("Dot", 0, 1, len(x), 0, cost{flop: 2 * len(x), read: 2 * len(x), fresh: true}, func() { sum = k.Dot(x, y) })
		return sum
	}
}
