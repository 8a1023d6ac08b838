// GEMM of operands rounded to bf16, for the engines that differ only in the
// instruction that multiplies. fp32 is rounded to nearest even by the CPU's own
// conversion: NaN stays NaN, what exceeds bf16's range becomes an infinity, and
// denormals become 0, as the multiplications would have them.
//
// Both instructions multiply pairs of neighbours in k, so operands are laid out in
// pairs, one `pair` (two bf16, the even k in the low half) a 32-bit word:
//   A  [rows][pairs]         a row's pairs end to end; rounded once per block of rows
//   B  panels [pairs][NR]    NR columns of one pair after those of the pair before
// K is padded with zeros to a multiple of K_UNIT in both, so that a padded product
// is 0 whatever the other operands hold.
//
// K is one block, or cut into equal ones (a rule of k alone), and every element of C
// is formed block after block, in each in the order of k: m, n and a row's place
// never enter, which is what makes the result batch-invariant.
//
// The engine's file defines NV (vectors of 16 columns in a panel), K_UNIT,
// KC_ALONE and KC (most steps of an only block, and of each of several), MR (rows of
// its tile), GROUP (rows of A rounded at a time, a multiple of MR and 16), ROWS_UNIT
// (rows that A is padded to, with zeros) and, after including this,
//   multiply_panel  rows [from,to) of C [m,w] = plus + A.B over a panel of w columns
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

typedef uint32_t pair;

// ahead is memory that comes next, for tiles to bring nearer while they multiply:
// rows of `lines` cache lines, `step` bytes apart. Tile t < tiles of a call asks for
// line t % lines of as many rows as it has pairs.
typedef struct {
	const char *from;
	long step, lines, tiles;
} ahead;

static void multiply_panel(long from, long to, long m, long w, long pairs, const pair *a, long a_row, const pair *b,
                           const float *plus, float *c, long ldc, const ahead next[2]);

// The rounded rows of A stay in L2 while the panels of B pass.
enum { VW = 16, NR = NV * VW, A_BYTES = 320 << 10 };

// HERE has its vectors computed in this place: gcc 12 would put it off and spill.
#define HERE(a, b, c, d) __asm__("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d))

INLINE long up(long x, long unit) { return (x + unit - 1) / unit * unit; }
INLINE long lesser(long a, long b) { return a < b ? a : b; }

INLINE __mmask16 first(int n) { return (__mmask16)_bzhi_u32(0xffff, (unsigned)n); }
INLINE __m512 ld(const float *p, int n) { return n == VW ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(first(n), p); }
INLINE void st(float *p, int n, __m512 x) {
	if (n == VW)
		_mm512_storeu_ps(p, x);
	else
		_mm512_mask_storeu_ps(p, first(n), x);
}

// halves rounds two vectors: low's 16 values first, then high's.
INLINE __m512i halves(__m512 low, __m512 high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }

// riffled pairs lane i of even with lane i of odd, for 16 pairs.
INLINE __m512i riffled(__m512 even, __m512 odd) {
	const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5,
	                                       20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
	return _mm512_permutexvar_epi16(order, halves(even, odd));
}

// row_pairs rounds 32 steps of one row, or fewer; the rest is 0.
INLINE __m512i row_pairs(const float *from, int steps) {
	int low = steps < VW ? steps : VW;
	return halves(ld(from, low), ld(from + low, steps - low));
}

