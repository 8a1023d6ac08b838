// Windowed attention of one segment, H query heads over one key and value head.
// VW queries of two heads stand side by side in the lanes of two vectors, and the
// keys pass by in chunks: scores, their softmax (online: a running maximum and sum)
// and the weighted values stay in the first-level cache, and no sum over a row
// crosses lanes. Blocks of queries and chunks of keys count from the segment's start, so
// that results do not depend on where the segment lies.

enum { KEYS = 32 }; // keys in a chunk, at least VW: a query's first key is in its block's first chunk

// mask_lanes: -1 in the lanes whose query i0+lane sees key j: no later than
// itself, within the window, and among the n positions.
INLINE vi mask_lanes(long j, long i0, long n, long window) {
	long first = j - i0, end = first + window;
	if (end > n - i0)
		end = n - i0;
	if (end > VW)
		end = VW;
	vi lane = lane_index();
	return (lane >= (int)(first < -1 ? -1 : first)) & (lane < (int)end);
}

// all_see: every lane's query sees key j.
INLINE int all_see(long j, long i0, long n, long window) { return j <= i0 && j + window >= i0 + VW && i0 + VW <= n; }

static long attention_scratch(long n, long heads, long dh) {
	long d = pad_up(dh), np = n + PAD;
	return (long)sizeof(float) * (4 * np * d + 2 * KEYS * 2 * VW + 5 * 2 * VW * d + 11 * SLACK);
}

// attend_block: queries [i0,i0+VW) of nv heads, whose columns start at q, out and
// lse. in and out point at the segment's first row.
INLINE void attend_block(const int nv, float *out, long ldo, float *lse, const float *q, long ld_in, const float *keys,
                         const float *values, long i0, long n, long dh, long window, float scale, float *scratch) {
	long d = pad_up(dh), w = nv * VW, filled = n - i0 < VW ? n - i0 : VW;
	float *qt = carve(&scratch, d * w), *ot = carve(&scratch, d * w), *p = carve(&scratch, KEYS * w);
	for (int v = 0; v < nv; v++)
		turn(qt + v * VW, w, VW, d, q + v * dh + i0 * ld_in, ld_in, filled, dh, scale);
	vf top[2], sum[2];
	for (int v = 0; v < nv; v++)
		top[v] = splat(-INFINITY), sum[v] = (vf){0};
	long begin = i0 - window + 1 < 0 ? 0 : i0 - window + 1, end = i0 + filled;
	for (long jc = begin; jc < end; jc += KEYS) {
		long steps = end - jc < KEYS ? end - jc : KEYS;
		panel_rows(p, w, (steps + PR - 1) / PR * PR, w, 0.0f, d, keys + jc * d, d, qt, w);
		vf shrink[2];
		for (int v = 0; v < nv; v++) {
			vf tops = top[v];
			for (long j = 0; j < steps; j++) {
				vf s = load(p + j * w + v * VW);
				if (!all_see(jc + j, i0, n, window)) {
					s = blend(mask_lanes(jc + j, i0, n, window), s, splat(-INFINITY));
					store(p + j * w + v * VW, s);
				}
				tops = vmax(s, tops);
			}
			shrink[v] = vexp(top[v] - tops);
			sum[v] *= shrink[v];
			vf sums = {0};
			for (long j = 0; j < steps; j++) {
				vf e = vexp(load(p + j * w + v * VW) - tops);
				store(p + j * w + v * VW, e);
				sums += e;
			}
			sum[v] += sums;
			top[v] = tops;
		}
		for (long c = 0; c < d; c += PR) {
			vf acc[PR][2];
			if (jc == begin)
				EACH_ACC(r, v, nv, acc[r][v] = (vf){0};);
			else
				EACH_ACC(r, v, nv, acc[r][v] = shrink[v] * load(ot + (c + r) * w + v * VW););
			outer(acc, nv, steps, values + jc * d + c, 1, d, p, w);
			EACH_ACC(r, v, nv, store(ot + (c + r) * w + v * VW, acc[r][v]););
		}
	}
	for (int v = 0; v < nv; v++) {
		st(lse + v * n + i0, (int)filled, top[v] + vlog(sum[v]));
		vf inv = 1.0f / sum[v];
		for (long c = 0; c < dh; c += VW) {
			int have = dh - c < VW ? (int)(dh - c) : VW;
			vf square[VW];
#pragma GCC unroll 16
			for (int r = 0; r < VW; r++)
				square[r] = load(ot + (c + r) * w + v * VW) * inv;
			transpose(square);
#pragma GCC unroll 16
			for (int r = 0; r < VW; r++)
				if (r < filled)
					st(out + (i0 + r) * ldo + v * dh + c, have, square[r]);
		}
	}
}

