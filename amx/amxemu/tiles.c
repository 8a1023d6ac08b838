//go:build linux && amd64 && cgo

// The tiles of one thread and what the instructions do to them, after the
// "Operation" and "Exceptions" sections of Intel's manual (volume 2; classes AMX-E1
// to E6). Plain C on the baseline instruction set, for use in a signal handler.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif
#include "emulator.h"

#include <string.h>
#include <xmmintrin.h>

static outcome load_config(tile_state *s, uint64_t address) {
	tile_config c;
	memcpy(&c, (const void *)(uintptr_t)address, sizeof c);
	if (c.palette > 1)
		return PROTECTED;
	if (c.palette == 0) { // whatever else it says
		memset(s, 0, sizeof *s);
		return DONE;
	}
	int bad = 0;
	for (int i = 0; i < 14; i++)
		bad |= c.reserved[i];
	for (int t = 0; t < TILES; t++)
		bad |= c.colsb[t] > ROW_BYTES || c.rows[t] > MAX_ROWS || !c.colsb[t] != !c.rows[t];
	for (int t = TILES; t < 16; t++)
		bad |= c.colsb[t] | c.rows[t];
	if (bad)
		return PROTECTED;
	memset(s, 0, sizeof *s);
	s->config = c;
	return DONE;
}

static int valid(const tile_state *s, int tile) { return s->config.palette && s->config.rows[tile]; }

// Exceptions of class AMX-E3.
static int movable(const tile_state *s, int tile) {
	const tile_config *c = &s->config;
	return valid(s, tile) && c->colsb[tile] % 4 == 0 && c->start_row < c->rows[tile];
}

// A fault in the middle, which hardware would let a handler mend and go on from
// start_row, ends the process here: the fault is in this code.
static void load_tile(tile_state *s, const instruction *in) {
	int rows = s->config.rows[in->tile], start = s->config.start_row;
	memset(s->data[in->tile][start], 0, (size_t)(MAX_ROWS - start) * ROW_BYTES);
	for (int r = start; r < rows; r++) {
		uint64_t row = in->address + (uint64_t)r * in->stride;
		memcpy(s->data[in->tile][r], (const void *)(uintptr_t)row, s->config.colsb[in->tile]);
	}
}

static void store_tile(const tile_state *s, const instruction *in) {
	for (int r = s->config.start_row; r < s->config.rows[in->tile]; r++) {
		uint64_t row = in->address + (uint64_t)r * in->stride;
		memcpy((void *)(uintptr_t)row, s->data[in->tile][r], s->config.colsb[in->tile]);
	}
}

// Exceptions of class AMX-E4. Factors that fit a valid tile are valid.
static int multipliable(const tile_state *s, int to, int left, int right) {
	const tile_config *c = &s->config;
	return to != left && to != right && left != right && valid(s, to) && c->colsb[to] % 4 == 0 &&
	       c->colsb[left] % 4 == 0 && c->rows[to] == c->rows[left] && c->colsb[to] == c->colsb[right] &&
	       c->colsb[left] / 4 == c->rows[right];
}

// Writes a product's row m, and zeros after it.
static void write_row(tile_state *s, int to, int m, const void *row) {
	int bytes = s->config.colsb[to];
	memcpy(s->data[to][m], row, (size_t)bytes);
	memset(s->data[to][m] + bytes, 0, (size_t)(ROW_BYTES - bytes));
}