// transposed stores the transpose of 16 vectors of 16 pairs, or its first `count`
// rows: 2x2 pairs, then 4x4 within the 128-bit lanes, then the lanes.
INLINE void transposed(pair *to, long stride, const __m512i x[VW], int count) {
	__m512i y[VW];
#pragma GCC unroll 16
	for (int i = 0; i < VW; i += 4) {
		__m512i a = _mm512_unpacklo_epi32(x[i], x[i + 1]), b = _mm512_unpackhi_epi32(x[i], x[i + 1]);
		__m512i c = _mm512_unpacklo_epi32(x[i + 2], x[i + 3]), d = _mm512_unpackhi_epi32(x[i + 2], x[i + 3]);
		y[i] = _mm512_unpacklo_epi64(a, c);
		y[i + 1] = _mm512_unpackhi_epi64(a, c);
		y[i + 2] = _mm512_unpacklo_epi64(b, d);
		y[i + 3] = _mm512_unpackhi_epi64(b, d);
		HERE(y[i], y[i + 1], y[i + 2], y[i + 3]);
	}
#pragma GCC unroll 16
	for (int i = 0; i < 4; i++) {
		__m512i a = _mm512_shuffle_i32x4(y[i], y[i + 4], 0x88), b = _mm512_shuffle_i32x4(y[i + 8], y[i + 12], 0x88);
		__m512i c = _mm512_shuffle_i32x4(y[i], y[i + 4], 0xdd), d = _mm512_shuffle_i32x4(y[i + 8], y[i + 12], 0xdd);
		y[i] = _mm512_shuffle_i32x4(a, b, 0x88);
		y[i + 4] = _mm512_shuffle_i32x4(c, d, 0x88);
		y[i + 8] = _mm512_shuffle_i32x4(a, b, 0xdd);
		y[i + 12] = _mm512_shuffle_i32x4(c, d, 0xdd);
		HERE(y[i], y[i + 4], y[i + 8], y[i + 12]);
	}
#pragma GCC unroll 16
	for (int i = 0; i < VW; i++, to += stride)
		if (i < count)
			_mm512_store_si512(to, y[i]);
}

// rows_16 rounds `steps` (at most 32) steps of `rows` (at most 16) rows that are
// contiguous in k, and stores them pair by pair: 16 rows of each. What is beyond
// either is 0, and pairs beyond `steps` are not stored.
INLINE void rows_16(pair *to, long stride, const float *from, long ld_from, int rows, int steps) {
	__m512i x[VW];
#pragma GCC unroll 16
	for (int i = 0; i < VW; i++) {
		x[i] = i < rows ? row_pairs(from, steps) : _mm512_setzero_si512();
		from += i + 1 < rows ? ld_from : 0;
	}
	transposed(to, stride, x, (steps + 1) / 2);
}

// columns_16 rounds `steps` (at most 32) steps of `columns` (at most 16) columns that
// are contiguous in each step, and stores them column by column: 16 pairs of each.
INLINE void columns_16(pair *to, long stride, const float *from, long ld_from, int columns, int steps) {
	__m512i x[VW];
#pragma GCC unroll 16
	for (int i = 0; i < VW; i++) {
		__m512 even = _mm512_setzero_ps(), odd = even;
		if (2 * i < steps)
			even = ld(from, columns);
		if (2 * i + 1 < steps)
			odd = ld(from + ld_from, columns);
		x[i] = riffled(even, odd);
		from += 2 * i + 2 < steps ? 2 * ld_from : 0;
	}
	transposed(to, stride, x, columns);
}

// Full blocks, of constant shape, stand apart from the edges.
static __attribute__((noinline)) void full_rows_16(pair *to, long stride, const float *from, long ld_from) {
	rows_16(to, stride, from, ld_from, VW, 2 * VW);
}
static __attribute__((noinline)) void edge_rows_16(pair *to, long stride, const float *from, long ld_from, int rows,
                                                   int steps) {
	rows_16(to, stride, from, ld_from, rows, steps);
}
static __attribute__((noinline)) void full_columns_16(pair *to, long stride, const float *from, long ld_from) {
	columns_16(to, stride, from, ld_from, VW, 2 * VW);
}
static __attribute__((noinline)) void edge_columns_16(pair *to, long stride, const float *from, long ld_from,
                                                      int columns, int steps) {
	columns_16(to, stride, from, ld_from, columns, steps);
}

// row_stride is the distance of A's rounded rows: whole vectors, the last one padded.
INLINE long row_stride(long kc) { return up(kc, 2 * VW) / 2; }

// pack_a rounds m rows of kc steps into rows `stride` apart, and clears the rows
// that pad them.
static void pack_a(pair *to, int trans, const float *a, long lda, long kc, long stride, long m) {
	if (trans == TN) {
		for (long i = 0; i < m; i += VW) {
			int columns = (int)lesser(VW, m - i);
			for (long l = 0; l < kc; l += 2 * VW) {
				int some = (int)lesser(2 * VW, kc - l);
				pair *block = to + i * stride + l / 2;
				if (columns == VW && some == 2 * VW)
					full_columns_16(block, stride, a + l * lda + i, lda);
				else
					edge_columns_16(block, stride, a + l * lda + i, lda, columns, some);
			}
		}
	} else {
		for (long i = 0; i < m; i++) {
			long l = 0;
			for (; l + 2 * VW <= kc; l += 2 * VW)
				_mm512_store_si512(to + i * stride + l / 2, row_pairs(a + i * lda + l, 2 * VW));
			if (l < kc)
				_mm512_store_si512(to + i * stride + l / 2, row_pairs(a + i * lda + l, (int)(kc - l)));
		}
	}
	memset(to + m * stride, 0, sizeof(pair) * (up(m, ROWS_UNIT) - m) * stride);
}

