// Scaling fp32 to int16, and the layout that both operands share: strips.
//
// A strip holds 16 rows of op(A), or 16 columns of op(B), over one chunk of K: n
// steps, h = ceil(n/2). Lane r of the strip is row (column) r:
//
//   int32 [h][16]  pair l is (q[l], q[l+h]) as two int16: VPDPWSSD multiplies two
//                  pairs and adds both products. Pairing the chunk's halves keeps
//                  every load contiguous, whichever way the operand is stored.
//   int32 [16]     one more pair, the correction below
//   float [16]     scales: x = scale * (q + r), |r| <= 1/2
//
// LIMIT = 2890 is the largest |q|: 256 * 2890^2 and the correction stay below 2^31.
//
// Correction. Within a chunk of n the largest magnitude is at most sqrt(n) = 16
// times the rms (a test for 30 times would never fire), so rounding costs at most
// 1.6e-3 of the chunk's norm, less than bf16: no outlier makes the noise large.
// What an outlier does is bias: beside a softmax gradient's p-1 all other p of the
// chunk may round to 0, all errors of one sign. So each lane keeps E, the sum of
// its r, and one more pair of K adds E_a*mean(q_b) + mean(q_a)*E_b: what the r
// contribute as far as they do not vary along the chunk. That costs one step in
// 129, in every chunk, and knows no threshold. Its rival, a second int16 term for
// lanes whose E is over four standard deviations of noise, is exact where it
// fires, but on gradients of a trained model most biases stay below what noise
// reaches: rms error 2.4e-3 there, against 1.1e-3 with the correction (bf16
// 2.2e-3; vnni16_test.go has the distributions). FOLD balances the roundings of E
// and of the mean.

enum { LANES = 16, LIMIT = 2890, FOLD = 4 };

// strip_size is in units of 4 bytes.
INLINE long pairs_of(long n) { return (n + 1) / 2; }
INLINE long strip_size(long n) { return LANES * (pairs_of(n) + 2); }
INLINE __mmask16 first(long n) { return n >= LANES ? 0xffff : (__mmask16)_bzhi_u32(0xffff, (unsigned)n); }

// Magnitudes are compared as integers, where Inf and NaN are the largest.
INLINE __m512i magnitude(__m512 x) { return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)); }

// scales_of turns largest magnitudes into scales and their inverses. A chunk of
// magnitudes below 1e-34 counts as 0, so that no inverse overflows; one that is
// not finite gets scale NaN, which makes its whole row or column of C NaN.
INLINE void scales_of(__m512i largest, __m512 *scale, __m512 *inverse) {
	__m512 max = _mm512_castsi512_ps(largest);
	__mmask16 wild = _mm512_cmpge_epi32_mask(largest, _mm512_set1_epi32(0x7f800000));
	__mmask16 counts = _mm512_cmp_ps_mask(max, _mm512_set1_ps(1e-34f), _CMP_GE_OQ);
	*inverse = _mm512_maskz_div_ps(counts, _mm512_set1_ps(LIMIT), max);
	*scale = _mm512_maskz_mul_ps(counts, max, _mm512_set1_ps(1.0f / LIMIT));
	*scale = _mm512_mask_mov_ps(*scale, wild, _mm512_set1_ps(__builtin_nanf("")));
}

// rounded has round(x*inverse) in its low 16 bits: adding 1.5*2^23 leaves no room
// for a fraction.
INLINE __m512i rounded(__m512 x, __m512 inverse) {
	return _mm512_castps_si512(_mm512_fmadd_ps(x, inverse, _mm512_set1_ps(12582912.0f)));
}

// paired joins the low halves of two vectors of int32.
INLINE __m512i paired(__m512i low, __m512i high) {
	return _mm512_mask_blend_epi16(0xaaaaaaaa, low, _mm512_slli_epi32(high, 16));
}

// plus_pair returns total with both numbers of each pair added.
INLINE __m512i plus_pair(__m512i total, __m512i pair) {
	__asm__("vpdpwssd %2, %1, %0" : "+v"(total) : "v"(pair), "v"(_mm512_set1_epi16(1)));
	return total;
}

// finish_strip writes the correction and the scales behind a strip's h pairs.
// sum is the sum of the x, total that of the q, over n steps. B's correction has
// its halves exchanged, so that E meets mean.
INLINE void finish_strip(int *strip, long n, __m512 sum, __m512 inverse, __m512i total, __m512 scale, int of_b) {
	int *end = strip + LANES * pairs_of(n);
	__m512 q = _mm512_cvtepi32_ps(total);
	__m512 error = _mm512_fmsub_ps(sum, inverse, q);
	// Sums near the end of float32's range may have overflown.
	__mmask16 sane = _mm512_cmp_ps_mask(_mm512_abs_ps(error), _mm512_set1_ps((float)n), _CMP_LE_OQ);
	__m512i e = _mm512_maskz_cvtps_epi32(sane, _mm512_mul_ps(error, _mm512_set1_ps(FOLD)));
	__m512i mean = _mm512_maskz_cvtps_epi32(sane, _mm512_mul_ps(q, _mm512_set1_ps(1.0f / (FOLD * (float)n))));
	_mm512_store_si512(end, of_b ? paired(mean, e) : paired(e, mean));
	_mm512_store_ps((float *)(end + LANES), scale);
}

