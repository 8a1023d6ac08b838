// The GEMM's innermost loops: tiles of results that live in registers.

// Hides where p came from. Without it the compiler computes the address of every
// element of a tile beforehand, a hundred instructions that outweigh a short sum.
#define HIDE(p) __asm__("" : "+r"(p))

// steps adds kc steps to acc. Element (i,l) of A is a[i*a_row + l*a_step], row l
// of B starts at b + l*b_step. If copy is not NULL, the rows of B are also written
// there, one behind the other.
INLINE void steps(const int mr, const int nv, long kc, const float **a, long a_row, long a_step, const float **b,
                  long b_step, float **copy, vf acc[MR][WIDE]) {
#pragma GCC unroll 1
	for (; kc > 0; kc--) {
		vf row[WIDE];
#pragma GCC unroll 16
		for (int j = 0; j < nv; j++)
			row[j] = load(*b + j * VW);
		if (copy) {
#pragma GCC unroll 16
			for (int j = 0; j < nv; j++)
				store(*copy + j * VW, row[j]);
			*copy += nv * VW;
		}
#pragma GCC unroll 16
		for (int i = 0; i < mr; i++) {
			vf x = splat((*a)[i * a_row]);
#pragma GCC unroll 16
			for (int j = 0; j < nv; j++)
				acc[i][j] = x * row[j] + acc[i][j];
		}
		*a += a_step;
		*b += b_step;
	}
}

// The lines of C are prefetched this many steps before the end of a sum: earlier,
// B's panel would push them out of L1 again.
enum { AHEAD = 32 };

// tile: C [mr, nv*VW] = plus + A.B over kc steps; plus is NULL for 0, or has C's
// row stride and may be C. The last vector of C holds `last` columns. Inlined with
// constant mr, nv: acc lives in registers.
INLINE void tile(const int mr, const int nv, long kc, const float *a, long a_row, long a_step, const float *b,
                 long b_step, float **copy, const float *plus, float *c, long ldc, int last) {
	vf acc[MR][WIDE];
#pragma GCC unroll 16
	for (int i = 0; i < mr; i++)
#pragma GCC unroll 16
		for (int j = 0; j < nv; j++)
			acc[i][j] = (vf){0};
	long late = kc > AHEAD ? AHEAD : kc;
	steps(mr, nv, kc - late, &a, a_row, a_step, &b, b_step, copy, acc);
	if (kc > AHEAD) {
		float *at = c;
#pragma GCC unroll 16
		for (int i = 0; i < mr; i++) {
#pragma GCC unroll 16
			for (int j = 0; j < nv * VW; j += LINE)
				__builtin_prefetch(at + j, 1);
			at += ldc;
			HIDE(at);
		}
	}
	steps(mr, nv, late, &a, a_row, a_step, &b, b_step, copy, acc);
	if (plus) {
#pragma GCC unroll 16
		for (int i = 0; i < mr; i++) {
#pragma GCC unroll 16
			for (int j = 0; j < nv; j++)
				acc[i][j] = ld(plus + j * VW, j == nv - 1 ? last : VW) + acc[i][j];
			plus += ldc;
			HIDE(plus);
		}
	}
#pragma GCC unroll 16
	for (int i = 0; i < mr; i++) {
#pragma GCC unroll 16
		for (int j = 0; j < nv; j++)
			st(c + j * VW, j == nv - 1 ? last : VW, acc[i][j]);
		c += ldc;
		HIDE(c);
	}
}

typedef void (*tile_function)(long kc, const float *a, long a_stride, const float *b, long b_step, float *copy,
                              const float *plus, float *c, long ldc, int last);

// Each tile is a function of its own, for its two ways to walk A: along its
// rows (NN, NT) and down its columns (TN). Kept out of line, because the register
// allocator then has nothing else to hold.
#define TILE(name, mr, nv, a_row, a_step, copy, last)                                                             \
	static __attribute__((noinline)) void name(long kc, const float *a, long stride, const float *b, long b_step,  \
	                                           float *to, const float *plus, float *c, long ldc, int lanes) {      \
		tile(mr, nv, kc, a, a_row, a_step, b, b_step, copy, plus, c, ldc, last);                                   \
	}
#define PAIR(mr, nv)                                              \
	TILE(rows_##mr##x##nv, mr, nv, stride, 1, NULL, lanes)        \
	TILE(cols_##mr##x##nv, mr, nv, 1, stride, NULL, lanes)
// The first tile of a panel may read B where it lies and leave it packed for the others.
#define COPYING(nv)                                       \
	TILE(copying_rows_x##nv, MR, nv, stride, 1, &to, VW)  \
	TILE(copying_cols_x##nv, MR, nv, 1, stride, &to, VW)
#if NV == 4
#define TILES(mr) PAIR(mr, 1) PAIR(mr, 2) PAIR(mr, 3) PAIR(mr, 4)
#define TABLE(name) {name##x1, name##x2, name##x3, name##x4}
COPYING(1) COPYING(2) COPYING(3) COPYING(4)
#else
#define TILES(mr) PAIR(mr, 1) PAIR(mr, 2)
#define TABLE(name) {name##x1, name##x2}
COPYING(1) COPYING(2)
#endif
TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6)

static const tile_function tiles_rows[MR][NV] = {TABLE(rows_1), TABLE(rows_2), TABLE(rows_3),
                                                 TABLE(rows_4), TABLE(rows_5), TABLE(rows_6)};
static const tile_function tiles_cols[MR][NV] = {TABLE(cols_1), TABLE(cols_2), TABLE(cols_3),
                                                 TABLE(cols_4), TABLE(cols_5), TABLE(cols_6)};
static const tile_function copying_rows[NV] = TABLE(copying_rows_);
static const tile_function copying_cols[NV] = TABLE(copying_cols_);

// A single row reads B once: wide strips keep the reads contiguous.
static __attribute__((noinline)) void wide_row(long kc, const float *a, long a_step, const float *b, long b_step,
                                               const float *plus, float *c) {
	tile(1, WIDE, kc, a, 0, a_step, b, b_step, NULL, plus, c, 0, VW);
}
