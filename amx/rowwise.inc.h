// Operations that treat each row by itself. Each row is summed in VW lanes, which
// hsum then folds in a fixed order.

static void rmsnorm(float *y, float *rstd, const float *x, const float *gain, long rows, long d, float eps) {
	for (long r = 0; r < rows; r++, x += d, y += d) {
		vf squares = {0};
		EACH(c, n, d, {
			vf v = ld(x + c, n);
			squares += v * v;
		});
		float inv = 1.0f / sqrtf(hsum(squares) / (float)d + eps);
		rstd[r] = inv;
		EACH(c, n, d, { st(y + c, n, ld(x + c, n) * inv * ld(gain + c, n)); });
	}
}

// y may be dy: a vector of both is read before it is written.
static void rmsnorm_backward(float *dx, float *dgain, float *y, const float *dy, const float *x, const float *gain,
                             const float *rstd, long rows, long d) {
	for (long r = 0; r < rows; r++, x += d, dy += d, dx += d, y += d) {
		float inv = rstd[r];
		vf dots = {0};
		EACH(c, n, d, {
			vf v = ld(x + c, n), g = ld(dy + c, n);
			dots += g * ld(gain + c, n) * v;
			st(dgain + c, n, ld(dgain + c, n) + g * v * inv);
		});
		float pull = inv * inv * inv * hsum(dots) / (float)d;
		EACH(c, n, d, {
			vf scale = ld(gain + c, n) * inv, v = ld(x + c, n);
			st(dx + c, n, ld(dx + c, n) + (ld(dy + c, n) * scale - v * pull));
			st(y + c, n, v * inv * ld(gain + c, n));
		});
	}
}

// relu keeps NaN, as the reference does: only x <= 0 becomes 0.
INLINE vf relu(vf x) { return blend(x <= 0.0f, (vf){0}, x); }

static void gated_act(float *h, const float *gu, long rows, long f, int act) {
	for (long r = 0; r < rows; r++, h += f, gu += 2 * f) {
		if (act) {
			EACH(c, n, f, {
				vf gate = ld(gu + c, n);
				st(h + c, n, gate * vsigmoid(gate) * ld(gu + f + c, n));
			});
		} else {
			EACH(c, n, f, {
				vf gate = relu(ld(gu + c, n));
				st(h + c, n, gate * gate * ld(gu + f + c, n));
			});
		}
	}
}

// dgu may be gu and h may be dh: a column's inputs are read before any result is written.
static void gated_act_backward(float *dgu, float *h, const float *gu, const float *dh, long rows, long f, int act) {
	for (long r = 0; r < rows; r++, dh += f, h += f, gu += 2 * f, dgu += 2 * f) {
		if (act) {
			EACH(c, n, f, {
				vf gate = ld(gu + c, n), up = ld(gu + f + c, n), g = ld(dh + c, n);
				vf s = vsigmoid(gate);
				st(dgu + c, n, g * up * (s * (1.0f + gate * (1.0f - s))));
				st(dgu + f + c, n, g * (gate * s));
				st(h + c, n, gate * s * up);
			});
		} else {
			EACH(c, n, f, {
				vf gate = relu(ld(gu + c, n)), up = ld(gu + f + c, n), g = ld(dh + c, n);
				st(dgu + c, n, g * up * (gate + gate));
				st(dgu + f + c, n, g * (gate * gate));
				st(h + c, n, gate * gate * up);
			});
		}
	}
}

static void sigmoid_gate(float *out, const float *y, const float *gate, long rows, long w, long ldg) {
	for (long r = 0; r < rows; r++, out += w, y += w, gate += ldg)
		EACH(c, n, w, { st(out + c, n, ld(y + c, n) * vsigmoid(ld(gate + c, n))); });
}

static void sigmoid_gate_backward(float *dy, float *dgate, const float *dout, const float *y, const float *gate,
                                  long rows, long w, long ldg, long lddg) {
	for (long r = 0; r < rows; r++, dy += w, dgate += lddg, dout += w, y += w, gate += ldg)
		EACH(c, n, w, {
			vf s = vsigmoid(ld(gate + c, n)), g = ld(dout + c, n), v = ld(y + c, n);
			st(dy + c, n, g * s);
			st(dgate + c, n, g * v * (s * (1.0f - s)));
		});
}

static void rotary(float *x, long rows, long ld_x, long heads, long dh, const int *pos, const float *cos,
                   const float *sin, float sign) {
	long half = dh / 2;
	for (long r = 0; r < rows; r++, x += ld_x) {
		const float *cr = cos + pos[r] * half, *sr = sin + pos[r] * half;
		for (long h = 0; h < heads; h++) {
			float *head = x + h * dh;
			EACH(i, n, half, {
				vf x0 = ld(head + i, n), x1 = ld(head + half + i, n);
				vf co = ld(cr + i, n), si = ld(sr + i, n) * sign;
				st(head + i, n, x0 * co - x1 * si);
				st(head + half + i, n, x1 * co + x0 * si);
			});
		}
	}
}

