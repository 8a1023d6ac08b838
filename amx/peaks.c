#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#endif
#include "peaks.h"
#include <string.h>

#if defined(__x86_64__)

// 24 accumulators hide the latency of any of these instructions (12 of the 16
// registers that AVX2 has). Inline assembly, because compilers copy and spill the
// accumulators of destructive instructions.
#define EACH12(OP) OP(0) OP(1) OP(2) OP(3) OP(4) OP(5) OP(6) OP(7) OP(8) OP(9) OP(10) OP(11)
#define EACH24(OP) EACH12(OP) OP(12) OP(13) OP(14) OP(15) OP(16) OP(17) OP(18) OP(19) OP(20) OP(21) OP(22) OP(23)

#define CLOBBER_YMM                                                                                               \
	"cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
		"xmm12", "xmm13", "xmm14", "xmm15"
#define CLOBBER_ZMM CLOBBER_YMM, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm30", "xmm31"

#define CLEAR_ZMM(i) "vpxorq %%zmm" #i ", %%zmm" #i ", %%zmm" #i "\n\t"
#define CLEAR_YMM(i) "vxorps %%ymm" #i ", %%ymm" #i ", %%ymm" #i "\n\t"
#define FMA_ZMM(i) "vfmadd231ps %%zmm30, %%zmm31, %%zmm" #i "\n\t"
#define FMA_YMM(i) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #i "\n\t"
#define BF16_ZMM(i) "vdpbf16ps %%zmm30, %%zmm31, %%zmm" #i "\n\t"
#define INT16_ZMM(i) "vpdpwssd %%zmm30, %%zmm31, %%zmm" #i "\n\t"
#define INT8_ZMM(i) "vpdpbusd %%zmm30, %%zmm31, %%zmm" #i "\n\t"

// The multiplicands: as fp32 about 1/2, as bf16 pairs of 1/2, as integers not 0. Sums
// stop growing at 2^24 or wrap around: no value is ever denormal, infinite or NaN.
static const float operand = 0.5019531f;

#define LOOP_ZMM(name, isa, STEP)                                                                         \
	__attribute__((target(isa))) static void name(long rounds) {                                          \
		__asm__ volatile(EACH24(CLEAR_ZMM) "vbroadcastss %1, %%zmm30\n\tvbroadcastss %1, %%zmm31\n\t"     \
		                 ".p2align 5\n1:\n\t" EACH24(STEP) "dec %0\n\tjnz 1b\n\tvzeroupper"              \
		                 : "+r"(rounds)                                                                   \
		                 : "m"(operand)                                                                   \
		                 : CLOBBER_ZMM);                                                                  \
	}
LOOP_ZMM(fp32_zmm, "avx512f", FMA_ZMM)
LOOP_ZMM(bf16_zmm, "avx512f,avx512bf16", BF16_ZMM)
LOOP_ZMM(int16_zmm, "avx512f,avx512vnni", INT16_ZMM)
LOOP_ZMM(int8_zmm, "avx512f,avx512vnni", INT8_ZMM)

__attribute__((target("avx2,fma"))) static void fp32_ymm(long rounds) {
	__asm__ volatile(EACH12(CLEAR_YMM) "vbroadcastss %1, %%ymm14\n\tvbroadcastss %1, %%ymm15\n\t"
	                 ".p2align 5\n1:\n\t" EACH12(FMA_YMM) "dec %0\n\tjnz 1b\n\tvzeroupper"
	                 : "+r"(rounds)
	                 : "m"(operand)
	                 : CLOBBER_YMM);
}

// Tiles of 16 rows of 64 bytes: 0-3 are accumulators of a 2x2 block, 4-5 and 6-7 its operands.
struct tile_config {
	unsigned char palette, start_row, reserved[14];
	unsigned short row_bytes[16];
	unsigned char rows[16];
};
#define TILE_STEPS(dot)                                                                                    \
	dot " %%tmm6, %%tmm4, %%tmm0\n\t" dot " %%tmm7, %%tmm4, %%tmm1\n\t" dot " %%tmm6, %%tmm5, %%tmm2\n\t" dot \
	    " %%tmm7, %%tmm5, %%tmm3\n\t"