static float of_bits(uint32_t bits) {
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

static float widen(uint16_t h, int fp16) {
	if (!fp16) // bf16: the upper half of a float
		return of_bits((uint32_t)h << 16);
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
	if (exponent == 0) { // a denormal of fp16 is a normal float: unlike bf16's it counts
		float f = (float)fraction * 0x1p-24f;
		return sign ? -f : f;
	}
	return of_bits(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

// Two chains of fp32 fused multiply-adds over the even and the odd elements of the
// pairs, added to each other and then to the result. A chain's step is done in
// double: the product is exact there, and rounding the sum to double and then to
// float is rounding once, since double has more than twice float's digits and one.
// Denormals are read as and flushed to zero by MXCSR, which must be set so: double
// values here are never denormal, and the conversions obey. What bits a NaN has is
// not specified.
static inline __attribute__((always_inline)) void multiply_floats(tile_state *s, const instruction *in, int fp16) {
	enum { N = ROW_BYTES / 4 }; // all columns, in any shape: those beyond it are not written
	double even_b[MAX_ROWS][N], odd_b[MAX_ROWS][N];
	int steps = s->config.colsb[in->left] / 4;
	for (int k = 0; k < steps; k++) {
		uint16_t b[2 * N];
		memcpy(b, s->data[in->right][k], sizeof b);
		for (int n = 0; n < N; n++) {
			even_b[k][n] = widen(b[2 * n], fp16);
			odd_b[k][n] = widen(b[2 * n + 1], fp16);
		}
	}
	for (int m = 0; m < s->config.rows[in->tile]; m++) {
		float even[N] = {0}, odd[N] = {0}, sum[N];
		uint16_t a[2 * N];
		memcpy(a, s->data[in->left][m], sizeof a);
		for (int k = 0; k < steps; k++) {
			double even_a = widen(a[2 * k], fp16), odd_a = widen(a[2 * k + 1], fp16);
			for (int n = 0; n < N; n++)
				even[n] = (float)((double)even[n] + even_a * even_b[k][n]);
			for (int n = 0; n < N; n++)
				odd[n] = (float)((double)odd[n] + odd_a * odd_b[k][n]);
		}
		memcpy(sum, s->data[in->tile][m], sizeof sum);
		for (int n = 0; n < N; n++)
			sum[n] += even[n] + odd[n];
		write_row(s, in->tile, m, sum);
	}
}

// Calls of their own, which the compiler does not move across the settings of MXCSR.
__attribute__((noinline)) static void multiply_bf16(tile_state *s, const instruction *in) { multiply_floats(s, in, 0); }
__attribute__((noinline)) static void multiply_fp16(tile_state *s, const instruction *in) { multiply_floats(s, in, 1); }

// Sums of four products of bytes, modulo 2^32.
static void multiply_bytes(tile_state *s, const instruction *in) {
	enum { N = ROW_BYTES / 4 };
	int left_signed = in->op == TDPBSSD || in->op == TDPBSUD, right_signed = in->op == TDPBSSD || in->op == TDPBUSD;
	int steps = s->config.colsb[in->left] / 4;
	for (int m = 0; m < s->config.rows[in->tile]; m++) {
		uint32_t sum[N];
		memcpy(sum, s->data[in->tile][m], sizeof sum);
		for (int k = 0; k < steps; k++)
			for (int i = 0; i < 4; i++) {
				uint8_t a = s->data[in->left][m][4 * k + i];
				int wide_a = left_signed ? (int8_t)a : a;
				for (int n = 0; n < N; n++) {
					uint8_t b = s->data[in->right][k][4 * n + i];
					sum[n] += (uint32_t)(wide_a * (right_signed ? (int8_t)b : b));
				}
			}
		write_row(s, in->tile, m, sum);
	}
}

enum { FLUSH_AND_ROUND_TO_EVEN = 0x9fc0 }; // MXCSR: FTZ, DAZ, all exceptions masked

static void multiply(tile_state *s, const instruction *in) {
	int to = in->tile, rows = s->config.rows[to];
	if (in->op == TDPBF16PS || in->op == TDPFP16PS) {
		unsigned found = _mm_getcsr();
		_mm_setcsr(FLUSH_AND_ROUND_TO_EVEN);
		(in->op == TDPBF16PS ? multiply_bf16 : multiply_fp16)(s, in);
		_mm_setcsr(found);
	} else {
		multiply_bytes(s, in);
	}
	memset(s->data[to][rows], 0, (size_t)(MAX_ROWS - rows) * ROW_BYTES);
}

outcome amxemu_execute(const instruction *in, tile_state *s) {
	switch (in->op) {
	case LDTILECFG:
		return load_config(s, in->address);
	case STTILECFG:
		memcpy((void *)(uintptr_t)in->address, &s->config, sizeof s->config);
		return DONE;
	case TILERELEASE:
		memset(s, 0, sizeof *s);
		return DONE;
	case TILEZERO:
		if (!valid(s, in->tile))
			return UNDEFINED;
		memset(s->data[in->tile], 0, sizeof s->data[in->tile]);
		break;
	case TILELOADD:
	case TILESTORED:
		if (!movable(s, in->tile))
			return UNDEFINED;
		if (in->op == TILELOADD)
			load_tile(s, in);
		else
			store_tile(s, in);
		break;
	default:
		if (!multipliable(s, in->tile, in->left, in->right))
			return UNDEFINED;
		multiply(s, in);
	}
	s->config.start_row = 0;
	return DONE;
}
