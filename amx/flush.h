// Denormals: numbers below 1.2e-38 stall a core for some hundred cycles each, and
// training makes them: moments of rows that get no gradient decay into them, as do
// probabilities. Inside a kernel they count as 0, which changes a result by less
// than 1e-37 and NaN or infinity not at all. The products of the 16-bit sets do
// without: their scales are small numbers that must not vanish.
//
// The mode belongs to the thread, so that it is set and put back within each call:
// Go code never runs with it. Signal handlers on x86 start with the default mode.
#ifndef HARNESS_AMX_FLUSH_H
#define HARNESS_AMX_FLUSH_H

typedef struct {
	unsigned long before;
	int running;
} flush_mode;

static inline __attribute__((always_inline)) flush_mode flush_begin(void) {
	flush_mode mode = {0, 1};
#if defined(__x86_64__)
	enum { FLUSH_RESULTS = 1 << 15, OPERANDS_ARE_ZERO = 1 << 6 };
	unsigned control;
	__asm__ volatile("stmxcsr %0" : "=m"(control));
	mode.before = control;
	control |= FLUSH_RESULTS | OPERANDS_ARE_ZERO;
	__asm__ volatile("ldmxcsr %0" : : "m"(control) : "memory");
#elif defined(__aarch64__)
	enum { FLUSH_BOTH = 1 << 24 };
	__asm__ volatile("mrs %0, fpcr" : "=r"(mode.before));
	__asm__ volatile("msr fpcr, %0" : : "r"(mode.before | FLUSH_BOTH) : "memory");
#endif
	return mode;
}

static inline __attribute__((always_inline)) void flush_end(flush_mode *mode) {
#if defined(__x86_64__)
	unsigned control = (unsigned)mode->before;
	__asm__ volatile("ldmxcsr %0" : : "m"(control) : "memory");
#elif defined(__aarch64__)
	__asm__ volatile("msr fpcr, %0" : : "r"(mode->before) : "memory");
#endif
	mode->running = 0;
}

// FLUSHED statement; runs the statement, which must not return, in this mode.
#define FLUSHED for (flush_mode flushing = flush_begin(); flushing.running; flush_end(&flushing))

#endif
