// The C side of the kernel sets: one table of functions per instruction set.
// Arguments have the meaning given in kernels.go; shapes were checked in Go.
// C allocates nothing, keeps no pointer and has no mutable statics.
#ifndef HARNESS_AMX_KERNELS_H
#define HARNESS_AMX_KERNELS_H

typedef struct {
	float lr, beta1, beta2, eps, decay, correct1, correct2, grad_scale;
} adamw_step;

enum { NN, NT, TN }; // which operand is stored transposed: Trans in kernels.go

// How a set multiplies matrices, and in which format: op(B) [K,N] can be laid out
// once ("packed") and then multiplied by any number of A. Packed memory and
// scratch start at a multiple of 64 bytes and are the caller's.
typedef struct {
	// Bytes of op(B) packed.
	long (*packed_size)(int trans, long n, long k);
	void (*pack)(void *packed, int trans, long n, long k, const float *b, long ldb);
	// Bytes of scratch that suffice for this shape and all smaller ones, with B packed or not.
	long (*scratch_size)(int trans, long m, long n, long k);
	// C = plus + op(A).op(B). plus is NULL for 0, or has C's row stride and may be C
	// itself. B is read from packed, or from b where packed is NULL: the same bits.
	void (*gemm)(int trans, long m, long n, long k, const float *a, long lda, const float *b, long ldb,
	             const void *packed, const float *plus, float *c, long ldc, void *scratch);
} gemm_engine;

typedef struct {
	const gemm_engine *gemm, *gemm32; // in the set's format, and in fp32
	void (*rmsnorm)(float *y, float *rstd, const float *x, const float *gain, long rows, long d, float eps);
	void (*rmsnorm_backward)(float *dx, float *dgain, float *y, const float *dy, const float *x, const float *gain,
	                         const float *rstd, long rows, long d);
	void (*gated_act)(float *h, const float *gu, long rows, long f, int act);
	void (*gated_act_backward)(float *dgu, float *h, const float *gu, const float *dh, long rows, long f, int act);
	void (*sigmoid_gate)(float *out, const float *y, const float *gate, long rows, long w, long ldg);
	void (*sigmoid_gate_backward)(float *dy, float *dgate, const float *dout, const float *y, const float *gate,
	                              long rows, long w, long ldg, long lddg);
	void (*rotary)(float *x, long rows, long ld, long heads, long dh, const int *pos, const float *cos,
	               const float *sin, float sign);
	void (*softmax_band)(float *p, long rows, long cols, long ld, long off, long window, float scale);
	void (*scale_rows)(float *table, const float *s, const int *idx, long rows, long d);
	void (*gather_rows)(float *dst, const float *table, const int *idx, long rows, long d, float scale);
	void (*scatter_add_rows)(float *table, const float *src, const int *idx, long rows, long d, float scale);
	void (*softmax_xent)(float *loss, float *logits, const float *bias, const int *target, long rows, long cols,
	                     long ld, float scale);
	// Mixers over one segment. scratch starts at a cache line and has the bytes that
	// *_scratch says.
	long (*attention_scratch)(long n, long heads, long dh);
	void (*attention)(float *out, long ldo, float *lse, const float *in, long ld, long n, long heads, long dh,
	                  long window, float scale, void *scratch);
	void (*attention_backward)(float *din, const float *in, long ld, const float *out, const float *dout, long ldo,
	                           const float *lse, long n, long heads, long dh, long window, float scale, void *scratch);
	long (*linear_scratch)(long heads, long state, long dh);
	void (*linear_attention)(float *out, long ldo, float *states, const float *in, long ld, const float *bias, long n,
	                         long heads, long state, long dh, void *scratch);
	void (*linear_attention_backward)(float *din, const float *states, const float *in, long ld, const float *dout,
	                                  long ldo, const float *bias, long n, long heads, long state, long dh,
	                                  void *scratch);
	void (*adamw)(float *p, const float *g, float *m, float *v, long n, adamw_step s);
	void (*adamw_rows)(float *p, const float *g, float *m, float *v, const int *idx, const float *correct1,
	                   const float *correct2, long rows, long d, adamw_step s);
	double (*sum_squares)(const float *x, long n);
	double (*dot)(const float *x, const float *y, long n);
	// Runs `rounds` rounds of fused multiply-adds that never leave the registers;
	// returns the number of floating-point operations done and writes a result that depends on all of them.
	double (*fma_peak)(long rounds, float *sink);
} kernel_set;

// NULL where this build does not contain the set.
const kernel_set *kernels_avx512(void);
const kernel_set *kernels_avx2(void);
const kernel_set *kernels_portable(void);
const kernel_set *kernels_vnni16(void);
const kernel_set *kernels_avx512bf16(void);
const kernel_set *kernels_amx(void);

// GEMMs in 16-bit formats, x86 only.
extern const gemm_engine gemm_vnni16, gemm_avx512bf16, gemm_amx;

// copy_rows is the product over no steps: C [m,n] = plus, or 0 where it is NULL.
void copy_rows(long m, long n, const float *plus, float *c, long ldc);

#endif