static __attribute__((noinline)) void attend_two(float *out, long ldo, float *lse, const float *q, long ld_in,
                                                 const float *keys, const float *values, long i0, long n, long dh,
                                                 long window, float scale, float *scratch) {
	attend_block(2, out, ldo, lse, q, ld_in, keys, values, i0, n, dh, window, scale, scratch);
}
static __attribute__((noinline)) void attend_one(float *out, long ldo, float *lse, const float *q, long ld_in,
                                                 const float *keys, const float *values, long i0, long n, long dh,
                                                 long window, float scale, float *scratch) {
	attend_block(1, out, ldo, lse, q, ld_in, keys, values, i0, n, dh, window, scale, scratch);
}

static void attention(float *out, long ldo, float *lse, const float *in, long ld_in, long n, long heads, long dh,
                      long window, float scale, void *memory) {
	long d = pad_up(dh), np = n + PAD;
	float *scratch = memory, *keys = carve(&scratch, np * d), *values = carve(&scratch, np * d);
	lay(keys, np, d, in + heads * dh, ld_in, n, dh, 1.0f);
	lay(values, np, d, in + heads * dh + dh, ld_in, n, dh, 1.0f);
	for (long i0 = 0; i0 < n; i0 += VW)
		for (long h = 0; h < heads; h += 2)
			(h + 1 < heads ? attend_two : attend_one)(out + h * dh, ldo, lse + h * n, in + h * dh, ld_in, keys, values, i0, n,
			                                          dh, window, scale, scratch);
}

// The gradient: with p = exp(s - lse) formed again, dS = p * (dOut.v - dOut.out).
INLINE void attend_block_backward(const int nv, float *dq, const float *q, long ld_in, const float *out,
                                  const float *dout, long ldo, const float *lse, const float *keys,
                                  const float *values, float *dkeys, float *dvalues, long i0, long n, long dh,
                                  long window, float scale, float *scratch) {
	long d = pad_up(dh), w = nv * VW, filled = n - i0 < VW ? n - i0 : VW;
	float *qt = carve(&scratch, d * w), *gt = carve(&scratch, d * w), *dqt = carve(&scratch, d * w);
	float *qn = carve(&scratch, d * w), *gn = carve(&scratch, d * w);
	float *p = carve(&scratch, KEYS * w), *ds = carve(&scratch, KEYS * w);
	vf norm[2], pull[2];
	for (int v = 0; v < nv; v++) {
		turn(qt + v * VW, w, VW, d, q + v * dh + i0 * ld_in, ld_in, filled, dh, scale);
		turn(gt + v * VW, w, VW, d, dout + v * dh + i0 * ldo, ldo, filled, dh, 1.0f);
		turn(dqt + v * VW, w, VW, d, out + v * dh + i0 * ldo, ldo, filled, dh, 1.0f);
		lay(qn + v * VW * d, VW, d, q + v * dh + i0 * ld_in, ld_in, filled, dh, scale);
		lay(gn + v * VW * d, VW, d, dout + v * dh + i0 * ldo, ldo, filled, dh, 1.0f);
		norm[v] = ld(lse + v * n + i0, (int)filled);
		pull[v] = (vf){0};
		for (long c = 0; c < d; c++)
			pull[v] += load(gt + c * w + v * VW) * load(dqt + c * w + v * VW);
	}
	long begin = i0 - window + 1 < 0 ? 0 : i0 - window + 1, end = i0 + filled;
	for (long jc = begin; jc < end; jc += KEYS) {
		long steps = end - jc < KEYS ? end - jc : KEYS, rows = (steps + PR - 1) / PR * PR;
		panel_rows(p, w, rows, w, 0.0f, d, keys + jc * d, d, qt, w);
		panel_rows(ds, w, rows, w, 0.0f, d, values + jc * d, d, gt, w);
		for (long j = 0; j < rows; j++)
			for (int v = 0; v < nv; v++) {
				vf e = vexp(load(p + j * w + v * VW) - norm[v]);
				if (!all_see(jc + j, i0, n, window))
					e = blend(mask_lanes(jc + j, i0, n, window), e, (vf){0});
				store(p + j * w + v * VW, e);
				store(ds + j * w + v * VW, e * (load(ds + j * w + v * VW) - pull[v]));
			}
		panel_cols(dqt, w, d, w, jc == begin ? 0.0f : 1.0f, steps, keys + jc * d, d, ds, w);
		panel_rows(dvalues + jc * d, d, rows, d, 1.0f, w, p, w, gn, d);
		panel_rows(dkeys + jc * d, d, rows, d, 1.0f, w, ds, w, qn, d);
	}
	for (int v = 0; v < nv; v++)
		for (long c = 0; c < dh; c += VW) {
			int have = dh - c < VW ? (int)(dh - c) : VW;
			vf square[VW];
#pragma GCC unroll 16
			for (int r = 0; r < VW; r++)
				square[r] = load(dqt + (c + r) * w + v * VW) * scale;
			transpose(square);
#pragma GCC unroll 16
			for (int r = 0; r < VW; r++)
				if (r < filled)
					st(dq + (i0 + r) * ld_in + v * dh + c, have, square[r]);
		}
}

