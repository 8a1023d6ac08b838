#ifndef HARNESS_AMXEMU_ENCODED_H
#define HARNESS_AMXEMU_ENCODED_H

#include <stdint.h>

typedef struct {
	uint64_t general[16]; // in the order of their encoding: rax, rcx, rdx, rbx, rsp, rbp, ...
	uint32_t mxcsr;
} encoded_registers;

// encoded_enter loads all registers, jumps to code, and stores the registers as they
// are when code jumps to encoded_exit. Code needs no stack: rsp may be anything.
void encoded_enter(encoded_registers *r, const void *code);
void encoded_exit(void);

// A product of whole tiles by the compiler's intrinsics, numbered like Product in
// Go, with a configuration for tile 0 = c, 1 = a, 2 = b.
void encoded_product(int product, const void *config, void *c, long ldc, const void *a, long lda, const void *b, long ldb);

// C [n,n] fp32 += A [n,n] bf16 x B, n a multiple of 32, B [n/2,n,2] bf16 in pairs of rows.
void encoded_gemm(long n, const void *config, float *c, const uint16_t *a, const uint16_t *b);

#endif
