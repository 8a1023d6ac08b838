// Portable: 4 floats a vector in the compiler's own vector types, which every
// 64-bit target has (SSE2, NEON); no instruction set is asked for.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#endif
#include "kernels.h"
#include <stddef.h>

#define VW 4
#define MR 6
#define NV 2
#define WIDE 8
#define INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(16)));
typedef int vi __attribute__((vector_size(16)));

INLINE vf load_n(const float *p, int n) { return (vf){p[0], n > 1 ? p[1] : 0, n > 2 ? p[2] : 0, 0}; }
INLINE void store_n(float *p, int n, vf x) {
	p[0] = x[0];
	if (n > 1)
		p[1] = x[1];
	if (n > 2)
		p[2] = x[2];
}
INLINE vf blend(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }
INLINE vf vmax(vf a, vf b) { return blend(a > b, a, b); }
INLINE vf vmin(vf a, vf b) { return blend(a < b, a, b); }
INLINE vf vsqrt(vf x) {
	return (vf){__builtin_sqrtf(x[0]), __builtin_sqrtf(x[1]), __builtin_sqrtf(x[2]), __builtin_sqrtf(x[3])};
}
INLINE float hsum(vf x) { return (x[0] + x[2]) + (x[1] + x[3]); }
INLINE float hmax(vf x) {
	float a = x[0] > x[1] ? x[0] : x[1], b = x[2] > x[3] ? x[2] : x[3];
	return a > b ? a : b;
}
// 2^n in two factors, because the exponent of one holds no more than [-126,127].
// A NaN lane has no whole number: it counts as 0 here, and p carries the NaN.
INLINE vf scale2(vf p, vf n) {
	vf safe = blend(n == n, n, (vf){0});
	vi whole = {(int)safe[0], (int)safe[1], (int)safe[2], (int)safe[3]}, half = whole >> 1;
	return p * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
}
INLINE vi lane_index(void) { return (vi){0, 1, 2, 3}; }
#define ZIP_LOW 0, 4, 1, 5
#define ZIP_HIGH 2, 6, 3, 7

#include "kernels.inc.h"

const kernel_set *kernels_portable(void) { return &set; }
