#include "kernels.h"
#include <string.h>

void copy_rows(long m, long n, const float *plus, float *c, long ldc) {
	for (long i = 0; i < m && plus != c; i++) {
		if (plus)
			memcpy(c + i * ldc, plus + i * ldc, n * sizeof(float));
		else
			memset(c + i * ldc, 0, n * sizeof(float));
	}
}
