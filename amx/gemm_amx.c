// GEMM in bf16 on AMX: TDPBF16PS multiplies a tile of 16 rows of A by a tile of 16
// columns of B over 32 steps of k, into a tile of 16x16 sums in fp32 that start
// from plus. Tiles are always full: what the shape lacks is padded with zeros, and
// a C that ends within a tile goes through a scratch of tiles' size, the same
// instructions for every row. Rounding operands asks for AVX512-BF16, which every
// CPU with AMX has.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#pragma GCC target("amx-tile,amx-bf16,avx512f,avx512dq,avx512vl,avx512bw,avx512bf16,fma,avx2,bmi2,prefer-vector-width=512")
#endif
#include "kernels.h"
#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("amx-tile,amx-bf16,avx512f,avx512dq,avx512vl,avx512bw,avx512bf16,fma,avx2,bmi2"))), apply_to = function)
#endif

// A panel of B is two tiles wide and, with the two tiles of A that pass it, small
// enough to stay in an L1 of 48 KiB.
#define NV 2
#define MR 32
#define K_UNIT 32
#define ROWS_UNIT 16
#define GROUP 32
#define KC_ALONE 320
#define KC 320
#include "gemm_bf16.inc.h"

// Not the intrinsics: those of gcc 12 read the configuration only in part and do not
// say that a load reads memory.
#define LOAD_TILE(t, from, stride) \
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"(from), "r"((stride)*4L) : "memory")
#define STORE_TILE(t, to, stride) \
	__asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"(to), "r"((stride)*4L) : "memory")
#define CLEAR_TILE(t) __asm__ volatile("tilezero %%tmm" #t : :)
// MULTIPLY adds the product of tiles a and b to tile sum.
#define MULTIPLY(sum, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : :)

// Every tile is 16 rows of 64 bytes. Tiles 0 to 3 are sums, 4 and 5 rows of A, 6 and
// 7 columns of B.
static const struct __attribute__((aligned(64))) {
	uint8_t palette, start_row, none[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} shapes = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

// tile: C [16*mt,16*nt] = plus + A.B over pairs steps, for constant mt, nt of 1 or 2.
INLINE void tile(const int mt, const int nt, long pairs, const pair *a, long a_row, const pair *b, const float *plus,
                 float *c, long ldc) {
	const float *below = plus ? plus + VW * ldc : NULL;
	if (plus) {
		LOAD_TILE(0, plus, ldc);
		if (nt == 2)
			LOAD_TILE(1, plus + VW, ldc);
		if (mt == 2)
			LOAD_TILE(2, below, ldc);
		if (mt == 2 && nt == 2)
			LOAD_TILE(3, below + VW, ldc);
	} else {
		CLEAR_TILE(0);
		CLEAR_TILE(1);
		CLEAR_TILE(2);
		CLEAR_TILE(3);
	}
#pragma GCC unroll 1
	for (long l = 0; l < pairs; l += VW) {
		LOAD_TILE(6, b, nt * VW);
		LOAD_TILE(4, a, a_row);
		MULTIPLY(0, 4, 6);
		if (nt == 2) {
			LOAD_TILE(7, b + VW, nt * VW);
			MULTIPLY(1, 4, 7);
		}
		if (mt == 2) {
			LOAD_TILE(5, a + VW * a_row, a_row);
			MULTIPLY(2, 5, 6);
		}
		if (mt == 2 && nt == 2)
			MULTIPLY(3, 5, 7);
		a += VW;
		b += nt * VW * VW;
	}
	STORE_TILE(0, c, ldc);
	if (nt == 2)
		STORE_TILE(1, c + VW, ldc);
	if (mt == 2)
		STORE_TILE(2, c + VW * ldc, ldc);
	if (mt == 2 && nt == 2)
		STORE_TILE(3, c + VW * ldc + VW, ldc);
}

#define TILE(mt, nt)                                                                                                \
	static __attribute__((noinline)) void tile_##mt##x##nt(long pairs, const pair *a, long a_row, const pair *b,    \
	                                                       const float *plus, float *c, long ldc) {                 \
		tile(mt, nt, pairs, a, a_row, b, plus, c, ldc);                                                             \
	}
TILE(1, 1) TILE(1, 2) TILE(2, 1) TILE(2, 2)
typedef void (*tile_function)(long pairs, const pair *a, long a_row, const pair *b, const float *plus, float *c,
                              long ldc);
static const tile_function tiles[2][2] = {{tile_1x1, tile_1x2}, {tile_2x1, tile_2x2}};

// copy copies m rows of w columns.
static void copy(float *to, long ld_to, const float *from, long ld_from, long m, long w) {
	for (long i = 0; i < m; i++)
		for (long j = 0; j < w; j += VW) {
			int n = (int)lesser(VW, w - j);
			st(to + i * ld_to + j, n, ld(from + i * ld_from + j, n));
		}
}

// What comes next is left to the CPU's own prefetching: a tile's few instructions
// have no place for more, and no figure of it has been seen.
static void multiply_panel(long from, long to, long m, long w, long pairs, const pair *a, long a_row, const pair *b,
                           const float *plus, float *c, long ldc, const ahead next[2]) {
	int nt = vectors(w);
	for (long i = from; i < to; i += MR) {
		long rows = lesser(MR, to - i), at = i * ldc;
		int mt = vectors(rows);
		tile_function multiply = tiles[mt - 1][nt - 1];
		// The next rows' lines arrive while these are formed.
		const float *below = (plus ? plus : c) + at + MR * ldc;
		for (long r = i + MR; r < lesser(i + 2 * MR, m); r++, below += ldc) {
			__builtin_prefetch(below);
			__builtin_prefetch(below + VW);
		}
		if (rows == mt * VW && w == nt * VW) {
			multiply(pairs, a + i * a_row, a_row, b, plus ? plus + at : NULL, c + at, ldc);
		} else {
			__attribute__((aligned(64))) float part[MR * NR] = {0};
			if (plus)
				copy(part, NR, plus + at, ldc, rows, w);
			multiply(pairs, a + i * a_row, a_row, b, plus ? part : NULL, part, NR);
			copy(c + at, ldc, part, NR, rows, w);
		}
	}
}

// multiply_on_tiles leaves the tiles as it found them, unconfigured: a thread that
// holds tile data costs the kernel 8 KiB at every switch.
static void multiply_on_tiles(int trans, long m, long n, long k, const float *a, long lda, const float *b, long ldb,
                              const void *packed, const float *plus, float *c, long ldc, void *scratch) {
	__asm__ volatile("ldtilecfg %0" : : "m"(shapes));
	gemm(trans, m, n, k, a, lda, b, ldb, packed, plus, c, ldc, scratch);
	__asm__ volatile("tilerelease" : : : "memory");
}

const gemm_engine gemm_amx = {packed_size, pack, scratch_size, multiply_on_tiles};

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