#define LOOP_TILE(name, isa, dot)                                                                                     \
	__attribute__((target(isa))) static void name(long rounds) {                                                      \
		struct tile_config config = {.palette = 1};                                                                   \
		float rows[256];                                                                                              \
		for (int i = 0; i < 256; i++)                                                                                 \
			rows[i] = operand;                                                                                        \
		for (int i = 0; i < 8; i++)                                                                                   \
			config.row_bytes[i] = 64, config.rows[i] = 16;                                                            \
		__asm__ volatile("ldtilecfg (%1)\n\t"                                                                         \
		                 "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\t"               \
		                 "tileloadd (%2,%3,1), %%tmm4\n\ttileloadd (%2,%3,1), %%tmm5\n\t"                             \
		                 "tileloadd (%2,%3,1), %%tmm6\n\ttileloadd (%2,%3,1), %%tmm7\n\t"                             \
		                 ".p2align 5\n1:\n\t" TILE_STEPS(dot) TILE_STEPS(dot) "dec %0\n\tjnz 1b\n\ttilerelease"      \
		                 : "+r"(rounds)                                                                               \
		                 : "r"(&config), "r"(rows), "r"(64L)                                                          \
		                 : "cc", "memory");                                                                           \
	}
LOOP_TILE(bf16_tile, "amx-tile,amx-bf16", "tdpbf16ps")
LOOP_TILE(int8_tile, "amx-tile,amx-int8", "tdpbssd")

double peak_burst(int kind, long rounds) {
	const double zmm = 2.0 * 24 * 16 * rounds, tile = 2.0 * 8 * 16 * 16 * 16 * rounds;
	switch (kind) {
	case PEAK_FP32_ZMM:
		fp32_zmm(rounds);
		return zmm;
	case PEAK_FP32_YMM:
		fp32_ymm(rounds);
		return 2.0 * 12 * 8 * rounds;
	case PEAK_BF16_ZMM:
		bf16_zmm(rounds);
		return 2 * zmm;
	case PEAK_INT16_ZMM:
		int16_zmm(rounds);
		return 2 * zmm;
	case PEAK_INT8_ZMM:
		int8_zmm(rounds);
		return 4 * zmm;
	case PEAK_BF16_TILE:
		bf16_tile(rounds);
		return 2 * tile;
	case PEAK_INT8_TILE:
		int8_tile(rounds);
		return 4 * tile;
	}
	return 0;
}

#define FOUR(x) x x x x
double dependent_adds(long rounds) {
	long sum = 0;
	// Register to register: some cores drop additions of constants before they execute.
	__asm__ volatile(".p2align 5\n1:\n\t" FOUR(FOUR(FOUR("add %2, %1\n\t"))) "dec %0\n\tjnz 1b"
	                 : "+r"(rounds), "+r"(sum)
	                 : "r"(1L)
	                 : "cc");
	return (double)sum;
}

// 512 bytes a step, in vectors of one width.
#define LOAD_ZMM(i) "vmovups 64*" #i "(%0,%1), %%zmm" #i "\n\t"
#define STORE_ZMM(i) "vmovups %%zmm" #i ", 64*" #i "(%0,%1)\n\t"
#define FROM_ZMM(i) "vmovups 64*" #i "(%3,%1), %%zmm" #i "\n\t"
#define LOAD_YMM(i) "vmovups 32*" #i "(%0,%1), %%ymm" #i "\n\t"
#define STORE_YMM(i) "vmovups %%ymm" #i ", 32*" #i "(%0,%1)\n\t"
#define FROM_YMM(i) "vmovups 32*" #i "(%3,%1), %%ymm" #i "\n\t"
#define EACH8(OP) OP(0) OP(1) OP(2) OP(3) OP(4) OP(5) OP(6) OP(7)
#define EACH16(OP) EACH8(OP) OP(8) OP(9) OP(10) OP(11) OP(12) OP(13) OP(14) OP(15)

#define OVER_MEMORY(name, isa, BEFORE, STEPS)                                                                  \
	__attribute__((target(isa))) static void name(char *p, const char *from, long bytes, long rounds) { \
		for (; rounds > 0; rounds--) {                                                                 \
			long at = 0;                                                                               \
			__asm__ volatile(BEFORE ".p2align 5\n1:\n\t" STEPS "add $512, %1\n\tcmp %2, %1\n\tjl 1b"         \
			                 : "+r"(p), "+r"(at)                                                       \
			                 : "r"(bytes), "r"(from)                                                   \
			                 : CLOBBER_YMM);                                                           \
		}                                                                                              \
		__asm__ volatile("vzeroupper" ::: CLOBBER_YMM);                                                \
	}
