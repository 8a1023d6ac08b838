package amx

// #cgo LDFLAGS: -lm
// #include "kernels.h"
//
// static void gemm(const kernel_set *s, int trans, long m, long n, long k, const float *a, long lda, const float *b,
//                  long ldb, float *c, long ldc, int accumulate, float *scratch) {
//	s->gemm(trans, m, n, k, a, lda, b, ldb, c, ldc, accumulate, scratch);
// }
// static long gemm_scratch(const kernel_set *s, int trans, long m, long n, long k) {
//	return s->gemm_scratch(trans, m, n, k);
// }
// static void rmsnorm(const kernel_set *s, float *y, float *rstd, const float *x, const float *gain, long rows, long d,
//                     float eps) {
//	s->rmsnorm(y, rstd, x, gain, rows, d, eps);
// }
// static void rmsnorm_backward(const kernel_set *s, float *dx, float *dgain, const float *dy, const float *x,
//                              const float *gain, const float *rstd, long rows, long d) {
//	s->rmsnorm_backward(dx, dgain, dy, x, gain, rstd, rows, d);
// }
// static void gated_act(const kernel_set *s, float *h, const float *gu, long rows, long f, int act) {
//	s->gated_act(h, gu, rows, f, act);
// }
// static void gated_act_backward(const kernel_set *s, float *dgu, const float *gu, const float *dh, long rows, long f,
//                                int act) {
//	s->gated_act_backward(dgu, gu, dh, rows, f, act);
// }
// static void sigmoid_gate(const kernel_set *s, float *out, const float *y, const float *gate, long rows, long w,
//                          long ldg) {
//	s->sigmoid_gate(out, y, gate, rows, w, ldg);
// }
// static void sigmoid_gate_backward(const kernel_set *s, float *dy, float *dgate, const float *dout, const float *y,
//                                   const float *gate, long rows, long w, long ldg, long lddg) {
//	s->sigmoid_gate_backward(dy, dgate, dout, y, gate, rows, w, ldg, lddg);
// }
// static void rotary(const kernel_set *s, float *x, long rows, long ld, long heads, long dh, const int *pos,
//                    const float *cos, const float *sin, float sign) {
//	s->rotary(x, rows, ld, heads, dh, pos, cos, sin, sign);
// }
// static void softmax_band(const kernel_set *s, float *p, long rows, long cols, long ld, long off, long window,
//                          float scale) {
//	s->softmax_band(p, rows, cols, ld, off, window, scale);
// }
// static void softmax_band_backward(const kernel_set *s, float *dp, const float *p, long rows, long cols, long ld,
//                                   float scale) {
//	s->softmax_band_backward(dp, p, rows, cols, ld, scale);
// }
// static void decay_scores(const kernel_set *s, float *dst, const float *m, const float *cum, long n, long ld) {
//	s->decay_scores(dst, m, cum, n, ld);
// }
// static void decay_scores_backward(const kernel_set *s, float *dm, float *dcum, const float *ddst, const float *m,
//                                   const float *cum, long n, long ld) {
//	s->decay_scores_backward(dm, dcum, ddst, m, cum, n, ld);
// }
// static void scale_rows(const kernel_set *s, float *dst, const float *src, const float *f, long rows, long w, long ldd,
//                        long lds, int accumulate) {
//	s->scale_rows(dst, src, f, rows, w, ldd, lds, accumulate);
// }
// static void row_dots(const kernel_set *s, float *out, const float *a, const float *b, long rows, long w, long lda,
//                      long ldb) {
//	s->row_dots(out, a, b, rows, w, lda, ldb);
// }
// static void gather_rows(const kernel_set *s, float *dst, const float *table, const int *idx, long rows, long d,
//                         float scale) {
//	s->gather_rows(dst, table, idx, rows, d, scale);
// }
// static void scatter_add_rows(const kernel_set *s, float *table, const float *src, const int *idx, long rows, long d,
//                              float scale) {
//	s->scatter_add_rows(table, src, idx, rows, d, scale);
// }
// static void softmax_xent(const kernel_set *s, float *loss, float *logits, const float *bias, const int *target,
//                          long rows, long cols, long ld, float scale) {
//	s->softmax_xent(loss, logits, bias, target, rows, cols, ld, scale);
// }
// static void adamw(const kernel_set *s, float *p, const float *g, float *m, float *v, long n, float lr, float beta1,
//                   float beta2, float eps, float decay, float correct1, float correct2, float grad_scale) {
//	adamw_step step = {lr, beta1, beta2, eps, decay, correct1, correct2, grad_scale};
//	s->adamw(p, g, m, v, n, step);
// }
// static double sum_squares(const kernel_set *s, const float *x, long n) { return s->sum_squares(x, n); }
// static double fma_peak(const kernel_set *s, long rounds, float *sink) { return s->fma_peak(rounds, sink); }
//
// #cgo noescape gemm
// #cgo nocallback gemm
// #cgo nocallback gemm_scratch
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
// #cgo noescape softmax_band_backward
// #cgo nocallback softmax_band_backward
// #cgo noescape decay_scores
// #cgo nocallback decay_scores
// #cgo noescape decay_scores_backward
// #cgo nocallback decay_scores_backward
// #cgo noescape scale_rows
// #cgo nocallback scale_rows
// #cgo noescape row_dots
// #cgo nocallback row_dots
// #cgo noescape gather_rows
// #cgo nocallback gather_rows
// #cgo noescape scatter_add_rows
// #cgo nocallback scatter_add_rows
// #cgo noescape softmax_xent
// #cgo nocallback softmax_xent
// #cgo noescape adamw
// #cgo nocallback adamw
// #cgo noescape sum_squares
// #cgo nocallback sum_squares
// #cgo noescape fma_peak
// #cgo nocallback fma_peak
import "C"

