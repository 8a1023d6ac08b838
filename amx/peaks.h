// What a core can do at most, and what it says about itself: loops on registers,
// loops over memory, and the identification instructions of x86. Loops are inline
// assembly where compilers would add to them. Nothing here is needed to train.
#ifndef HARNESS_AMX_PEAKS_H
#define HARNESS_AMX_PEAKS_H

// The arithmetic whose peak is measured. The order is that of peakKinds in measure_peaks.go.
enum {
	PEAK_FP32_ZMM, // VFMADD231PS, 16 lanes
	PEAK_FP32_YMM, // VFMADD231PS, 8 lanes
	PEAK_BF16_ZMM, // VDPBF16PS: pairs of bf16 into fp32
	PEAK_INT16_ZMM, // VPDPWSSD: pairs of int16 into int32
	PEAK_INT8_ZMM, // VPDPBUSD: fours of int8 into int32
	PEAK_BF16_TILE, // TDPBF16PS
	PEAK_INT8_TILE, // TDPBSSD
};

// Does `rounds` rounds on registers and returns the operations done, a multiplication
// and an addition counting as two; 0 where this build does not know the kind. The
// caller knows that the CPU has the instruction, and tiles their permission.
double peak_burst(int kind, long rounds);

// Runs `rounds` rounds of ADDS_PER_ROUND additions that each wait for the one
// before, one cycle each. Returns the additions done; 0 where this build has no such loop.
enum { ADDS_PER_ROUND = 64 };
double dependent_adds(long rounds);

// Vector width of the loops over memory, in bytes.
enum { WIDTH_ANY = 0, WIDTH_YMM = 32, WIDTH_ZMM = 64 };
// Each goes over `bytes` bytes (a multiple of 512, 64-byte aligned) `rounds` times.
void read_memory(int width, const void *p, long bytes, long rounds);
void write_memory(int width, void *p, long bytes, long rounds);
void copy_memory(int width, void *to, const void *from, long bytes, long rounds);

// y[i] = 0.5 * x[i] over n floats, `rounds` times: what denormals cost is seen here.
void halve(float *y, const float *x, long n, long rounds);

// A call that does nothing.
void nothing(void);

// The registers eax, ebx, ecx and edx after CPUID; 0 where there is no such instruction.
void identify(unsigned leaf, unsigned subleaf, unsigned out[4]);
// The register XCR0: which states the system saves. To be asked for only where CPUID says OSXSAVE.
unsigned long long saved_states(void);
// The register MXCSR of SSE: rounding, flush to zero, denormals as zero; its reset value elsewhere.
unsigned float_control(void);

#endif
