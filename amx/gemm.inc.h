// GEMM in fp32. Every element of C is one chain of multiply-adds in the order of
// k, broken only every KC steps (a rule of k alone), where the chain's sum is
// added to C. Neither m nor n nor a row's place enters, which is what makes the
// result batch-invariant.
//
// A tile of MR x NR results lives in registers. MC rows of A pass through all
// blocks of K before the next MC rows, so that these rows of C stay in L2 from
// block to block; within a block, panel after panel of B (KC x NR, in L2) meets
// the MC rows, tile by tile. What a later tile will need from L3 or memory is
// prefetched meanwhile (5% of the time: the hardware starts too late on rows of
// a few hundred bytes). Measured within 2%: MC of 288 to 768, KC of 256 and 384.
//
// The instruction set's file defines MR (rows), NV (vectors per panel) and WIDE
// (vectors of the one-row tile).

enum { NR = NV * VW, KC = 256, MC = 64 * MR };
enum { LINE = 16 }; // floats in a cache line

// Up to this many rows packing B costs more than reading it where it lies.
enum { FEW_ROWS = 2 * MR };

// Operands and results of fewer floats than this stay in L2: nothing is prefetched.
enum { SMALL = 1 << 16 };

#include "gemm_pack.inc.h"
#include "gemm_tile.inc.h"

// product is one call of gemm, and how it is cut.
typedef struct {
	int trans;
	long m, n, k;
	const float *a, *b, *packed, *plus; // b or packed
	float *c, *panel, *strips;
	long lda, ldb, ldc;
	long steps;   // K is cut into equal blocks of at most KC steps
	int packs_a;  // A is copied into strips
	int prefetch; // operands are larger than L2
	long strip;
} product;

INLINE long least(long a, long b) { return a < b ? a : b; }
INLINE long padded(long n) { return (n + VW - 1) / VW * VW; }

INLINE long steps_of(long k) {
	long blocks = (k + KC - 1) / KC;
	return k == 0 ? 0 : (k + blocks - 1) / blocks;
}

// packs_a: packing pays once the same rows are read for a third panel (measured).
INLINE int packs_a(int trans, long m, long n) { return trans == TN && m > 1 && n > 2 * NR; }

INLINE const float *at_a(const product *p, long i, long l) {
	return p->trans == TN ? p->a + l * p->lda + i : p->a + i * p->lda + l;
}
INLINE const float *at_b(const product *p, long l, long j) {
	return p->trans == NT ? p->b + j * p->ldb + l : p->b + l * p->ldb + j;
}

// A packed B holds block after block of K, each as panels of NR columns; the last
// panel is as many vectors wide as it has columns.
static long packed_size(int trans, long n, long k) { return (long)sizeof(float) * k * padded(n); }

static void pack(void *packed, int trans, long n, long k, const float *b, long ldb) {
	const product p = {.trans = trans, .b = b, .ldb = ldb};
	long steps = steps_of(k);
	for (long l = 0; l < k; l += steps) {
		long kc = least(k - l, steps);
		for (long j = 0; j < n; j += NR)
			pack_panel((float *)packed + l * padded(n) + j * kc, trans, at_b(&p, l, j), ldb, kc, least(n - j, NR));
	}
}

// The longest block stands for those of any smaller k.
static long scratch_size(int trans, long m, long n, long k) {
	long steps = least(k, KC), strips = packs_a(trans, m, n) ? (least(m, MC) + MR - 1) / MR : 0;
	return (long)sizeof(float) * (steps * NR + strips * strip_size(steps));
}

// span is memory that will be read soon: rows of `width` floats.
typedef struct {
	const float *from;
	long rows, stride, width;
	long portion; // rows prefetched at a time
} span;

// shared returns s to be prefetched in so many portions. Narrow rows that lie a
// multiple of 4 KiB apart would push one another out of L2: they are left out.
INLINE span shared(span s, long portions) {
	if (s.stride % 1024 == 0 && s.width <= 8 * LINE)
		s.rows = 0;
	s.portion = (s.rows + portions - 1) / portions;
	return s;
}

// fetch prefetches the next portion into L2.
INLINE void fetch(span *s) {
	long rows = least(s->portion, s->rows);
	s->rows -= rows;
	for (; rows > 0; rows--, s->from += s->stride)
		for (long c = 0; c < s->width; c += LINE)
			__builtin_prefetch(s->from + c, 0, 2);
}

// span_a is where `rows` rows of op(A) from (i,l) on are read, span_b the panel at (l,j).
INLINE span span_a(const product *p, long i, long l, long rows) {
	long kc = least(p->k - l, p->steps);
	return p->trans == TN ? (span){at_a(p, i, l), kc, p->lda, rows} : (span){at_a(p, i, l), rows, p->lda, kc};
}
INLINE span span_b(const product *p, long l, long j) {
	long kc = least(p->k - l, p->steps), w = least(p->n - j, NR);
	if (p->packed)
		return (span){p->packed + l * padded(p->n) + j * kc, kc, padded(w), padded(w)};
	return p->trans == NT ? (span){at_b(p, l, j), w, p->ldb, kc} : (span){at_b(p, l, j), kc, p->ldb, w};
}

