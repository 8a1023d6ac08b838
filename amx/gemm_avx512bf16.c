// GEMM in bf16 on AVX512-BF16: VDPBF16PS adds the products of 16 pairs to 16 sums
// in fp32. Worth having only where a core issues one per cycle, as AMD's do: Intel's
// take two, which is half the rate of fp32 multiply-adds.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx512bf16,fma,avx2,bmi2,prefer-vector-width=512")
#endif
#include "kernels.h"
#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512bf16,fma,avx2,bmi2"))), apply_to = function)
#endif

// K in one block spares passes over C, and rows of A that lie end to end are read
// faster; but a reduction over tokens keeps all rows of A in L2 only if it is cut.
#define NV 4
#define MR 6
#define K_UNIT 2
#define ROWS_UNIT 1
#define GROUP 48
#define KC_ALONE 1280
#define KC 640
#include "gemm_bf16.inc.h"

// dot adds the products of 16 pairs to sum. Not the intrinsic: gcc 12 copies and
// spills the accumulators around it.
INLINE __m512 dot(__m512 sum, __m512i a, __m512i b) {
	__asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
	return sum;
}

// next_row hides where a row's address comes from: gcc would compute all of them
// before the loop and keep them on the stack.
#define next_row(row, stride)                 \
	({                                        \
		__typeof__(row) below = row + (stride); \
		__asm__("" : "+r"(below));            \
		below;                                \
	})

// nearer is what a tile asks for while it multiplies, a line or two each step: a burst
// of requests would keep its own operands waiting. far walks over what comes later;
// row walks down the results (and plus, so many bytes away) of the tiles to come.
typedef struct {
	const char *far, *row, *end;
	long far_step, row_step, plus;
} nearer;

// tile: C [mr, nv*VW] = plus + A.B over pairs steps. The last vector of C holds
// `last` columns. Inlined with constant mr, nv: acc lives in registers.
INLINE void tile(const int mr, const int nv, long pairs, const pair *a, long a_row, const pair *b, const float *plus,
                 float *c, long ldc, int last, nearer next) {
	__m512 acc[MR][NV];
#pragma GCC unroll 16
	for (int i = 0; i < mr; i++)
#pragma GCC unroll 16
		for (int j = 0; j < nv; j++)
			acc[i][j] = _mm512_setzero_ps();
	const pair *a3 = next_row(a, 3 * a_row);
#pragma GCC unroll 1
	for (long l = 0; l < pairs; l++) {
		__m512i row[NV];
#pragma GCC unroll 16
		for (int j = 0; j < nv; j++)
			row[j] = _mm512_load_si512(b + j * VW);
#pragma GCC unroll 16
		for (int i = 0; i < mr; i++) {
			__m512i x = _mm512_set1_epi32((int)(i < 3 ? a[i * a_row] : a3[(i - 3) * a_row]));
#pragma GCC unroll 16
			for (int j = 0; j < nv; j++)
				acc[i][j] = dot(acc[i][j], x, row[j]);
		}
		a++;
		b += nv * VW;
		a3++;
		__builtin_prefetch(next.far);
		__builtin_prefetch(next.row);
		__builtin_prefetch(next.row + next.plus);
		next.far += next.far_step;
		next.row += next.row < next.end ? next.row_step : 0;
	}
#pragma GCC unroll 16
	for (int i = 0; i < mr; i++) {
#pragma GCC unroll 16
		for (int j = 0; j < nv; j++) {
			int n = j == nv - 1 ? last : VW;
			if (plus)
				acc[i][j] = ld(plus + j * VW, n) + acc[i][j];
			st(c + j * VW, n, acc[i][j]);
		}
		c = next_row(c, ldc);
		if (plus)
			plus = next_row(plus, ldc);
	}
}

// Each tile is a function of its own, kept out of line, because the register
// allocator then has nothing else to hold.
#define TILE(mr, nv)                                                                                                \
	static __attribute__((noinline)) void tile_##mr##x##nv(long pairs, const pair *a, long a_row, const pair *b,    \
	                                                       const float *plus, float *c, long ldc, int last,         \
	                                                       const nearer *next) {                                    \
		tile(mr, nv, pairs, a, a_row, b, plus, c, ldc, last, *next);                                                    \
	}
#define TILES(mr) TILE(mr, 1) TILE(mr, 2) TILE(mr, 3) TILE(mr, 4)
TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6)
#define TABLE(mr) {tile_##mr##x1, tile_##mr##x2, tile_##mr##x3, tile_##mr##x4}
typedef void (*tile_function)(long pairs, const pair *a, long a_row, const pair *b, const float *plus, float *c,
                              long ldc, int last, const nearer *next);
static const tile_function tiles[MR][NV] = {TABLE(1), TABLE(2), TABLE(3), TABLE(4), TABLE(5), TABLE(6)};

static void multiply_panel(long from, long to, long m, long w, long pairs, const pair *a, long a_row, const pair *b,
                           const float *plus, float *c, long ldc, const ahead next[2]) {
	int nv = vectors(w), last = (int)(w - (nv - 1) * VW);
	for (long i = from, t = 0; i < to; i += MR, t++) {
		long mr = lesser(MR, to - i), at = i * ldc;
		nearer n = {(const char *)b, (const char *)b, (const char *)b, 0, 0, 0};
		const ahead *q = t < next[0].tiles ? &next[0] : &next[1];
		long u = t < next[0].tiles ? t : t - next[0].tiles;
		if (u < q->tiles) {
			n.far = q->from + u % q->lines * 64 + u / q->lines * pairs * q->step;
			n.far_step = q->step;
		}
		if (pairs >= 32) { // shorter sums would not repay it
			// One line of nv*MR rows, from the second tile after this one on: so every nv-th
			// tile goes on where the one before left off; the last ones begin the next panel.
			long row = i + 2 * MR, column = i / MR % nv * VW;
			if (row >= m) {
				row -= m;
				column += NR;
			}
			if (row < m) {
				long end = lesser(row + nv * MR, m) - 1;
				n.row = (const char *)(c + row * ldc + column);
				n.end = (const char *)(c + end * ldc + column);
				n.row_step = 4 * ldc;
				n.plus = plus ? (const char *)plus - (const char *)c : 0;
			}
		}
		tiles[mr - 1][nv - 1](pairs, a + i * a_row, a_row, b, plus ? plus + at : NULL, c + at, ldc, last, &n);
	}
}

const gemm_engine gemm_avx512bf16 = {packed_size, pack, scratch_size, gemm};

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
