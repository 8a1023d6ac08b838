// Laying out the operands of a GEMM so that tiles walk through them line after line.

// pack_b copies rows [0,kc) and columns [0,w) of B into panel [kc, nv*VW], the rest 0.
static void pack_b(float *panel, const float *b, long ldb, long kc, long w, int nv) {
	for (long l = 0; l < kc; l++) {
		float *to = panel + l * nv * VW;
		EACH(c, n, w, { store(to + c, ld(b + l * ldb + c, n)); });
	}
}

// pack_b_transposed does the same for a B that is stored [N,K]: w rows of kc.
static void pack_b_transposed(float *panel, const float *b, long ldb, long kc, long w, int nv) {
	for (int j = 0; j < nv; j++) {
		const float *from = b + j * VW * ldb;
		int rows = w - j * VW < VW ? (int)(w - j * VW) : VW;
		for (long l = 0; l < kc; l += VW) {
			int count = kc - l < VW ? (int)(kc - l) : VW;
			vf square[VW];
#pragma GCC unroll 16
			for (int i = 0; i < VW; i++)
				square[i] = i < rows ? ld(from + i * ldb + l, count) : (vf){0};
			transpose(square);
			float *to = panel + l * nv * VW + j * VW;
			if (count == VW) {
#pragma GCC unroll 16
				for (int i = 0; i < VW; i++)
					store(to + i * nv * VW, square[i]);
			} else {
				for (int i = 0; i < count; i++)
					store(to + i * nv * VW, square[i]);
			}
		}
	}
}

// pack_panel lays out w columns of rows [0,kc) of op(B).
static void pack_panel(float *panel, int trans, const float *b, long ldb, long kc, long w) {
	int nv = (int)((w + VW - 1) / VW);
	if (trans == NT)
		pack_b_transposed(panel, b, ldb, kc, w, nv);
	else
		pack_b(panel, b, ldb, kc, w, nv);
}

// A packed A is one strip [kc][MR] after another. strip_size is their distance: with
// room for a copy's excess, and an odd number of lines, so that the strips that are
// written side by side do not compete for the same sets of L1.
INLINE long strip_size(long kc) { return (((kc * MR + LINE - 1) / LINE + 1) | 1) * LINE; }

// So many strips are written side by side, that a line of A is read only once.
enum { SIDE_BY_SIDE = 16 };

// pack_strips copies `count` strips from the rows [0,kc) of an A stored [K,M]. A row
// of a strip is moved as 8 floats, whose excess the next row overwrites; but
// nothing is read beyond the last strip.
INLINE void pack_strips(const int count, float *to, long strip, const float *a, long lda, long kc) {
	// Rows may lie a multiple of 4 KiB apart and then share 8 lines of L1.
	enum { ROWS_AHEAD = 4, WIDTH = 8 };
	for (long l = 0; l < kc; l++, a += lda, to += MR) {
#pragma GCC unroll 8
		for (int c = 0; c < count * MR; c += LINE)
			__builtin_prefetch(a + ROWS_AHEAD * lda + c);
#pragma GCC unroll 16
		for (int s = 0; s < count; s++)
			memcpy(to + s * strip, a + s * MR, (s < count - 1 ? WIDTH : MR) * sizeof(float));
	}
}

// pack_a packs rows [0,kc) and columns [0,m) of an A stored [K,M].
static void pack_a(float *strips, long strip, const float *a, long lda, long kc, long m) {
	long i = 0;
	for (; m - i >= SIDE_BY_SIDE * MR; i += SIDE_BY_SIDE * MR, strips += SIDE_BY_SIDE * strip)
		pack_strips(SIDE_BY_SIDE, strips, strip, a + i, lda, kc);
	for (; m - i >= 4 * MR; i += 4 * MR, strips += 4 * strip)
		pack_strips(4, strips, strip, a + i, lda, kc);
	for (; m - i >= MR; i += MR, strips += strip)
		pack_strips(1, strips, strip, a + i, lda, kc);
	for (long l = 0; l < kc; l++)
		for (long r = 0; r < m - i; r++)
			strips[l * MR + r] = a[l * lda + i + r];
}
