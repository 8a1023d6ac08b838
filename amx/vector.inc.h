// Vector arithmetic on top of what the instruction set's file defines:
//   VW                       floats per vector
//   vf, vi                   vectors of VW float / int
//   load_n, store_n          the first n (< VW) lanes; load_n fills with 0
//   vmax(a,b), vmin(a,b)     return b if either is NaN (as x86 does)
//   blend(mask, a, b)       lanes of a where mask is all ones, else of b
//   vsqrt, hsum, hmax        hsum and hmax in a fixed order
//   scale2(p, n)             p * 2^n for whole n in [-126,129]

typedef float vf_unaligned __attribute__((vector_size(VW * 4), aligned(4), may_alias));

INLINE vf splat(float x) { return x - (vf){0}; }

INLINE vf load(const float *p) { return *(const vf_unaligned *)p; }
INLINE void store(float *p, vf x) { *(vf_unaligned *)p = x; }

// ld and st move n lanes; with a constant n == VW they are one instruction.
INLINE vf ld(const float *p, int n) { return n == VW ? load(p) : load_n(p, n); }
INLINE void st(float *p, int n, vf x) {
	if (n == VW)
		store(p, x);
	else
		store_n(p, n, x);
}

// EACH runs its body for columns c = 0, VW, ... of w; n is the number of lanes,
// VW everywhere but in a last partial vector.
#define EACH(c, n, w, ...)                          \
	do {                                            \
		long c = 0;                                 \
		for (; c + VW <= (w); c += VW) {            \
			enum { n = VW };                        \
			__VA_ARGS__                             \
		}                                           \
		if (c < (w)) {                              \
			const int n = (int)((w)-c);             \
			__VA_ARGS__                             \
		}                                           \
	} while (0)

// keep returns x with every lane from n on replaced by fill.
INLINE vf keep(vf x, int n, float fill) {
	if (n == VW)
		return x;
	return blend(lane_index() < n, x, splat(fill));
}

// vexp: exp(x), relative error below 2e-7. x < -87.3 gives 0, -Inf too: no
// denormal is ever formed, not even in a lane that is then thrown away, because
// each would stall the core for some hundred cycles (measured: 3.5 ns an element
// instead of 0.2). Large x gives +Inf, NaN stays NaN. x = n ln2 + r with
// |r| <= ln2/2; ln2 is split so that n*0.693359375 is exact; the polynomial is
// Cephes' expf.
INLINE vf vexp(vf x) {
	const vf round = splat(12582912.0f); // 1.5 * 2^23: adding it rounds to a whole number
	vf y = vmin(splat(89.0f), vmax(splat(-87.3f), x));
	vf shifted = y * 1.44269504088896341f + round;
	vf n = shifted - round;
	vf r = y - n * 0.693359375f;
	r = r - n * -2.12194440e-4f;
	vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = p * (r * r) + r + 1.0f;
	return blend(x < -87.3f, (vf){0}, scale2(p, n));
}

INLINE vf vsigmoid(vf x) { return 1.0f / (1.0f + vexp(-x)); }

#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (vi){__VA_ARGS__})
#endif

// transpose turns VW vectors of VW floats into their transpose: log2(VW) times,
// the first half is riffled into the second.
INLINE void transpose(vf x[VW]) {
#pragma GCC unroll 4
	for (int step = 1; step < VW; step *= 2) {
		vf y[VW];
#pragma GCC unroll 16
		for (int i = 0; i < VW / 2; i++) {
			y[2 * i] = SHUFFLE(x[i], x[i + VW / 2], ZIP_LOW);
			y[2 * i + 1] = SHUFFLE(x[i], x[i + VW / 2], ZIP_HIGH);
		}
#pragma GCC unroll 16
		for (int i = 0; i < VW; i++)
			x[i] = y[i];
	}
}
