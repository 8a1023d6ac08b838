// GEMM in block-scaled int16 (AVX512-VNNI): twice the multiply-adds a cycle that
// fp32 has, at a sixth of bf16's error.
//
// K is cut into equal chunks of at most 256 steps (a rule of k alone). Over a
// chunk each row of op(A) and each column of op(B) is scaled so that its largest
// magnitude becomes 2,890 and rounded to the nearest integer; VPDPWSSD sums the
// products exactly in int32; the sum, times both scales, is added to C in fp32. A
// row of C depends on its row of A and on op(B) alone.
//
// Registers hold a tile of 8 x 32 sums. Rather than 24 sums it is 16, whose
// conversion and addition to C the processor overlaps with the next tile's
// multiplications (measured: 0.95 of VPDPWSSD's peak, 0.93 for 12 x 32, 8 x 48
// and 6 x 64); they still outnumber latency times throughput, at most 10. A panel
// of B (two strips, 16 KiB) stays in L1 while A's strips pass. MC rows of A (at
// most 130 KiB) stay in L2 while B's panels pass.
//
// Quantizing costs each number of an operand some 0.1 ns, as much as 12 of its
// multiplications: little beside a training step's products, but for a few rows of
// A it is nearly all of the time: decoding wants B packed, and is then twice as fast
// as fp32.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,fma,avx2,bmi2,prefer-vector-width=512")
#endif
#include "kernels.h"
#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,fma,avx2,bmi2"))), apply_to = function)
#endif

#define INLINE static inline __attribute__((always_inline))

#include "gemm_vnni16_strips.inc.h"

enum { MR = 8, PANEL = 2, NR = PANEL * LANES, CHUNK = 256, MC = 256, GROUP = 4 * LANES, SPAN = 4 };

// put: 16 results of C = plus + sum * scale; the first `lanes` of them.
INLINE void put(__m512i sum, __m512 scale, const float *plus, float *c, long at, __mmask16 lanes) {
	__m512 x = plus ? _mm512_maskz_loadu_ps(lanes, plus + at) : _mm512_setzero_ps();
	_mm512_mask_storeu_ps(c + at, lanes, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, x));
}

// One-line assembly on accumulators in named registers: gcc copies the accumulator
// of the intrinsic, an array's element or a plain variable around the instruction,
// and then spills (measured: 0.80 of the peak rather than 0.90).
#ifdef __clang__
#define REGISTER(type, name, number) type name
#else
#define REGISTER(type, name, number) register type name __asm__("zmm" #number)
#endif
#define DOT(sum, y, x) __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(y), "v"(x))
#define ROWS(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