static void scale_rows(float *table, const float *s, const int *idx, long rows, long d) {
	for (long r = 0; r < rows; r++) {
		float *row = table + idx[r] * d, factor = s[r];
		if (factor != 1.0f)
			EACH(c, n, d, { st(row + c, n, factor * ld(row + c, n)); });
	}
}

static void gather_rows(float *dst, const float *table, const int *idx, long rows, long d, float scale) {
	for (long r = 0; r < rows; r++, dst += d) {
		const float *row = table + idx[r] * d;
		EACH(c, n, d, { st(dst + c, n, scale * ld(row + c, n)); });
	}
}

static void scatter_add_rows(float *table, const float *src, const int *idx, long rows, long d, float scale) {
	for (long r = 0; r < rows; r++, src += d) {
		float *row = table + idx[r] * d;
		EACH(c, n, d, { st(row + c, n, ld(row + c, n) + scale * ld(src + c, n)); });
	}
}

INLINE void adamw_row(float *p, const float *g, float *m, float *v, long n_params, adamw_step s) {
	float keep1 = 1.0f - s.beta1, keep2 = 1.0f - s.beta2;
	EACH(c, n, n_params, {
		vf grad = ld(g + c, n) * s.grad_scale;
		vf mean = s.beta1 * ld(m + c, n) + keep1 * grad;
		vf square = s.beta2 * ld(v + c, n) + keep2 * (grad * grad);
		vf param = ld(p + c, n);
		st(m + c, n, mean);
		st(v + c, n, square);
		param -= s.decay * param;
		param -= s.lr * (mean * s.correct1) / (vsqrt(square * s.correct2) + s.eps);
		st(p + c, n, param);
	});
}

static void adamw(float *p, const float *g, float *m, float *v, long n_params, adamw_step s) {
	adamw_row(p, g, m, v, n_params, s);
}

static void adamw_rows(float *p, const float *g, float *m, float *v, const int *idx, const float *correct1,
                       const float *correct2, long rows, long d, adamw_step s) {
	for (long r = 0; r < rows; r++) {
		long at = idx[r] * d;
		s.correct1 = correct1[r], s.correct2 = correct2[r];
		adamw_row(p + at, g + r * d, m + at, v + at, d, s);
	}
}

// products multiplies and adds in double, where a product of two floats is exact. Two
// sums per half vector hide the latency of the addition; their order depends on
// nothing but length.
INLINE double products(const float *x, const float *y, long length) {
	enum { HALF = VW / 2 };
	typedef double vd __attribute__((vector_size(VW * 4)));
	typedef float half __attribute__((vector_size(VW * 2), aligned(4), may_alias));
#define WIDE_PRODUCT(at) \
	(__builtin_convertvector(*(const half *)(x + at), vd) * __builtin_convertvector(*(const half *)(y + at), vd))
	vd low = {0}, high = {0}, low2 = {0}, high2 = {0};
	long c = 0;
	for (; c + 2 * VW <= length; c += 2 * VW) {
		low += WIDE_PRODUCT(c);
		high += WIDE_PRODUCT(c + HALF);
		low2 += WIDE_PRODUCT(c + VW);
		high2 += WIDE_PRODUCT(c + VW + HALF);
	}
#undef WIDE_PRODUCT
	low = (low + low2) + (high + high2);
	double sum = 0;
	for (int i = 0; i < HALF; i++)
		sum += low[i];
	for (; c < length; c++)
		sum += (double)x[c] * y[c];
	return sum;
}

static double sum_squares(const float *x, long length) { return products(x, x, length); }

static double dot(const float *x, const float *y, long length) { return products(x, y, length); }

// fma_peak keeps as many independent chains as a GEMM tile does.
static double fma_peak(long rounds, float *sink) {
	enum { CHAINS = MR * NV };
	vf acc[CHAINS], x = splat(sink[0]), y = splat(sink[1]);
#pragma GCC unroll 24
	for (int i = 0; i < CHAINS; i++)
		acc[i] = splat((float)i);
#pragma GCC unroll 1
	for (long r = 0; r < rounds; r++)
#pragma GCC unroll 24
		for (int i = 0; i < CHAINS; i++)
			acc[i] = acc[i] * x + y;
	vf sum = {0};
#pragma GCC unroll 24
	for (int i = 0; i < CHAINS; i++)
		sum += acc[i];
	sink[2] = hsum(sum);
	return 2.0 * VW * CHAINS * (double)rounds;
}