OVER_MEMORY(read_zmm, "avx512f", , EACH8(LOAD_ZMM))
OVER_MEMORY(write_zmm, "avx512f", EACH8(CLEAR_ZMM), EACH8(STORE_ZMM))
OVER_MEMORY(copy_zmm, "avx512f", , EACH8(FROM_ZMM) EACH8(STORE_ZMM))
OVER_MEMORY(read_ymm, "avx", , EACH16(LOAD_YMM))
OVER_MEMORY(write_ymm, "avx", EACH16(CLEAR_YMM), EACH16(STORE_YMM))
OVER_MEMORY(copy_ymm, "avx", , EACH16(FROM_YMM) EACH16(STORE_YMM))

void identify(unsigned leaf, unsigned subleaf, unsigned out[4]) {
	__asm__ volatile("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "0"(leaf), "2"(subleaf));
}

unsigned long long saved_states(void) {
	unsigned low, high;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (unsigned long long)high << 32 | low;
}

unsigned float_control(void) {
	unsigned value;
	__asm__ volatile("stmxcsr %0" : "=m"(value));
	return value;
}

#else

double peak_burst(int kind, long rounds) { return 0; }

#if defined(__aarch64__)
#define FOUR(x) x x x x
double dependent_adds(long rounds) {
	long sum = 0;
	__asm__ volatile("1:\n\t" FOUR(FOUR(FOUR("add %1, %1, %2\n\t"))) "subs %0, %0, #1\n\tb.ne 1b"
	                 : "+r"(rounds), "+r"(sum)
	                 : "r"(1L)
	                 : "cc");
	return (double)sum;
}
#else
double dependent_adds(long rounds) { return 0; }
#endif

void identify(unsigned leaf, unsigned subleaf, unsigned out[4]) { memset(out, 0, 4 * sizeof out[0]); }
unsigned long long saved_states(void) { return 0; }
unsigned float_control(void) { return 0x1f80; }

#endif

// Whatever vectors the target has.
typedef float any __attribute__((vector_size(16), may_alias));

static void read_any(const char *p, long bytes) {
	const any *x = (const any *)p;
	any sum[8] = {0};
	for (long i = 0; i < bytes / 16; i += 8)
		for (int j = 0; j < 8; j++)
			sum[j] += x[i + j];
	for (int j = 0; j < 8; j++)
		__asm__ volatile("" ::"m"(sum[j]));
}

void read_memory(int width, const void *p, long bytes, long rounds) {
#if defined(__x86_64__)
	if (width == WIDTH_ZMM)
		read_zmm((char *)p, p, bytes, rounds);
	if (width == WIDTH_YMM)
		read_ymm((char *)p, p, bytes, rounds);
	if (width != WIDTH_ANY)
		return;
#endif
	for (; rounds > 0; rounds--)
		read_any(p, bytes);
}

void write_memory(int width, void *p, long bytes, long rounds) {
#if defined(__x86_64__)
	if (width == WIDTH_ZMM)
		write_zmm(p, p, bytes, rounds);
	if (width == WIDTH_YMM)
		write_ymm(p, p, bytes, rounds);
	if (width != WIDTH_ANY)
		return;
#endif
	for (; rounds > 0; rounds--) {
		memset(p, 0, bytes);
		__asm__ volatile("" ::"r"(p) : "memory");
	}
}

void copy_memory(int width, void *to, const void *from, long bytes, long rounds) {
#if defined(__x86_64__)
	if (width == WIDTH_ZMM)
		copy_zmm(to, from, bytes, rounds);
	if (width == WIDTH_YMM)
		copy_ymm(to, from, bytes, rounds);
	if (width != WIDTH_ANY)
		return;
#endif
	for (; rounds > 0; rounds--) {
		memcpy(to, from, bytes);
		__asm__ volatile("" ::"r"(to) : "memory");
	}
}

void halve(float *y, const float *x, long n, long rounds) {
	for (; rounds > 0; rounds--) {
		for (long i = 0; i < n; i++)
			y[i] = 0.5f * x[i];
		__asm__ volatile("" ::: "memory");
	}
}

void nothing(void) {}
