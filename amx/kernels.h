// The C side of the kernel sets: one table of functions per instruction set.
// Arguments have the meaning given in kernels.go; shapes were checked in Go.
// C allocates nothing, keeps no pointer and has no mutable statics.
#ifndef HARNESS_AMX_KERNELS_H
#define HARNESS_AMX_KERNELS_H

typedef struct {
	float lr, beta1, beta2, eps, decay, correct1, correct2, grad_scale;
} adamw_step;

typedef struct {
	// Floats of scratch that gemm needs for this shape; 0 means none.
	long (*gemm_scratch)(int trans, long m, long n, long k);
	void (*gemm)(int trans, long m, long n, long k, const float *a, long lda, const float *b, long ldb,
	             float *c, long ldc, int accumulate, float *scratch);
	void (*rmsnorm)(float *y, float *rstd, const float *x, const float *gain, long rows, long d, float eps);
	void (*rmsnorm_backward)(float *dx, float *dgain, const float *dy, const float *x, const float *gain,
	                         const float *rstd, long rows, long d);
	void (*gated_act)(float *h, const float *gu, long rows, long f, int act);
	void (*gated_act_backward)(float *dgu, const float *gu, const float *dh, long rows, long f, int act);
	void (*sigmoid_gate)(float *out, const float *y, const float *gate, long rows, long w, long ldg);
	void (*sigmoid_gate_backward)(float *dy, float *dgate, const float *dout, const float *y, const float *gate,
	                              long rows, long w, long ldg, long lddg);
	void (*rotary)(float *x, long rows, long ld, long heads, long dh, const int *pos, const float *cos,
	               const float *sin, float sign);
	void (*softmax_band)(float *p, long rows, long cols, long ld, long off, long window, float scale);
	void (*softmax_band_backward)(float *dp, const float *p, long rows, long cols, long ld, float scale);
	void (*decay_scores)(float *dst, const float *m, const float *cum, long n, long ld);
	void (*decay_scores_backward)(float *dm, float *dcum, const float *ddst, const float *m, const float *cum,
	                              long n, long ld);
	void (*scale_rows)(float *dst, const float *src, const float *s, long rows, long w, long ldd, long lds,
	                   int accumulate);
	void (*row_dots)(float *out, const float *a, const float *b, long rows, long w, long lda, long ldb);
	void (*gather_rows)(float *dst, const float *table, const int *idx, long rows, long d, float scale);
	void (*scatter_add_rows)(float *table, const float *src, const int *idx, long rows, long d, float scale);
	void (*softmax_xent)(float *loss, float *logits, const float *bias, const int *target, long rows, long cols,
	                     long ld, float scale);
	void (*adamw)(float *p, const float *g, float *m, float *v, long n, adamw_step s);
	double (*sum_squares)(const float *x, long n);
	// Runs `rounds` rounds of fused multiply-adds that never leave the registers;
	// returns the number of floating-point operations done and writes a result that depends on all of them.
	double (*fma_peak)(long rounds, float *sink);
} kernel_set;

// NULL where this build does not contain the set.
const kernel_set *kernels_avx512(void);
const kernel_set *kernels_avx2(void);
const kernel_set *kernels_portable(void);

#endif