// measure adds x to a lane's sum and raises its largest magnitude.
INLINE void measure(__m512 x, __m512 *sum, __m512i *largest) {
	__asm__("" : "+v"(x)); // or the compiler loads it twice
	*sum = _mm512_add_ps(*sum, x);
	*largest = _mm512_max_epi32(*largest, magnitude(x));
}

// columns quantizes nv strips of an operand stored [K, lanes]: row l of the chunk
// starts at x + l*ld. The last strip has the lanes of `last`.
INLINE void columns(const int nv, int *strips, const float *x, long ld, long n, const __mmask16 last, int of_b) {
	const long h = pairs_of(n), size = strip_size(n);
	__m512i largest[4], total[4];
	__m512 sum[4], sum_high[4], scale[4], inverse[4];
#pragma GCC unroll 4
	for (int j = 0; j < nv; j++) {
		largest[j] = total[j] = _mm512_setzero_si512();
		sum[j] = sum_high[j] = _mm512_setzero_ps();
	}
	const float *low = x, *high = x + h * ld;
#pragma GCC unroll 1
	for (long l = 0; l < n - h; l++, low += ld, high += ld) {
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++) {
			measure(_mm512_maskz_loadu_ps(last, low + j * LANES), &sum[j], &largest[j]);
			measure(_mm512_maskz_loadu_ps(last, high + j * LANES), &sum_high[j], &largest[j]);
		}
	}
	if (n < 2 * h) // the last pair's high half is 0
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++)
			measure(_mm512_maskz_loadu_ps(last, low + j * LANES), &sum[j], &largest[j]);
#pragma GCC unroll 4
	for (int j = 0; j < nv; j++)
		scales_of(largest[j], &scale[j], &inverse[j]);
	// Backwards: the rows read last are still in L1.
	int *to = strips + h * LANES;
	if (n < 2 * h) {
		to -= LANES;
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++) {
			__m512i pair = paired(rounded(_mm512_maskz_loadu_ps(last, low + j * LANES), inverse[j]), _mm512_setzero_si512());
			total[j] = plus_pair(total[j], pair);
			_mm512_store_si512(to + j * size, pair);
		}
	}
#pragma GCC unroll 1
	for (long l = 0; l < n - h; l++) {
		low -= ld;
		high -= ld;
		to -= LANES;
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++) {
			__m512i pair = paired(rounded(_mm512_maskz_loadu_ps(last, low + j * LANES), inverse[j]),
			                      rounded(_mm512_maskz_loadu_ps(last, high + j * LANES), inverse[j]));
			total[j] = plus_pair(total[j], pair);
			_mm512_store_si512(to + j * size, pair);
		}
	}
#pragma GCC unroll 4
	for (int j = 0; j < nv; j++)
		finish_strip(strips + j * size, n, _mm512_add_ps(sum[j], sum_high[j]), inverse[j], total[j], scale[j], of_b);
}

// Four strips at once, because a row of 64 floats is read at the speed of memory
// and one of 16 is not.
static __attribute__((noinline)) void columns_4(int *strips, const float *x, long ld, long n, int of_b) {
	columns(4, strips, x, ld, n, 0xffff, of_b);
}
static __attribute__((noinline)) void columns_1(int *strip, const float *x, long ld, long n, __mmask16 lanes, int of_b) {
	columns(1, strip, x, ld, n, lanes, of_b);
}

// transpose_lanes transposes 16 x 16 int32: within quarters, then the quarters.
INLINE void transpose_lanes(__m512i x[LANES]) {
	__m512i y[LANES];
#pragma GCC unroll 8
	for (int i = 0; i < LANES; i += 2) {
		y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
		y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
	}
#pragma GCC unroll 4
	for (int i = 0; i < LANES; i += 4) {
		x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
		x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
		x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
		x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
	}
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		__m512i a = _mm512_shuffle_i32x4(x[i], x[4 + i], 0x88), b = _mm512_shuffle_i32x4(x[i], x[4 + i], 0xdd);
		__m512i c = _mm512_shuffle_i32x4(x[8 + i], x[12 + i], 0x88), d = _mm512_shuffle_i32x4(x[8 + i], x[12 + i], 0xdd);
		y[i] = _mm512_shuffle_i32x4(a, c, 0x88);
		y[4 + i] = _mm512_shuffle_i32x4(b, d, 0x88);
		y[8 + i] = _mm512_shuffle_i32x4(a, c, 0xdd);
		y[12 + i] = _mm512_shuffle_i32x4(b, d, 0xdd);
	}
