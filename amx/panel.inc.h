// What attention and linear attention are made of: products of small panels that
// stay in the first-level cache. Rows are padded to whole vectors (and to PAD floats), the
// padding is 0, and buffers start at a cache line.

enum {
	PR = VW == 16 ? 8 : 4, // rows of a tile: PR x 2 accumulators fit the registers
	PAD = VW > 8 ? VW : 8, // a multiple of PR and of VW
};

INLINE long pad_up(long x) { return (x + PAD - 1) / PAD * PAD; }

// carve takes the next `size` floats of scratch, in whole cache lines: up to SLACK
// floats more.
enum { SLACK = 15 };
INLINE float *carve(float **scratch, long size) {
	float *p = *scratch;
	*scratch += (size + 15) / 16 * 16;
	return p;
}

// outer: acc[r][v] += sum over s of a[r*a_row + s*a_step] * b[s*b_step + v*VW].
INLINE void outer(vf acc[PR][2], const int nv, long steps, const float *a, long a_row, long a_step, const float *b,
                  long b_step) {
#pragma GCC unroll 1
	for (long s = 0; s < steps; s++) {
		vf y[2];
#pragma GCC unroll 2
		for (int v = 0; v < nv; v++)
			y[v] = load(b + v * VW);
#pragma GCC unroll 8
		for (int r = 0; r < PR; r++) {
			vf x = splat(a[r * a_row]);
#pragma GCC unroll 2
			for (int v = 0; v < nv; v++)
				acc[r][v] = x * y[v] + acc[r][v];
		}
		a += a_step;
		b += b_step;
	}
}

#define EACH_ACC(r, v, nv, ...)              \
	do {                                     \
		_Pragma("GCC unroll 8") for (int r = 0; r < PR; r++) \
			_Pragma("GCC unroll 2") for (int v = 0; v < (nv); v++) { __VA_ARGS__ } \
	} while (0)

// panel: C [rows,w] = factor*C + A.B, where A's element (r,s) is
// a[r*a_row + s*a_step], B is [steps,w] with row stride b_step and C has row stride
// ldc. rows is a multiple of PR and w of VW. factor 0 does not read C.
INLINE void panel(float *c, long ldc, long rows, long w, float factor, long steps, const float *a, long a_row,
                  long a_step, const float *b, long b_step) {
	for (long i = 0; i < rows; i += PR) {
		long j = 0;
		for (; j < w; j += 2 * VW) {
			vf acc[PR][2];
			if (w - j >= 2 * VW) {
				if (factor == 0.0f)
					EACH_ACC(r, v, 2, acc[r][v] = (vf){0};);
				else
					EACH_ACC(r, v, 2, acc[r][v] = factor * load(c + (i + r) * ldc + j + v * VW););
				outer(acc, 2, steps, a + i * a_row, a_row, a_step, b + j, b_step);
				EACH_ACC(r, v, 2, store(c + (i + r) * ldc + j + v * VW, acc[r][v]););
			} else {
				if (factor == 0.0f)
					EACH_ACC(r, v, 1, acc[r][v] = (vf){0};);
				else
					EACH_ACC(r, v, 1, acc[r][v] = factor * load(c + (i + r) * ldc + j + v * VW););
				outer(acc, 1, steps, a + i * a_row, a_row, a_step, b + j, b_step);
				EACH_ACC(r, v, 1, store(c + (i + r) * ldc + j + v * VW, acc[r][v]););
			}
		}
	}
}

// The three ways A is walked, each a function of its own so that the register
// allocator has nothing else to hold: down its rows, and across them.
static __attribute__((noinline)) void panel_rows(float *c, long ldc, long rows, long w, float factor, long steps,
                                                 const float *a, long lda, const float *b, long ldb) {
	panel(c, ldc, rows, w, factor, steps, a, lda, 1, b, ldb);
}
static __attribute__((noinline)) void panel_cols(float *c, long ldc, long rows, long w, float factor, long steps,
                                                 const float *a, long lda, const float *b, long ldb) {
	panel(c, ldc, rows, w, factor, steps, a, 1, lda, b, ldb);
}

// turn writes the transpose of src [rows,w] (row stride ld_s) to dst [pw,pr]
// (row stride ldd), 0 in the padding; pw and pr are multiples of VW.
static void turn(float *dst, long ldd, long pr, long pw, const float *src, long ld_s, long rows, long w, float scale) {
	for (long i = 0; i < pr; i += VW)
		for (long c = 0; c < pw; c += VW) {
			int have = w - c >= VW ? VW : w > c ? (int)(w - c) : 0;
			long filled = rows - i < VW ? rows - i : VW;
			vf square[VW];
			if (filled == VW && have == VW) {
#pragma GCC unroll 16
				for (int r = 0; r < VW; r++)
					square[r] = load(src + (i + r) * ld_s + c) * scale;
			} else {
#pragma GCC unroll 16
				for (int r = 0; r < VW; r++) {
					square[r] = (vf){0};
					if (r < filled && have)
						square[r] = ld(src + (i + r) * ld_s + c, have) * scale;
				}
			}
			transpose(square);
#pragma GCC unroll 16
			for (int r = 0; r < VW; r++)
				store(dst + (c + r) * ldd + i, square[r]);
		}
}

// lay copies src [rows,w] times scale to dst [pr,pw], contiguous, 0 in the padding.
static void lay(float *dst, long pr, long pw, const float *src, long ld_s, long rows, long w, float scale) {
	for (long r = 0; r < rows; r++, dst += pw, src += ld_s) {
		for (long c = w / VW * VW; c < pw; c += VW)
			store(dst + c, (vf){0});
		EACH(c, n, w, { store(dst + c, ld(src + c, n) * scale); });
	}
	memset(dst, 0, (pr - rows) * pw * sizeof(float));
}

// unlay copies [rows,w] of src, contiguous in rows of pw, times scale to dst.
static void unlay(float *dst, long ldd, const float *src, long pw, long rows, long w, float scale) {
	for (long r = 0; r < rows; r++, dst += ldd, src += pw)
		EACH(c, n, w, { st(dst + c, n, load(src + c) * scale); });
}
