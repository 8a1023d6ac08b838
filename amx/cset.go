package amx

// #cgo LDFLAGS: -lm
// #include "flush.h"
// #include "kernels.h"
//
// static long packed_size(const kernel_set *s, int trans, long n, long k) {
//	return s->gemm->packed_size(trans, n, k);
// }
// static void pack(const kernel_set *s, void *packed, int trans, long n, long k, const float *b, long ldb) {
//	s->gemm->pack(packed, trans, n, k, b, ldb);
// }
// static long scratch_size(const kernel_set *s, int trans, long m, long n, long k) {
//	return s->gemm->scratch_size(trans, m, n, k);
// }
// static void gemm(const kernel_set *s, int trans, long m, long n, long k, const float *a, long lda, const float *b,
//                  long ldb, const void *packed, const float *plus, float *c, long ldc, void *scratch) {
//	s->gemm->gemm(trans, m, n, k, a, lda, b, ldb, packed, plus, c, ldc, scratch);
// }
// static long scratch_size32(const kernel_set *s, int trans, long m, long n, long k) {
//	return s->gemm32->scratch_size(trans, m, n, k);
// }
// static void gemm32(const kernel_set *s, int trans, long m, long n, long k, const float *a, long lda, const float *b,
//                    long ldb, const float *plus, float *c, long ldc, void *scratch) {
//	s->gemm32->gemm(trans, m, n, k, a, lda, b, ldb, NULL, plus, c, ldc, scratch);
// }
// static void rmsnorm(const kernel_set *s, float *y, float *rstd, const float *x, const float *gain, long rows, long d,
//                     float eps) {
//	FLUSHED s->rmsnorm(y, rstd, x, gain, rows, d, eps);
// }
// static void rmsnorm_backward(const kernel_set *s, float *dx, float *dgain, float *y, const float *dy,
//                              const float *x, const float *gain, const float *rstd, long rows, long d) {
//	FLUSHED s->rmsnorm_backward(dx, dgain, y, dy, x, gain, rstd, rows, d);
// }
// static void gated_act(const kernel_set *s, float *h, const float *gu, long rows, long f, int act) {
//	FLUSHED s->gated_act(h, gu, rows, f, act);
// }
// static void gated_act_backward(const kernel_set *s, float *dgu, float *h, const float *gu, const float *dh, long rows, long f,
//                                int act) {
//	FLUSHED s->gated_act_backward(dgu, h, gu, dh, rows, f, act);
// }
// static void sigmoid_gate(const kernel_set *s, float *out, const float *y, const float *gate, long rows, long w,
//                          long ldg) {
//	FLUSHED s->sigmoid_gate(out, y, gate, rows, w, ldg);
// }
// static void sigmoid_gate_backward(const kernel_set *s, float *dy, float *dgate, const float *dout, const float *y,
//                                   const float *gate, long rows, long w, long ldg, long lddg) {
//	FLUSHED s->sigmoid_gate_backward(dy, dgate, dout, y, gate, rows, w, ldg, lddg);
// }
// static void rotary(const kernel_set *s, float *x, long rows, long ld, long heads, long dh, const int *pos,
//                    const float *cos, const float *sin, float sign) {
//	FLUSHED s->rotary(x, rows, ld, heads, dh, pos, cos, sin, sign);
// }
// static void softmax_band(const kernel_set *s, float *p, long rows, long cols, long ld, long off, long window,
//                          float scale) {
//	FLUSHED s->softmax_band(p, rows, cols, ld, off, window, scale);
// }
// static void scale_rows(const kernel_set *s, float *table, const float *f, const int *idx, long rows, long d) {
//	FLUSHED s->scale_rows(table, f, idx, rows, d);
// }
// static void gather_rows(const kernel_set *s, float *dst, const float *table, const int *idx, long rows, long d,
//                         float scale) {
//	FLUSHED s->gather_rows(dst, table, idx, rows, d, scale);
// }
// static void scatter_add_rows(const kernel_set *s, float *table, const float *src, const int *idx, long rows, long d,
//                              float scale) {
//	FLUSHED s->scatter_add_rows(table, src, idx, rows, d, scale);
// }
// static void softmax_xent(const kernel_set *s, float *loss, float *logits, const float *bias, const int *target,
//                          long rows, long cols, long ld, float scale) {
//	FLUSHED s->softmax_xent(loss, logits, bias, target, rows, cols, ld, scale);
// }
// static long attention_scratch(const kernel_set *s, long n, long heads, long dh) {
//	return s->attention_scratch(n, heads, dh);
// }
// static void attention(const kernel_set *s, float *out, long ldo, float *lse, const float *in, long ld, long n,
//                       long heads, long dh, long window, float scale, void *scratch) {
//	FLUSHED s->attention(out, ldo, lse, in, ld, n, heads, dh, window, scale, scratch);
// }
// static void attention_backward(const kernel_set *s, float *din, const float *in, long ld, const float *out,
//                                const float *dout, long ldo, const float *lse, long n, long heads, long dh,
//                                long window, float scale, void *scratch) {
//	FLUSHED s->attention_backward(din, in, ld, out, dout, ldo, lse, n, heads, dh, window, scale, scratch);
// }
// static long linear_scratch(const kernel_set *s, long heads, long state, long dh) {
//	return s->linear_scratch(heads, state, dh);
// }
// static void linear_attention(const kernel_set *s, float *out, long ldo, float *states, const float *in, long ld,
//                              const float *bias, long n, long heads, long state, long dh, void *scratch) {
//	FLUSHED s->linear_attention(out, ldo, states, in, ld, bias, n, heads, state, dh, scratch);
// }
// static void linear_attention_backward(const kernel_set *s, float *din, const float *states, const float *in, long ld,
//                                       const float *dout, long ldo, const float *bias, long n, long heads, long state,
//                                       long dh, void *scratch) {
//	FLUSHED s->linear_attention_backward(din, states, in, ld, dout, ldo, bias, n, heads, state, dh, scratch);
// }
// static void adamw(const kernel_set *s, float *p, const float *g, float *m, float *v, long n, float lr, float beta1,
//                   float beta2, float eps, float decay, float correct1, float correct2, float grad_scale) {
//	adamw_step step = {lr, beta1, beta2, eps, decay, correct1, correct2, grad_scale};
//	FLUSHED s->adamw(p, g, m, v, n, step);
// }
// static void adamw_rows(const kernel_set *s, float *p, const float *g, float *m, float *v, const int *idx,
//                        const float *correct1, const float *correct2, long rows, long d, float lr, float beta1,
//                        float beta2, float eps, float decay, float grad_scale) {
//	adamw_step step = {lr, beta1, beta2, eps, decay, 0, 0, grad_scale};
//	FLUSHED s->adamw_rows(p, g, m, v, idx, correct1, correct2, rows, d, step);
// }
// static double sum_squares(const kernel_set *s, const float *x, long n) { return s->sum_squares(x, n); }
// static double dot(const kernel_set *s, const float *x, const float *y, long n) { return s->dot(x, y, n); }
// static double fma_peak(const kernel_set *s, long rounds, float *sink) { return s->fma_peak(rounds, sink); }
//
// #cgo noescape gemm
// #cgo nocallback gemm
// #cgo noescape gemm32
// #cgo nocallback gemm32
// #cgo nocallback scratch_size32
// #cgo nocallback packed_size
// #cgo noescape pack
// #cgo nocallback pack
// #cgo nocallback scratch_size
// #cgo noescape rmsnorm
// #cgo nocallback rmsnorm
// #cgo noescape rmsnorm_backward
// #cgo nocallback rmsnorm_backward
// #cgo noescape gated_act
// #cgo nocallback gated_act
// #cgo noescape gated_act_backward
// #cgo nocallback gated_act_backward
// #cgo noescape sigmoid_gate
// #cgo nocallback sigmoid_gate
// #cgo noescape sigmoid_gate_backward
// #cgo nocallback sigmoid_gate_backward
// #cgo noescape rotary
// #cgo nocallback rotary
// #cgo noescape softmax_band
// #cgo nocallback softmax_band
// #cgo noescape scale_rows
// #cgo nocallback scale_rows
// #cgo noescape gather_rows
// #cgo nocallback gather_rows
// #cgo noescape scatter_add_rows
// #cgo nocallback scatter_add_rows
// #cgo noescape softmax_xent
// #cgo nocallback softmax_xent
// #cgo noescape adamw
// #cgo nocallback adamw
// #cgo noescape attention
// #cgo nocallback attention
// #cgo noescape attention_backward
// #cgo nocallback attention_backward
// #cgo noescape linear_attention
// #cgo nocallback linear_attention
// #cgo noescape linear_attention_backward
// #cgo nocallback linear_attention_backward
// #cgo noescape adamw_rows
// #cgo nocallback adamw_rows
// #cgo nocallback attention_scratch
// #cgo nocallback linear_scratch
// #cgo noescape sum_squares
// #cgo nocallback sum_squares
// #cgo noescape dot
// #cgo nocallback dot
// #cgo noescape fma_peak
// #cgo nocallback fma_peak
import "C"

