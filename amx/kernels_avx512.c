// AVX-512 (F, DQ, VL, BW): 16 floats a vector, 32 registers.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,fma,avx2,bmi2,prefer-vector-width=512")
#endif
#include "kernels.h"
#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma,avx2,bmi2"))), apply_to = function)
#endif

#define VW 16
#define MR 6
#define NV 4
#define WIDE 16
#define INLINE static inline __attribute__((always_inline))

typedef __m512 vf;
typedef int vi __attribute__((vector_size(64)));

INLINE __mmask16 first(int n) { return (__mmask16)_bzhi_u32(0xffff, n); }
INLINE vf load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
INLINE void store_n(float *p, int n, vf x) { _mm512_mask_storeu_ps(p, first(n), x); }
INLINE vf vmax(vf a, vf b) { return _mm512_max_ps(a, b); }
INLINE vf vmin(vf a, vf b) { return _mm512_min_ps(a, b); }
INLINE vf blend(vi mask, vf a, vf b) { return _mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)mask), b, a); }
INLINE vf vsqrt(vf x) { return _mm512_sqrt_ps(x); }
INLINE float hsum(vf x) { return _mm512_reduce_add_ps(x); }
INLINE float hmax(vf x) { return _mm512_reduce_max_ps(x); }
INLINE vf scale2(vf p, vf n) { return _mm512_scalef_ps(p, n); }
INLINE vi lane_index(void) { return (vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }
#define ZIP_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define ZIP_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

#include "kernels.inc.h"

const kernel_set *kernels_avx512(void) { return &set; }

// The same set with GEMMs in other formats.
static const kernel_set set_vnni16 = {.gemm = &gemm_vnni16, ALL_BUT_GEMM};
static const kernel_set set_avx512bf16 = {.gemm = &gemm_avx512bf16, ALL_BUT_GEMM};
static const kernel_set set_amx = {.gemm = &gemm_amx, ALL_BUT_GEMM};
const kernel_set *kernels_vnni16(void) { return &set_vnni16; }
const kernel_set *kernels_avx512bf16(void) { return &set_avx512bf16; }
const kernel_set *kernels_amx(void) { return &set_amx; }

#ifdef __clang__
#pragma clang attribute pop
#endif
#else
const kernel_set *kernels_avx512(void) { return NULL; }
const kernel_set *kernels_vnni16(void) { return NULL; }
const kernel_set *kernels_avx512bf16(void) { return NULL; }
const kernel_set *kernels_amx(void) { return NULL; }
#endif