static __attribute__((noinline)) void attend_two_backward(float *dq, const float *q, long ld_in, const float *out,
                                                          const float *dout, long ldo, const float *lse,
                                                          const float *keys, const float *values, float *dkeys,
                                                          float *dvalues, long i0, long n, long dh, long window,
                                                          float scale, float *scratch) {
	attend_block_backward(2, dq, q, ld_in, out, dout, ldo, lse, keys, values, dkeys, dvalues, i0, n, dh, window, scale,
	                      scratch);
}
static __attribute__((noinline)) void attend_one_backward(float *dq, const float *q, long ld_in, const float *out,
                                                          const float *dout, long ldo, const float *lse,
                                                          const float *keys, const float *values, float *dkeys,
                                                          float *dvalues, long i0, long n, long dh, long window,
                                                          float scale, float *scratch) {
	attend_block_backward(1, dq, q, ld_in, out, dout, ldo, lse, keys, values, dkeys, dvalues, i0, n, dh, window, scale,
	                      scratch);
}

static void attention_backward(float *din, const float *in, long ld_in, const float *out, const float *dout, long ldo,
                               const float *lse, long n, long heads, long dh, long window, float scale, void *memory) {
	long d = pad_up(dh), np = n + PAD;
	float *scratch = memory, *keys = carve(&scratch, np * d), *values = carve(&scratch, np * d);
	float *dkeys = carve(&scratch, np * d), *dvalues = carve(&scratch, np * d);
	lay(keys, np, d, in + heads * dh, ld_in, n, dh, 1.0f);
	lay(values, np, d, in + heads * dh + dh, ld_in, n, dh, 1.0f);
	memset(dkeys, 0, np * d * sizeof(float));
	memset(dvalues, 0, np * d * sizeof(float));
	for (long i0 = 0; i0 < n; i0 += VW)
		for (long h = 0; h < heads; h += 2)
			(h + 1 < heads ? attend_two_backward : attend_one_backward)(din + h * dh, in + h * dh, ld_in, out + h * dh,
			                                                            dout + h * dh, ldo, lse + h * n, keys, values, dkeys,
			                                                            dvalues, i0, n, dh, window, scale, scratch);
	unlay(din + heads * dh, ld_in, dkeys, d, n, dh, 1.0f);
	unlay(din + heads * dh + dh, ld_in, dvalues, d, n, dh, 1.0f);
}