import (
	"time"
	"unsafe"
)

// ckernels is a set's table in C.
type ckernels = C.kernel_set

// The C tables, or nil where this build does not contain the set.
func tableAVX512() *C.kernel_set     { return C.kernels_avx512() }
func tableAVX2() *C.kernel_set       { return C.kernels_avx2() }
func tablePortable() *C.kernel_set   { return C.kernels_portable() }
func tableVNNI16() *C.kernel_set     { return C.kernels_vnni16() }
func tableAVX512BF16() *C.kernel_set { return C.kernels_avx512bf16() }
func tableAMX() *C.kernel_set        { return C.kernels_amx() }

// floats and ints return the address of a slice's first element for the length
// of one call; shapes were checked before.
func floats(x []float32) *C.float { return (*C.float)(unsafe.SliceData(x)) }
func ints(x []int32) *C.int       { return (*C.int)(unsafe.SliceData(x)) }

// fromC returns the kernels of a C table with scratch of their own, which makes
// them the property of one goroutine. Each operation is one call into C.
func fromC(name string, arithmetic Arithmetic, table func() *ckernels) *Kernels {
	s := table()
	var scratch memory // of one call, grown to the largest need seen
	reserve := func(t Trans, m, n, k int) unsafe.Pointer {
		return scratch.reserve(int(C.scratch_size(s, C.int(t), C.long(m), C.long(n), C.long(k))))
	}
	return checked(Kernels{
		Name: name, Arithmetic: arithmetic,
		Gemm: func(t Trans, m, n, k int, a []float32, lda int, b []float32, ldb int, plus, c []float32, ldc int) {
			if m == 0 || n == 0 {
				return
			}
			C.gemm(s, C.int(t), C.long(m), C.long(n), C.long(k), floats(a), C.long(lda), floats(b), C.long(ldb), nil,
				floats(plus), floats(c), C.long(ldc), reserve(t, m, n, k))
		},
		Gemm32: func(t Trans, m, n, k int, a []float32, lda int, b []float32, ldb int, plus, c []float32, ldc int) {
			if m == 0 || n == 0 {
				return
			}
			space := scratch.reserve(int(C.scratch_size32(s, C.int(t), C.long(m), C.long(n), C.long(k))))
			C.gemm32(s, C.int(t), C.long(m), C.long(n), C.long(k), floats(a), C.long(lda), floats(b), C.long(ldb),
				floats(plus), floats(c), C.long(ldc), space)
		},
		Pack: func(p *Packed, t Trans, n, k int, b []float32, ldb int) {
			to := p.memory.reserve(int(C.packed_size(s, C.int(t), C.long(n), C.long(k))))
			C.pack(s, to, C.int(t), C.long(n), C.long(k), floats(b), C.long(ldb))
		},
		GemmPacked: func(m int, a []float32, lda int, b *Packed, plus, c []float32, ldc int) {
			if m == 0 || b.n == 0 {
				return
			}
			C.gemm(s, C.int(b.t), C.long(m), C.long(b.n), C.long(b.k), floats(a), C.long(lda), nil, 0, b.memory.start(),
				floats(plus), floats(c), C.long(ldc), reserve(b.t, m, b.n, b.k))
		},
		RMSNorm: func(y, rstd, x, gain []float32, rows, d int, eps float32) {
			C.rmsnorm(s, floats(y), floats(rstd), floats(x), floats(gain), C.long(rows), C.long(d), C.float(eps))
		},
		RMSNormBackward: func(dX, dGain, y, dY, x, gain, rstd []float32, rows, d int) {
			C.rmsnorm_backward(s, floats(dX), floats(dGain), floats(y), floats(dY), floats(x), floats(gain), floats(rstd),
				C.long(rows), C.long(d))
		},
		GatedAct: func(h, gu []float32, rows, f int, act Activation) {
			C.gated_act(s, floats(h), floats(gu), C.long(rows), C.long(f), C.int(act))
		},
		GatedActBackward: func(dGU, h, gu, dH []float32, rows, f int, act Activation) {
			C.gated_act_backward(s, floats(dGU), floats(h), floats(gu), floats(dH), C.long(rows), C.long(f), C.int(act))
		},
		SigmoidGate: func(out, y, gate []float32, rows, w, ldg int) {
			C.sigmoid_gate(s, floats(out), floats(y), floats(gate), C.long(rows), C.long(w), C.long(ldg))
		},
		SigmoidGateBackward: func(dY, dGate, dOut, y, gate []float32, rows, w, ldg, lddg int) {
			C.sigmoid_gate_backward(s, floats(dY), floats(dGate), floats(dOut), floats(y), floats(gate), C.long(rows),
				C.long(w), C.long(ldg), C.long(lddg))
		},
		Rotary: func(x []float32, rows, ld, heads, dh int, pos []int32, cos, sin []float32, sign float32) {
			C.rotary(s, floats(x), C.long(rows), C.long(ld), C.long(heads), C.long(dh), ints(pos), floats(cos),
				floats(sin), C.float(sign))
		},
		SoftmaxBand: func(p []float32, rows, cols, ld, off, window int, scale float32) {
			C.softmax_band(s, floats(p), C.long(rows), C.long(cols), C.long(ld), C.long(off), C.long(window), C.float(scale))
		},
		ScaleRows: func(table, factors []float32, idx []int32, rows, d int) {
			C.scale_rows(s, floats(table), floats(factors), ints(idx), C.long(rows), C.long(d))
		},
		GatherRows: func(dst, table []float32, idx []int32, rows, d int, scale float32) {
			C.gather_rows(s, floats(dst), floats(table), ints(idx), C.long(rows), C.long(d), C.float(scale))
		},
		ScatterAddRows: func(table, src []float32, idx []int32, rows, d int, scale float32) {
			C.scatter_add_rows(s, floats(table), floats(src), ints(idx), C.long(rows), C.long(d), C.float(scale))
		},
		SoftmaxXent: func(loss, logits, bias []float32, target []int32, rows, cols, ld int, scale float32) {
			C.softmax_xent(s, floats(loss), floats(logits), floats(bias), ints(target), C.long(rows), C.long(cols),
				C.long(ld), C.float(scale))
		},
		Attention: func(out, norm, in []float32, a AttentionShape) {
			space := scratch.reserve(int(C.attention_scratch(s, C.long(a.N), C.long(a.Heads), C.long(a.HeadWidth))))
			C.attention(s, floats(out), C.long(a.Out), floats(norm), floats(in), C.long(a.In), C.long(a.N), C.long(a.Heads),
				C.long(a.HeadWidth), C.long(min(a.Window, a.N)), C.float(a.Scale), space)
		},
		AttentionBackward: func(dIn, in, out, dOut, norm []float32, a AttentionShape) {
			space := scratch.reserve(int(C.attention_scratch(s, C.long(a.N), C.long(a.Heads), C.long(a.HeadWidth))))
			C.attention_backward(s, floats(dIn), floats(in), C.long(a.In), floats(out), floats(dOut), C.long(a.Out),
				floats(norm), C.long(a.N), C.long(a.Heads), C.long(a.HeadWidth), C.long(min(a.Window, a.N)), C.float(a.Scale), space)
		},
		LinearAttention: func(out, states, in, bias []float32, a LinearShape) {
			space := scratch.reserve(int(C.linear_scratch(s, C.long(a.Heads), C.long(a.State), C.long(a.HeadWidth))))
			C.linear_attention(s, floats(out), C.long(a.Out), floats(states), floats(in), C.long(a.In), floats(bias),
				C.long(a.N), C.long(a.Heads), C.long(a.State), C.long(a.HeadWidth), space)
		},
		LinearAttentionBackward: func(dIn, states, in, dOut, bias []float32, a LinearShape) {
			space := scratch.reserve(int(C.linear_scratch(s, C.long(a.Heads), C.long(a.State), C.long(a.HeadWidth))))
			C.linear_attention_backward(s, floats(dIn), floats(states), floats(in), C.long(a.In), floats(dOut),
				C.long(a.Out), floats(bias), C.long(a.N), C.long(a.Heads), C.long(a.State), C.long(a.HeadWidth), space)
		},
		AdamW: func(p, g, m, v []float32, a AdamWStep) {
			C.adamw(s, floats(p), floats(g), floats(m), floats(v), C.long(len(p)), C.float(a.LR), C.float(a.Beta1),
				C.float(a.Beta2), C.float(a.Eps), C.float(a.Decay), C.float(a.Correct1), C.float(a.Correct2),
				C.float(a.GradScale))
		},
		AdamWRows: func(p, g, m, v []float32, idx []int32, correct1, correct2 []float32, rows, d int, a AdamWStep) {
			C.adamw_rows(s, floats(p), floats(g), floats(m), floats(v), ints(idx), floats(correct1), floats(correct2),
				C.long(rows), C.long(d), C.float(a.LR), C.float(a.Beta1), C.float(a.Beta2), C.float(a.Eps), C.float(a.Decay),
				C.float(a.GradScale))
		},
		SumSquares: func(x []float32) float64 { return float64(C.sum_squares(s, floats(x), C.long(len(x)))) },
		Dot:        func(x, y []float32) float64 { return float64(C.dot(s, floats(x), floats(y), C.long(len(x)))) },
	})
}

// peakFromC times multiply-adds on registers alone: the best of several short
// bursts, because whatever shares the machine only ever makes a burst slower.
func peakFromC(table func() *C.kernel_set) (gflops float64) {
	s := table()
	sink := []float32{0.5, 1, 0}
	for range 10 {
		start := time.Now()
		operations := float64(C.fma_peak(s, 200_000, floats(sink)))
		gflops = max(gflops, operations/float64(time.Since(start).Nanoseconds()))
	}
	return gflops
}