import (
	"time"
	"unsafe"
)

// The C tables, or nil where this build does not contain the set.
func tableAVX512() *C.kernel_set   { return C.kernels_avx512() }
func tableAVX2() *C.kernel_set     { return C.kernels_avx2() }
func tablePortable() *C.kernel_set { return C.kernels_portable() }

// floats and ints return the address of a slice's first element for the length
// of one call; shapes were checked before.
func floats(x []float32) *C.float { return (*C.float)(unsafe.SliceData(x)) }
func ints(x []int32) *C.int       { return (*C.int)(unsafe.SliceData(x)) }

func flag(set bool) C.int {
	if set {
		return 1
	}
	return 0
}

// fromC returns the kernels of a C table with scratch of their own, which makes
// them the property of one goroutine. Each operation is one call into C.
func fromC(name string, table func() *C.kernel_set) *Kernels {
	s := table()
	var scratch []float32 // packed panels of Gemm, grown to the largest shape seen
	return checked(Kernels{
		Name: name,
		Gemm: func(t Trans, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
			if m == 0 || n == 0 {
				return
			}
			size := int(C.gemm_scratch(s, C.int(t), C.long(m), C.long(n), C.long(k)))
			if size > len(scratch) {
				scratch = make([]float32, size)
			}
			C.gemm(s, C.int(t), C.long(m), C.long(n), C.long(k), floats(a), C.long(lda), floats(b), C.long(ldb),
				floats(c), C.long(ldc), flag(accumulate), floats(scratch))
		},
		RMSNorm: func(y, rstd, x, gain []float32, rows, d int, eps float32) {
			C.rmsnorm(s, floats(y), floats(rstd), floats(x), floats(gain), C.long(rows), C.long(d), C.float(eps))
		},
		RMSNormBackward: func(dX, dGain, dY, x, gain, rstd []float32, rows, d int) {
			C.rmsnorm_backward(s, floats(dX), floats(dGain), floats(dY), floats(x), floats(gain), floats(rstd),
				C.long(rows), C.long(d))
		},
		GatedAct: func(h, gu []float32, rows, f int, act Activation) {
			C.gated_act(s, floats(h), floats(gu), C.long(rows), C.long(f), C.int(act))
		},
		GatedActBackward: func(dGU, gu, dH []float32, rows, f int, act Activation) {
			C.gated_act_backward(s, floats(dGU), floats(gu), floats(dH), C.long(rows), C.long(f), C.int(act))
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
		SoftmaxBandBackward: func(dP, p []float32, rows, cols, ld int, scale float32) {
			C.softmax_band_backward(s, floats(dP), floats(p), C.long(rows), C.long(cols), C.long(ld), C.float(scale))
		},
		DecayScores: func(dst, m, cum []float32, n, ld int) {
			C.decay_scores(s, floats(dst), floats(m), floats(cum), C.long(n), C.long(ld))
		},
		DecayScoresBackward: func(dM, dCum, dDst, m, cum []float32, n, ld int) {
			C.decay_scores_backward(s, floats(dM), floats(dCum), floats(dDst), floats(m), floats(cum), C.long(n), C.long(ld))
		},
		ScaleRows: func(dst, src, factors []float32, rows, w, ldd, lds int, accumulate bool) {
			C.scale_rows(s, floats(dst), floats(src), floats(factors), C.long(rows), C.long(w), C.long(ldd), C.long(lds),
				flag(accumulate))
		},
		RowDots: func(out, a, b []float32, rows, w, lda, ldb int) {
			C.row_dots(s, floats(out), floats(a), floats(b), C.long(rows), C.long(w), C.long(lda), C.long(ldb))
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
		AdamW: func(p, g, m, v []float32, a AdamWStep) {
			C.adamw(s, floats(p), floats(g), floats(m), floats(v), C.long(len(p)), C.float(a.LR), C.float(a.Beta1),
				C.float(a.Beta2), C.float(a.Eps), C.float(a.Decay), C.float(a.Correct1), C.float(a.Correct2),
				C.float(a.GradScale))
		},
		SumSquares: func(x []float32) float64 { return float64(C.sum_squares(s, floats(x), C.long(len(x)))) },
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