// tile: C [mr, nv*16] = plus + A.B over one chunk of `steps` pairs, correction
// included. a is the tile's first row in a strip, b a strip, the next strip size
// further. The last vector of C holds `last` columns.
INLINE void tile(const int mr, const int nv, long steps, const int *a, const int *b, long size, const float *plus, float *c,
                 long ldc, int last) {
	const float *scale_a = (const float *)(a + steps * LANES), *scale_b = (const float *)(b + steps * LANES);
	const int *end = b + steps * LANES;
	__m512i x, y0, y1;
#define START(i)                                    \
	REGISTER(__m512i, p##i, 1##i);                  \
	REGISTER(__m512i, q##i, 2##i);                  \
	p##i = q##i = _mm512_setzero_si512();           \
	if (mr > i) {                                   \
		__builtin_prefetch(c + i * ldc, 1);         \
		if (nv > 1)                                 \
			__builtin_prefetch(c + i * ldc + LANES, 1); \
	}
	ROWS(START)
#pragma GCC unroll 1
	do {
		y0 = _mm512_load_si512(b);
		if (nv > 1)
			y1 = _mm512_load_si512(b + size);
#define STEP(i)                      \
	if (mr > i) {                    \
		x = _mm512_set1_epi32(a[i]); \
		DOT(p##i, y0, x);            \
		if (nv > 1)                  \
			DOT(q##i, y1, x);        \
	}
		ROWS(STEP)
		__builtin_prefetch(a + 16 * LANES); // one word of a line at a time does not wake the processor's own
		a += LANES;
		b += LANES;
	} while (b != end);
	const __m512 by0 = _mm512_load_ps(scale_b), by1 = nv > 1 ? _mm512_load_ps(scale_b + size) : by0;
	const __mmask16 lanes = first(last);
#define PUT(i)                                                                         \
	if (mr > i) {                                                                      \
		__m512 row = _mm512_set1_ps(scale_a[i]);                                       \
		put(p##i, _mm512_mul_ps(row, by0), plus, c, i * ldc, nv > 1 ? 0xffff : lanes); \
		if (nv > 1)                                                                    \
			put(q##i, _mm512_mul_ps(row, by1), plus, c, i * ldc + LANES, lanes);       \
	}
	ROWS(PUT)
}

#define TILE(mr, nv)                                                                                             \
	static __attribute__((noinline)) void tile_##mr##x##nv(long steps, const int *a, const int *b, long size,     \
	                                                       const float *plus, float *c, long ldc, int last) {     \
		tile(mr, nv, steps, a, b, size, plus, c, ldc, last);                                                     \
	}
#define TILES(mr) TILE(mr, 1) TILE(mr, 2)
TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6) TILES(7) TILES(8)

typedef void (*tile_function)(long steps, const int *a, const int *b, long size, const float *plus, float *c, long ldc,
                              int last);
static const tile_function tiles[MR][PANEL] = {{tile_1x1, tile_1x2}, {tile_2x1, tile_2x2}, {tile_3x1, tile_3x2},
                                               {tile_4x1, tile_4x2}, {tile_5x1, tile_5x2}, {tile_6x1, tile_6x2},
                                               {tile_7x1, tile_7x2}, {tile_8x1, tile_8x2}};

INLINE long strips_of(long lanes) { return (lanes + LANES - 1) / LANES; }

// steps_of: K is cut into equal chunks of at most CHUNK steps, whole pairs of
// cache lines where there are several.
INLINE long steps_of(long k) {
	long chunks = (k + CHUNK - 1) / CHUNK;
	return chunks <= 1 ? k : ((k + chunks - 1) / chunks + 2 * LANES - 1) / (2 * LANES) * (2 * LANES);
}

// A packed B holds chunk after chunk of K, each as strips of 16 columns.
static long packed_size(int trans, long n, long k) {
	long steps = steps_of(k);
	return k == 0 ? 0 : (k + steps - 1) / steps * strips_of(n) * strip_size(steps) * (long)sizeof(int);
}

// read_rows reads one float of every cache line of x [rows, width], in the order of
// memory, along which the hardware prefetches.
static void read_rows(const float *x, long rows, long width, long ld) {
	for (long r = 0; r < rows; r++, x += ld)
		for (long c = 0; c < width; c += LANES)
			(void)*(const volatile float *)(x + c);
}

static void pack(void *packed, int trans, long n, long k, const float *b, long ldb) {
	long steps = steps_of(k);
	int *to = packed;
	// Chunks of rows are read by bits and pieces: an expert's [256,320] took 0.6 ns a
	// float from memory, and takes 0.4 (0.16 instead of 0.12 from L2). Prefetch
	// instructions change nothing. Rows of one chunk are read in this order anyway: 0.26.
	if (trans == NT && k > steps)
		read_rows(b, n, k, ldb);
	for (long l = 0; l < k; l += steps) {
		long kc = k - l < steps ? k - l : steps;
		quantize(to, trans == NT, trans == NT ? b + l : b + l * ldb, ldb, kc, n, 1);
		to += strips_of(n) * strip_size(steps);
	}
}

// keeps_b: a B that is not packed is quantized group by group of columns, each
// thrown away after its use, unless rows of A beyond MC will want it again.
INLINE int keeps_b(long m) { return m > MC; }

// Scratch holds A's strips of one chunk, then B's of one group or of one span. The
// longest chunk stands for those of any smaller k.
static long scratch_size(int trans, long m, long n, long k) {
	long size = strip_size(k < CHUNK ? k : CHUNK) * (long)sizeof(int), chunks = (k + CHUNK - 1) / CHUNK;
	long group = strips_of(GROUP), span = keeps_b(m) ? strips_of(n) * (chunks < SPAN ? chunks : SPAN) : 0;
	return size * (strips_of(m < MC ? m : MC) + (span > group ? span : group));
}

// ahead is a block of an operand that will be quantized next. A few of its lines
// are fetched with every tile, because quantizing reads each number twice and
// multiplies once: left to itself it waits for memory (measured: 15% of a weight
// gradient's time), and the multiplications hardly use memory at all.
typedef struct {
	const float *at;
	long ld, width, rows; // rows of width floats are still to be fetched
	long from, share;     // fetched of the first row; floats per tile
} ahead;

INLINE ahead fetch_over(long tiles, int by_rows, const float *x, long ld, long n, long lanes) {
	long width = by_rows ? n : lanes, rows = by_rows ? lanes : n;
	return (ahead){x, ld, width, rows, 0, rows * (width + LANES) / tiles + LANES};
}

INLINE void fetch(ahead *next) {
	for (long floats = next->share; floats > 0 && next->rows > 0; floats -= LANES) {
		__builtin_prefetch(next->at + next->from, 0, 2);
		next->from += LANES;
		if (next->from >= next->width) {
			next->from = 0;
			next->at += next->ld;
			next->rows--;
		}
	}
}

// multiply_chunk adds rows [0,m) of A, m <= MC, over kc steps to plus. strips_b
// is B's chunk; b, unless NULL, is quantized into it on the way, to the same
// place again unless it is kept.
static void multiply_chunk(int trans, long m, long n, long kc, const float *a, long lda, const float *b, long ldb,
                           int *strips_b, int keep, const float *plus, float *c, long ldc, int *strips_a, ahead next_a) {
	const long size = strip_size(kc), steps = pairs_of(kc) + 1, step_b = trans == NT ? ldb : 1;
	quantize(strips_a, trans != TN, a, lda, kc, m, 0);
	ahead next_b = {0};
	for (long j = 0; j < n; j += NR) {
		int *panel = strips_b + (keep ? j : j % GROUP) / LANES * size;
		if (b && j % GROUP == 0) {
			long left = n - j;
			quantize(panel, trans == NT, b + j * step_b, ldb, kc, left < GROUP ? left : GROUP, 1);
			left -= GROUP;
			if (left > 0)
				next_b = fetch_over((m + MR - 1) / MR * (GROUP / NR), trans == NT, b + (j + GROUP) * step_b, ldb, kc,
				                    left < GROUP ? left : GROUP);
		}
		long w = n - j < NR ? n - j : NR;
		int nv = (int)strips_of(w), last = (int)(w - (nv - 1) * LANES);
		for (long i = 0; i < m; i += MR) {
			int mr = m - i < MR ? (int)(m - i) : MR;
			fetch(&next_a);
			fetch(&next_b);
			tiles[mr - 1][nv - 1](steps, strips_a + i / LANES * size + i % LANES, panel, size,
			                      plus ? plus + i * ldc + j : NULL, c + i * ldc + j, ldc, last);
		}
	}
}

// The order of the loops: a span of chunks, MC rows of A, the span's chunks. The
// rows' results stay in L2 from chunk to chunk, and a B that is not packed needs
// scratch for a span only.
static void gemm(int trans, long m, long n, long k, const float *a, long lda, const float *b, long ldb,
                 const void *packed, const float *plus, float *c, long ldc, void *scratch) {
	if (k == 0) {
		copy_rows(m, n, plus, c, ldc);
		return;
	}
	const long steps = steps_of(k), size = strip_size(steps), keep = packed || keeps_b(m);
	const long step_a = trans == TN ? lda : 1, row_a = trans == TN ? 1 : lda, step_b = trans == NT ? 1 : ldb;
	int *strips_a = scratch, *kept = strips_a + strips_of(m < MC ? m : MC) * size;
	for (long span = 0; span < k; span += SPAN * steps) {
		const long end = k - span < SPAN * steps ? k : span + SPAN * steps;
		for (long i = 0; i < m; i += MC) {
			const long mc = m - i < MC ? m - i : MC;
			for (long l = span; l < end; l += steps) {
				const long kc = k - l < steps ? k - l : steps;
				int *strips_b = kept + (keep ? (l - span) / steps * strips_of(n) * size : 0);
				if (packed)
					strips_b = (int *)packed + l / steps * strips_of(n) * size;
				// What follows: the rows' next chunk, else the next rows' first, else the next span.
				const int last_rows = i + MC >= m;
				const long next_l = l + steps < end || last_rows ? l + steps : span;
				const long next_i = l + steps < end ? i : last_rows ? 0 : i + MC;
				ahead next = {0};
				if (next_l < k)
					next = fetch_over((mc + MR - 1) / MR * ((n + NR - 1) / NR), trans != TN, a + next_l * step_a + next_i * row_a,
					                  lda, k - next_l < steps ? k - next_l : steps, m - next_i < MC ? m - next_i : MC);
				const float *from = l > 0 ? c : plus;
				multiply_chunk(trans, mc, n, kc, a + l * step_a + i * row_a, lda, packed || i > 0 ? NULL : b + l * step_b, ldb,
				               strips_b, keep, from ? from + i * ldc : NULL, c + i * ldc, ldc, strips_a, next);
			}
		}
	}
}

const gemm_engine gemm_vnni16 = {packed_size, pack, scratch_size, gemm};

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
