#define _GNU_SOURCE
#include "peaks.h"

#include <immintrin.h>
#include <time.h>

double thread_ns(void) {
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

// 24 accumulators (12 of the 16 AVX2 registers) hide any latency. The operands
// stay 0, so that no value overflows; the rate depends on no value. Inline
// assembly, because compilers copy the accumulators of destructive instructions. A
// burst takes 0.3 ms: of much shorter ones the clock makes some too fast.
enum { ROUNDS = 100000, CHAINS = 24, CHAINS_AVX2 = 12 };

#define EACH12(OP, x) \
	OP(x, 0) OP(x, 1) OP(x, 2) OP(x, 3) OP(x, 4) OP(x, 5) OP(x, 6) OP(x, 7) OP(x, 8) OP(x, 9) OP(x, 10) OP(x, 11)
#define EACH24(OP, x)                                                                                             \
	EACH12(OP, x) OP(x, 12) OP(x, 13) OP(x, 14) OP(x, 15) OP(x, 16) OP(x, 17) OP(x, 18) OP(x, 19) OP(x, 20) OP(x, 21) \
		OP(x, 22) OP(x, 23)

#define ZMM_STEP(name, i) name " %%zmm30, %%zmm31, %%zmm" #i "\n\t"
#define YMM_STEP(name, i) name " %%ymm14, %%ymm15, %%ymm" #i "\n\t"
#define ZMM_CLEAR(x, i) "vpxorq %%zmm" #i ", %%zmm" #i ", %%zmm" #i "\n\t"
#define YMM_CLEAR(x, i) "vxorps %%ymm" #i ", %%ymm" #i ", %%ymm" #i "\n\t"

#define SIXTEEN_XMM                                                                                                \
	"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", \
		"xmm14", "xmm15"

// One burst of ROUNDS rounds on every chain.
#define BURST(function, target_set, CLEAR, STEPS, ...)                                                            \
	__attribute__((target(target_set))) static void function(void) {                                              \
		long rounds = ROUNDS;                                                                                     \
		__asm__ volatile(CLEAR ".p2align 5\n1:\n\t" STEPS "dec %0\n\tjnz 1b\n\tvzeroupper" : "+r"(rounds) : : "cc", \
		                 __VA_ARGS__);                                                                           \
	}
#define ZMM_BURST(function, target_set, name)                                                                    \
	BURST(function, target_set, EACH24(ZMM_CLEAR, ) ZMM_CLEAR(, 30) ZMM_CLEAR(, 31), EACH24(ZMM_STEP, name), SIXTEEN_XMM, \
	      "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm30", "xmm31")

ZMM_BURST(fma_zmm, "avx512f", "vfmadd231ps")
ZMM_BURST(bf16_zmm, "avx512bf16", "vdpbf16ps")
ZMM_BURST(int16_zmm, "avx512vnni", "vpdpwssd")
ZMM_BURST(int8_zmm, "avx512vnni", "vpdpbusd")
BURST(fma_ymm, "fma", EACH12(YMM_CLEAR, ) YMM_CLEAR(, 14) YMM_CLEAR(, 15), EACH12(YMM_STEP, "vfmadd231ps"), SIXTEEN_XMM)

static double fastest(void (*burst)(void), int bursts, double operations) {
	double best = 0;
	burst();
	for (int i = 0; i < bursts; i++) {
		double start = thread_ns();
		burst();
		double rate = operations / (thread_ns() - start);
		best = rate > best ? rate : best;
	}
	return best;
}

struct peaks measure_peaks(int bursts) {
	const double steps = (double)ROUNDS * CHAINS; // of 16 lanes; one multiply-add is two operations
	struct peaks p = {0};
	if (__builtin_cpu_supports("avx512f"))
		p.f32 = fastest(fma_zmm, bursts, steps * 16 * 2);
	else if (__builtin_cpu_supports("fma"))
		p.f32 = fastest(fma_ymm, bursts, (double)ROUNDS * CHAINS_AVX2 * 8 * 2);
	if (__builtin_cpu_supports("avx512bf16"))
		p.bf16 = fastest(bf16_zmm, bursts, steps * 32 * 2);
	if (__builtin_cpu_supports("avx512vnni")) {
		p.int16 = fastest(int16_zmm, bursts, steps * 32 * 2);
		p.int8 = fastest(int8_zmm, bursts, steps * 64 * 2);
	}
	return p;
}