// pack_pair rounds w columns of two steps; odd is NULL beyond the last step.
INLINE void pack_pair(pair *to, const float *even, const float *odd, long w) {
	for (long j = 0; j < w; j += VW) {
		int n = (int)lesser(VW, w - j);
		_mm512_store_si512(to + j, riffled(ld(even + j, n), odd ? ld(odd + j, n) : _mm512_setzero_ps()));
	}
}

// pack_b lays w columns of kc steps out as a panel nv vectors wide, from a B stored
// [K,N].
static void pack_b(pair *panel, const float *b, long ldb, long kc, long w, int nv) {
	long l = 0;
	if (w == NR) {
#pragma GCC unroll 2
		for (; l + 2 <= kc; l += 2)
#pragma GCC unroll 4
			for (int j = 0; j < NR; j += VW)
				_mm512_store_si512(panel + l / 2 * NR + j,
				                   riffled(_mm512_loadu_ps(b + l * ldb + j), _mm512_loadu_ps(b + (l + 1) * ldb + j)));
	}
	for (; l < kc; l += 2)
		pack_pair(panel + l / 2 * nv * VW, b + l * ldb, l + 1 < kc ? b + (l + 1) * ldb : NULL, w);
}

// pack_b_transposed does so from a B stored [N,K].
static void pack_b_transposed(pair *panel, const float *b, long ldb, long kc, long w, int nv) {
	for (int j = 0; j < nv; j++) {
		const float *from = b + j * VW * ldb;
		int columns = (int)lesser(VW, w - j * VW);
		for (long l = 0; l < kc; l += 2 * VW) {
			int some = (int)lesser(2 * VW, kc - l);
			pair *to = panel + (l / 2 * nv + j) * VW;
			if (columns == VW && some == 2 * VW)
				full_rows_16(to, nv * VW, from + l, ldb);
			else
				edge_rows_16(to, nv * VW, from + l, ldb, columns, some);
		}
	}
}

INLINE int vectors(long w) { return (int)(up(w, VW) / VW); }
INLINE long pairs_of(long kc) { return up(kc, K_UNIT) / 2; }

// pack_panel lays w columns of op(B) out, from b on and over kc steps.
static void pack_panel(pair *panel, int trans, const float *b, long ldb, long kc, long w) {
	int nv = vectors(w);
	if (trans == NT)
		pack_b_transposed(panel, b, ldb, kc, w, nv);
	else
		pack_b(panel, b, ldb, kc, w, nv);
	long rounded = (kc + 1) / 2;
	memset(panel + rounded * nv * VW, 0, sizeof(pair) * (pairs_of(kc) - rounded) * nv * VW);
}

INLINE long steps_of(long k) {
	long blocks = k <= KC_ALONE ? 1 : (k + KC - 1) / KC;
	return up((k + blocks - 1) / blocks, K_UNIT);
}

// A packed B is block after block of K, all but the last a multiple of K_UNIT long,
// each as panels of NR columns; the last panel is as many vectors wide as it has columns.
static long packed_size(int trans, long n, long k) { return (long)sizeof(pair) * up(n, VW) * pairs_of(k); }

static void pack(void *packed, int trans, long n, long k, const float *b, long ldb) {
	long steps = steps_of(k), b_step = trans == NT ? ldb : 1, b_block = trans == NT ? steps : steps * ldb;
	for (long l = 0; l < k; l += steps, b += b_block) {
		long kc = lesser(steps, k - l);
		pair *block = (pair *)packed + l / 2 * up(n, VW);
		for (long j = 0; j < n; j += NR)
			pack_panel(block + j * pairs_of(kc), trans, b + j * b_step, ldb, kc, lesser(NR, n - j));
	}
}

// rows_of is how many rows of A are rounded at a time.
INLINE long rows_of(long m, long kc) {
	long most = A_BYTES / (long)sizeof(pair) / row_stride(kc);
	return m <= most ? m : most / GROUP * GROUP;
}

