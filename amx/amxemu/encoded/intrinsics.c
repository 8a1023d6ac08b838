//go:build linux && amd64 && cgo

// The second source of encodings, after those written by hand: the compiler's.
#include "encoded.h"

#include <immintrin.h>

#define WITH_AMX __attribute__((target("amx-tile,amx-bf16,amx-int8")))
// gcc 12 believes that a configuration has 8 bytes and that loads touch no memory.
#define MEMORY_IS_USED() __asm__ volatile("" ::: "memory")

WITH_AMX void encoded_product(int product, const void *config, void *c, long ldc, const void *a, long lda, const void *b,
                              long ldb) {
	MEMORY_IS_USED();
	_tile_loadconfig(config);
	_tile_loadd(0, c, ldc);
	_tile_loadd(1, a, lda);
	_tile_stream_loadd(2, b, ldb);
	switch (product) {
	case 0:
		_tile_dpbf16ps(0, 1, 2);
		break;
	case 1:
		_tile_dpbssd(0, 1, 2);
		break;
	case 2:
		_tile_dpbsud(0, 1, 2);
		break;
	case 3:
		_tile_dpbusd(0, 1, 2);
		break;
	case 4:
		_tile_dpbuud(0, 1, 2);
		break;
	}
	_tile_stored(0, c, ldc);
	_tile_release();
	MEMORY_IS_USED();
}

WITH_AMX void encoded_gemm(long n, const void *config, float *c, const uint16_t *a, const uint16_t *b) {
	MEMORY_IS_USED();
	_tile_loadconfig(config);
	for (long i = 0; i < n; i += 32)
		for (long j = 0; j < n; j += 32) {
			float *corner = c + i * n + j;
			_tile_loadd(0, corner, 4 * n);
			_tile_loadd(1, corner + 16, 4 * n);
			_tile_loadd(2, corner + 16 * n, 4 * n);
			_tile_loadd(3, corner + 16 * n + 16, 4 * n);
			for (long k = 0; k < n; k += 32) {
				_tile_loadd(4, a + i * n + k, 2 * n);
				_tile_loadd(5, a + (i + 16) * n + k, 2 * n);
				_tile_loadd(6, b + k * n + 2 * j, 4 * n);
				_tile_loadd(7, b + k * n + 2 * j + 32, 4 * n);
				_tile_dpbf16ps(0, 4, 6);
				_tile_dpbf16ps(1, 4, 7);
				_tile_dpbf16ps(2, 5, 6);
				_tile_dpbf16ps(3, 5, 7);
			}
			_tile_stored(0, corner, 4 * n);
			_tile_stored(1, corner + 16, 4 * n);
			_tile_stored(2, corner + 16 * n, 4 * n);
			_tile_stored(3, corner + 16 * n + 16, 4 * n);
		}
	_tile_release();
	MEMORY_IS_USED();
}
