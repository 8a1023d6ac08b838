// GEMM in fp32. Every element of C is one chain of multiply-adds in the order of
// k, broken only every KC steps (a rule of k alone), where the chain's sum is
// added to C. Neither m nor n nor a row's place enters, which is what makes the
// result batch-invariant.
//
// B is packed into a panel of KC x NR floats that stays in L2 while A's rows
// stream past it; a tile of MR x NR results lives in registers. MC rows of A (at
// most 768 KiB) stay in L2 while the panels pass. The instruction set's file
// defines MR (rows), NV (vectors per panel) and WIDE (vectors of the one-row
// tile). KC = 128, 192, 256 and 384 measured within 3% of each other.

enum { NR = NV * VW, KC = 256, MC = 128 * MR };

// Below this many rows packing B costs more than reading it where it lies.
enum { PACK_ROWS = 2 * MR };

// tile: C [mr, nv*VW] = or += A.B over kc steps. Element (i,l) of A is
// a[i*a_row + l*a_step], row l of B starts at b + l*b_step. The last vector of C
// holds `last` columns. Inlined with constant mr, nv: acc lives in registers.
INLINE void tile(const int mr, const int nv, long kc, const float *a, long a_row, long a_step, const float *b,
                 long b_step, float *c, long ldc, int last, int add) {
	vf acc[MR][WIDE];
#pragma GCC unroll 16
	for (int i = 0; i < mr; i++)
#pragma GCC unroll 16
		for (int j = 0; j < nv; j++)
			acc[i][j] = (vf){0};
	// The results' lines arrive while the sums are formed; short sums would not repay it.
	if (kc >= 64) {
#pragma GCC unroll 16
		for (int i = 0; i < mr; i++)
#pragma GCC unroll 16
			for (int j = 0; j < nv * VW; j += 16)
				__builtin_prefetch(c + i * ldc + j, 1);
	}
#pragma GCC unroll 1
	for (long l = 0; l < kc; l++) {
		vf row[WIDE];
#pragma GCC unroll 16
		for (int j = 0; j < nv; j++)
			row[j] = load(b + j * VW);
#pragma GCC unroll 16
		for (int i = 0; i < mr; i++) {
			vf x = splat(a[i * a_row]);
#pragma GCC unroll 16
			for (int j = 0; j < nv; j++)
				acc[i][j] = x * row[j] + acc[i][j];
		}
		a += a_step;
		b += b_step;
	}
#pragma GCC unroll 16
	for (int i = 0; i < mr; i++) {
#pragma GCC unroll 16
		for (int j = 0; j < nv; j++) {
			float *p = c + i * ldc + j * VW;
			int n = j == nv - 1 ? last : VW;
			if (add)
				acc[i][j] = ld(p, n) + acc[i][j];
			st(p, n, acc[i][j]);
		}
	}
}

// Each tile is a function of its own, for its two ways to walk A: along its
// rows (NN, NT) and down its columns (TN). Kept out of line, because the register
// allocator then has nothing else to hold.
#define TILE(mr, nv)                                                                                          \
	static __attribute__((noinline)) void rows_##mr##x##nv(long kc, const float *a, long a_row, const float *b, \
	                                                       long b_step, float *c, long ldc, int last, int add) { \
		tile(mr, nv, kc, a, a_row, 1, b, b_step, c, ldc, last, add);                                          \
	}                                                                                                         \
	static __attribute__((noinline)) void cols_##mr##x##nv(long kc, const float *a, long a_step, const float *b, \
	                                                       long b_step, float *c, long ldc, int last, int add) { \
		tile(mr, nv, kc, a, 1, a_step, b, b_step, c, ldc, last, add);                                         \
	}
#if NV == 4
#define TILES(mr) TILE(mr, 1) TILE(mr, 2) TILE(mr, 3) TILE(mr, 4)
#define TABLE(way, mr) {way##_##mr##x1, way##_##mr##x2, way##_##mr##x3, way##_##mr##x4}
#else
#define TILES(mr) TILE(mr, 1) TILE(mr, 2)
#define TABLE(way, mr) {way##_##mr##x1, way##_##mr##x2}
#endif
TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6)

typedef void (*tile_function)(long kc, const float *a, long a_stride, const float *b, long b_step, float *c, long ldc,
                              int last, int add);
static const tile_function tiles_rows[MR][NV] = {TABLE(rows, 1), TABLE(rows, 2), TABLE(rows, 3),
                                                 TABLE(rows, 4), TABLE(rows, 5), TABLE(rows, 6)};
static const tile_function tiles_cols[MR][NV] = {TABLE(cols, 1), TABLE(cols, 2), TABLE(cols, 3),
                                                 TABLE(cols, 4), TABLE(cols, 5), TABLE(cols, 6)};

// A single row reads B once: wide strips keep the reads contiguous.
static __attribute__((noinline)) void wide_row(long kc, const float *a, long a_step, const float *b, long b_step,
                                               float *c, int add) {
	tile(1, WIDE, kc, a, 0, a_step, b, b_step, c, 0, VW, add);
}

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
			int steps = kc - l < VW ? (int)(kc - l) : VW;
			vf square[VW];