// Scratch holds as many rows of A as rows_of allows, then one panel of B or, if these
// are not all rows, every panel. The longest block stands for those of any smaller k.
static long scratch_size(int trans, long m, long n, long k) {
	long kc = lesser(k, KC_ALONE), row = row_stride(kc), most = A_BYTES / (long)sizeof(pair);
	long rows = lesser(up(m, ROWS_UNIT) * row, most + ROWS_UNIT * row);
	return (long)sizeof(pair) * (rows + (m * row > most ? up(n < NR ? NR : n, VW) : NR) * pairs_of(kc));
}

// next_rows is what the next group of A's rows is made from, next_panel what the
// next panel of B is made from (or the panel itself, where it is laid out already).
INLINE ahead next_rows(int trans, const float *a, long lda, long kc, long pairs) {
	if (trans == TN)
		return (ahead){(const char *)a, 4 * lda, GROUP / VW, GROUP / VW * 2};
	// Rows that lie apart would take another walk: rare, and not worth it.
	return (ahead){(const char *)a, 64, 1, lda == kc ? GROUP * kc / VW / pairs : 0};
}

INLINE ahead next_panel(int trans, const float *b, long ldb, const pair *ready) {
	if (ready)
		return (ahead){(const char *)ready, 64, 1, NV};
	return (ahead){(const char *)b, 4 * ldb, NV, trans == NT ? 0 : 2 * NV};
}

static void gemm(int trans, long m, long n, long k, const float *a, long lda, const float *b, long ldb,
                 const void *packed, const float *plus, float *c, long ldc, void *scratch) {
	if (k == 0) {
		copy_rows(m, n, plus, c, ldc);
		return;
	}
	long steps = steps_of(k), mc = rows_of(m, steps), a_row = row_stride(steps);
	long a_step = trans == TN ? 1 : lda, a_block = trans == TN ? steps * lda : steps;
	long b_step = packed ? 0 : trans == NT ? ldb : 1, b_block = packed ? 0 : trans == NT ? steps : steps * ldb;
	pair *rounded = scratch, *panels = rounded + up(mc, ROWS_UNIT) * a_row;
	for (long l = 0; l < k; l += steps, a += a_block, b += b_block) {
		long kc = lesser(steps, k - l), pairs = pairs_of(kc);
		const pair *block = packed ? (const pair *)packed + l / 2 * up(n, VW) : panels;
		// Panels that are read more than once have a place each.
		long place = packed || mc < m ? pairs : 0;
		if (l > 0)
			plus = c;
		for (long i = 0; i < m; i += mc) {
			const float *ai = a + i * a_step;
			long rows = lesser(mc, m - i);
			int lay_out = !packed && i == 0, last_rows = i + mc >= m;
			for (long j = 0; j < n; j += NR) {
				long w = lesser(NR, n - j), at = i * ldc + j;
				int last_panel = j + NR >= n;
				if (lay_out)
					pack_panel(panels + j * place, trans, b + j * b_step, ldb, kc, w);
				// With the first panel A is rounded, group by group; the others find it so.
				long group = j == 0 ? GROUP : rows;
				for (long r = 0; r < rows; r += group) {
					long to = lesser(r + group, rows);
					ahead next[2] = {{0}};
					if (j == 0)
						pack_a(rounded + r * a_row, trans, ai + r * a_step, lda, kc, a_row, to - r);
					if (to < rows)
						next[0] = next_rows(trans, ai + to * a_step, lda, kc, pairs);
					else if (!last_panel)
						next[0] = next_panel(trans, b + (j + NR) * b_step, ldb, lay_out ? NULL : block + (j + NR) * place);
					else if (!last_rows)
						next[0] = next_panel(trans, b, ldb, block);
					else if (l + steps < k)
						next[0] = next_panel(trans, b + b_block, ldb, packed ? block + up(n, VW) * pairs : NULL);
					if (to == rows && last_panel && !last_rows)
						next[1] = next_rows(trans, ai + mc * a_step, lda, kc, pairs);
					else if (to == rows && last_panel && l + steps < k)
						next[1] = next_rows(trans, a + a_block, lda, kc, pairs);
					multiply_panel(r, to, rows, w, pairs, rounded, a_row, block + j * place, plus ? plus + at : NULL, c + at,
					               ldc, next);
				}
			}
		}
	}
}
