// AVX2 with FMA: 8 floats a vector, 16 registers.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#pragma GCC target("avx2,fma,bmi2")
#endif
#include "kernels.h"
#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi2"))), apply_to = function)
#endif

#define VW 8
#define MR 6
#define NV 2
#define WIDE 8
#define INLINE static inline __attribute__((always_inline))

typedef __m256 vf;
typedef int vi __attribute__((vector_size(32)));

INLINE vi lane_index(void) { return (vi){0, 1, 2, 3, 4, 5, 6, 7}; }
INLINE __m256i first(int n) { return (__m256i)(lane_index() < n); }
INLINE vf load_n(const float *p, int n) { return _mm256_maskload_ps(p, first(n)); }
INLINE void store_n(float *p, int n, vf x) { _mm256_maskstore_ps(p, first(n), x); }
INLINE vf vmax(vf a, vf b) { return _mm256_max_ps(a, b); }
INLINE vf vmin(vf a, vf b) { return _mm256_min_ps(a, b); }
INLINE vf blend(vi mask, vf a, vf b) { return _mm256_blendv_ps(b, a, (vf)mask); }
INLINE vf vsqrt(vf x) { return _mm256_sqrt_ps(x); }
INLINE float hsum(vf x) {
	__m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
	return (s[0] + s[2]) + (s[1] + s[3]);
}
INLINE float hmax(vf x) {
	__m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
	s = _mm_max_ps(s, _mm_movehl_ps(s, s));
	return s[0] > s[1] ? s[0] : s[1];
}
// 2^n in two factors, because the exponent of one holds no more than [-126,127].
INLINE vf scale2(vf p, vf n) {
	vi whole = (vi)_mm256_cvtps_epi32(n), half = whole >> 1;
	return p * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
}
#define ZIP_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define ZIP_HIGH 4, 12, 5, 13, 6, 14, 7, 15

#include "kernels.inc.h"

const kernel_set *kernels_avx2(void) { return &set; }

#ifdef __clang__
#pragma clang attribute pop
#endif
#else
const kernel_set *kernels_avx2(void) { return NULL; }
#endif