#pragma GCC unroll 16
	for (int i = 0; i < LANES; i++)
		x[i] = y[i];
}

// rows_block writes 16 pairs (or the first `count`) of a strip whose lanes are
// rows of x, and returns total with their q added. The pairs' high halves are the
// first `high_count`.
INLINE __m512i rows_block(const int full, int *to, const float *low, const float *high, long ld, int lanes, int count,
                          int high_count, const float *inverse, __m512i total) {
	const __mmask16 in_low = full ? 0xffff : first(count), in_high = full ? 0xffff : first(high_count);
	__m512i x[LANES];
#pragma GCC unroll 16
	for (int r = 0; r < LANES; r++) {
		x[r] = _mm512_setzero_si512();
		if (full || r < lanes) {
			__m512 by = _mm512_set1_ps(inverse[r]);
			x[r] = paired(rounded(_mm512_maskz_loadu_ps(in_low, low + r * ld), by),
			              rounded(_mm512_maskz_loadu_ps(in_high, high + r * ld), by));
		}
	}
	transpose_lanes(x);
#pragma GCC unroll 16
	for (int l = 0; l < LANES; l++)
		if (full || l < count) {
			total = plus_pair(total, x[l]);
			_mm512_store_si512(to + l * LANES, x[l]);
		}
	return total;
}

static __attribute__((noinline)) __m512i rows_block_full(int *to, const float *low, const float *high, long ld,
                                                         const float *inverse, __m512i total) {
	return rows_block(1, to, low, high, ld, LANES, LANES, LANES, inverse, total);
}
static __attribute__((noinline)) __m512i rows_block_part(int *to, const float *low, const float *high, long ld, int lanes,
                                                         int count, int high_count, const float *inverse, __m512i total) {
	return rows_block(0, to, low, high, ld, lanes, count, high_count, inverse, total);
}

// rows quantizes one strip of an operand stored [lanes, K]: lane r's chunk starts
// at x + r*ld; lanes from `lanes` on are 0.
static void rows(int *strip, const float *x, long ld, long n, int lanes, int of_b) {
	const long h = pairs_of(n);
	int largest[LANES] = {0};
	float sum[LANES] = {0}, inverses[LANES];
	for (int r = 0; r < lanes; r++) {
		const float *from = x + r * ld;
		__m512i max = _mm512_setzero_si512();
		__m512 s = _mm512_setzero_ps();
#pragma GCC unroll 2
		for (long l = 0; l < n; l += LANES) {
			__m512 v = _mm512_maskz_loadu_ps(first(n - l), from + l);
			measure(v, &s, &max);
		}
		largest[r] = _mm512_reduce_max_epi32(max);
		sum[r] = _mm512_reduce_add_ps(s);
	}
	__m512 scale, inverse;
	scales_of(_mm512_loadu_si512(largest), &scale, &inverse);
	_mm512_storeu_ps(inverses, inverse);
	__m512i total = _mm512_setzero_si512();
	for (long l = 0; l < h; l += LANES) {
		int count = h - l < LANES ? (int)(h - l) : LANES;
		int high_count = n - h - l < LANES ? (int)(n - h - l) : LANES;
		if (lanes == LANES && high_count == LANES)
			total = rows_block_full(strip + l * LANES, x + l, x + h + l, ld, inverses, total);
		else
			total = rows_block_part(strip + l * LANES, x + l, x + h + l, ld, lanes, count, high_count, inverses, total);
	}
	finish_strip(strip, n, _mm512_loadu_ps(sum), inverse, total, scale, of_b);
}

// quantize lays `lanes` rows of op(A), or columns of op(B), out in strips, over
// the n steps of K that start at x. by_rows: x is stored [lanes, K], else [K, lanes].
static void quantize(int *strips, int by_rows, const float *x, long ld, long n, long lanes, int of_b) {
	const long size = strip_size(n);
	for (long i = 0; i < lanes;) {
		if (by_rows) {
			rows(strips, x + i * ld, ld, n, lanes - i < LANES ? (int)(lanes - i) : LANES, of_b);
		} else if (lanes - i >= 4 * LANES) {
			columns_4(strips, x + i, ld, n, of_b);
			strips += 3 * size;
			i += 3 * LANES;
		} else {
			columns_1(strips, x + i, ld, n, first(lanes - i), of_b);
		}
		strips += size;
		i += LANES;
	}
}