#pragma GCC unroll 16
			for (int i = 0; i < VW; i++)
				square[i] = i < rows ? ld(from + i * ldb + l, steps) : (vf){0};
			transpose(square);
			float *to = panel + l * nv * VW + j * VW;
			if (steps == VW) {
#pragma GCC unroll 16
				for (int i = 0; i < VW; i++)
					store(to + i * nv * VW, square[i]);
			} else {
				for (int i = 0; i < steps; i++)
					store(to + i * nv * VW, square[i]);
			}
		}
	}
}

// pack_a copies rows [0,kc) of an A stored [K,M] into tiles [m/MR][kc][MR], so
// that a tile walks one line after the other however far apart A's rows lie.
static void pack_a(float *tiles, const float *a, long lda, long kc, long m) {
	for (long i = 0; i < m; i += MR) {
		float *to = tiles + i * kc;
		if (m - i >= MR) {
			for (long l = 0; l < kc; l++)
				memcpy(to + l * MR, a + l * lda + i, MR * sizeof(float));
		} else {
			for (long l = 0; l < kc; l++)
				for (long r = 0; r < m - i; r++)
					to[l * MR + r] = a[l * lda + i + r];
		}
	}
}

// packs_a: packing pays once the same rows are read for a third panel (measured:
// at two panels, 135 GFLOP/s with it and 154 without).
INLINE int packs_a(int trans, long m, long n) { return trans == 2 && m > 1 && n > 2 * NR; }

static long gemm_scratch(int trans, long m, long n, long k) {
	long kc = k < KC ? k : KC;
	long tiles = packs_a(trans, m, n) ? ((m < MC ? m : MC) + MR - 1) / MR * MR * kc : 0;
	return kc * NR + tiles + 64 / sizeof(float);
}

// multiply_block adds rows [0,m) of A over kc steps to C, panel by panel.
static void multiply_block(int trans, long m, long n, long kc, const float *a, long lda, const float *b, long ldb,
                           float *c, long ldc, int add, int few_rows, float *panel, float *tiles) {
	int packed = packs_a(trans, m, n);
	if (packed)
		pack_a(tiles, a, lda, kc, m);
	for (long j = 0; j < n;) {
		const float *bj = trans == 1 ? b + j * ldb : b + j;
		if (m == 1 && trans != 1 && n - j >= WIDE * VW) {
			wide_row(kc, a, trans == 2 ? lda : 1, bj, ldb, c + j, add);
			j += WIDE * VW;
			continue;
		}
		long w = n - j < NR ? n - j : NR;
		int nv = (int)((w + VW - 1) / VW), last = (int)(w - (nv - 1) * VW);
		const float *strip = panel;
		long b_step = nv * VW;
		if (trans == 1) {
			pack_b_transposed(panel, bj, ldb, kc, w, nv);
		} else if (few_rows && last == VW) {
			strip = bj;
			b_step = ldb;
		} else {
			pack_b(panel, bj, ldb, kc, w, nv);
		}
		for (long i = 0; i < m; i += MR) {
			int mr = m - i < MR ? (int)(m - i) : MR;
			float *to = c + i * ldc + j;
			if (packed)
				tiles_cols[mr - 1][nv - 1](kc, tiles + i * kc, MR, strip, b_step, to, ldc, last, add);
			else if (trans == 2)
				tiles_cols[mr - 1][nv - 1](kc, a + i, lda, strip, b_step, to, ldc, last, add);
			else
				tiles_rows[mr - 1][nv - 1](kc, a + i * lda, lda, strip, b_step, to, ldc, last, add);
		}
		j += w;
	}
}

// gemm: trans 0 NN, 1 NT, 2 TN. scratch holds gemm_scratch(...) floats.
static void gemm(int trans, long m, long n, long k, const float *a, long lda, const float *b, long ldb, float *c,
                 long ldc, int accumulate, float *scratch) {
	if (k == 0) {
		for (long i = 0; i < m && !accumulate; i++)
			memset(c + i * ldc, 0, n * sizeof(float));
		return;
	}
	float *panel = (float *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
	float *tiles = panel + (k < KC ? k : KC) * NR;
	long blocks = (k + KC - 1) / KC, block = (k + blocks - 1) / blocks;
	for (long l = 0; l < k; l += block) {
		long kc = k - l < block ? k - l : block;
		for (long i = 0; i < m; i += MC) {
			long mc = m - i < MC ? m - i : MC;
			const float *ai = trans == 2 ? a + l * lda + i : a + i * lda + l;
			const float *bl = trans == 1 ? b + l : b + l * ldb;
			multiply_block(trans, mc, n, kc, ai, lda, bl, ldb, c + i * ldc, ldc, accumulate || l > 0,
			               m <= PACK_ROWS, panel, tiles);
		}
	}
}