// place is where a block begins: row i of A, step l of K.
typedef struct {
	long i, l;
} place;

// next is the block that follows the one at `at`; its i is m after the last.
INLINE place next(const product *p, place at) {
	return at.l + p->steps < p->k ? (place){at.i, at.l + p->steps} : (place){least(p->m, at.i + MC), 0};
}

// multiply_block adds the product of up to MC rows of A and one block of K,
// panel by panel.
static void multiply_block(const product *p, place block) {
	const long first = block.i, end = least(p->m, first + MC), m = end - first, l = block.l, ldc = p->ldc;
	const long kc = least(p->k - l, p->steps);
	const place after = next(p, block);
	const float *plus = l > 0 ? p->c : p->plus;
	const tile_function(*tiles)[NV] = p->trans == TN ? tiles_cols : tiles_rows;
	const tile_function *copying = p->trans == TN ? copying_cols : copying_rows;
	// How the tiles walk through A.
	const float *a = p->packs_a ? p->strips : at_a(p, first, l);
	const long a_stride = p->packs_a ? MR : p->lda;
	const long a_tile = p->packs_a ? p->strip : p->trans == TN ? MR : MR * p->lda;
	// So many rows of A are read at once when their turn comes.
	const long group = p->packs_a ? SIDE_BY_SIDE * MR : MR;

	for (long j = 0; j < p->n;) {
		float *c = p->c + first * ldc + j;
		const float *from = plus ? plus + first * ldc + j : NULL;
		if (!p->packed && p->m == 1 && p->trans != NT && p->n - j >= WIDE * VW) {
			wide_row(kc, a, p->trans == TN ? p->lda : 1, at_b(p, l, j), p->ldb, from, c);
			j += WIDE * VW;
			continue;
		}
		const long w = least(p->n - j, NR);
		const int nv = (int)((w + VW - 1) / VW), last = (int)(w - (nv - 1) * VW);
		const float *panel = p->panel;
		long panel_step = nv * VW;
		int copies = 0; // the first tile reads B where it lies and packs it
		if (p->packed) {
			panel = p->packed + l * padded(p->n) + j * kc;
		} else if (p->trans != NT && last == VW) {
			panel = at_b(p, l, j);
			panel_step = p->ldb;
			copies = m > FEW_ROWS;
		} else {
			pack_panel(p->panel, p->trans, at_b(p, l, j), p->ldb, kc, w);
		}
		span panel_ahead = {0}, rows_ahead = {0};
		if (p->prefetch && j + w < p->n)
			panel_ahead = shared(span_b(p, l, j + w), (m + MR - 1) / MR);
		else if (p->prefetch && after.i < p->m)
			panel_ahead = shared(span_b(p, after.l, 0), (m + MR - 1) / MR);
		const float *a_i = a;
		for (long i = first, group_end = j == 0 ? first : end; i < end; i += MR) {
			if (i == group_end) {
				group_end += group;
				if (p->packs_a)
					pack_a((float *)a_i, p->strip, at_a(p, i, l), p->lda, kc, least(end - i, group));
				if (p->prefetch && group_end < end)
					rows_ahead = shared(span_a(p, group_end, l, least(end - group_end, group)), group / MR);
				else if (p->prefetch && after.i < p->m)
					rows_ahead = shared(span_a(p, after.i, after.l, least(p->m - after.i, group)), group / MR);
			}
			if (p->prefetch) {
				fetch(&panel_ahead);
				fetch(&rows_ahead);
			}
			if (copies) {
				copying[nv - 1](kc, a_i, a_stride, panel, panel_step, p->panel, from, c, ldc, VW);
				panel = p->panel;
				panel_step = nv * VW;
				copies = 0;
			} else {
				tiles[least(end - i, MR) - 1][nv - 1](kc, a_i, a_stride, panel, panel_step, NULL, from, c, ldc, last);
			}
			a_i += a_tile;
			c += MR * ldc;
			from = from ? from + MR * ldc : NULL;
		}
		j += w;
	}
}

static void gemm(int trans, long m, long n, long k, const float *a, long lda, const float *b, long ldb,
                 const void *packed, const float *plus, float *c, long ldc, void *scratch) {
	if (k == 0) {
		copy_rows(m, n, plus, c, ldc);
		return;
	}
	product p = {trans, m, n, k, a, b, packed, plus, c, scratch, NULL, lda, ldb, ldc};
	p.steps = steps_of(k);
	p.packs_a = packs_a(trans, m, n);
	p.prefetch = m > FEW_ROWS && m * k + k * n + m * n >= SMALL;
	p.strip = strip_size(p.steps);
	p.strips = p.panel + p.steps * NR;
	FLUSHED for (place at = {0, 0}; at.i < m; at = next(&p, at))
		multiply_block(&p, at);
}

static const gemm_engine gemm_fp32 = {packed_size, pack, scratch_size, gemm};
