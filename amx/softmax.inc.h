// Operations around exp: banded softmax, decays within a chunk, cross-entropy.
// Maxima may drop a NaN, but exp(NaN) then enters the sum and with it the row.

static void softmax_band(float *p, long rows, long cols, long ld_p, long off, long window, float scale) {
	for (long r = 0; r < rows; r++, p += ld_p) {
		long begin = r + off - window + 1, end = r + off + 1;
		begin = begin < 0 ? 0 : begin;
		end = end > cols ? cols : end;
		float *band = p + begin;
		long w = end - begin;
		vf tops = splat(-INFINITY), sums = {0};
		EACH(c, n, w, { tops = vmax(keep(ld(band + c, n) * scale, n, -INFINITY), tops); });
		float top = hmax(tops);
		EACH(c, n, w, {
			vf e = vexp(ld(band + c, n) * scale - top);
			st(band + c, n, e);
			sums += keep(e, n, 0.0f);
		});
		float inv = 1.0f / hsum(sums);
		EACH(c, n, w, { st(band + c, n, ld(band + c, n) * inv); });
		memset(p, 0, begin * sizeof(float));
		memset(p + end, 0, (cols - end) * sizeof(float));
	}
}

static void softmax_band_backward(float *dp, const float *p, long rows, long cols, long ld_p, float scale) {
	for (long r = 0; r < rows; r++, dp += ld_p, p += ld_p) {
		vf dots = {0};
		EACH(c, n, cols, { dots += ld(dp + c, n) * ld(p + c, n); });
		float dot = hsum(dots);
		EACH(c, n, cols, { st(dp + c, n, scale * ld(p + c, n) * (ld(dp + c, n) - dot)); });
	}
}

static void decay_scores(float *dst, const float *m, const float *cum, long size, long ld_m) {
	for (long i = 0; i < size; i++, dst += ld_m, m += ld_m) {
		EACH(j, n, i + 1, { st(dst + j, n, ld(m + j, n) * vexp(cum[i] - ld(cum + j, n))); });
		memset(dst + i + 1, 0, (size - i - 1) * sizeof(float));
	}
}

// The diagonal's factor is exp(0) whatever cum is: g[i,i] leaves dcum untouched,
// so that the sums run over j < i.
static void decay_scores_backward(float *dm, float *dcum, const float *ddst, const float *m, const float *cum,
                                  long size, long ld_m) {
	for (long i = 0; i < size; i++, dm += ld_m, ddst += ld_m, m += ld_m) {
		vf sums = {0};
		EACH(j, n, i, {
			vf weighted = ld(ddst + j, n) * vexp(cum[i] - ld(cum + j, n));
			vf g = weighted * ld(m + j, n);
			st(dm + j, n, ld(dm + j, n) + weighted);
			st(dcum + j, n, ld(dcum + j, n) - g);
			sums += keep(g, n, 0.0f);
		});
		dm[i] += ddst[i] * (1.0f + (cum[i] - cum[i])); // NaN where cum is not finite
		dcum[i] += hsum(sums);
	}
}

// score: columns [c,c+n) of a row as the loss counts them.
INLINE vf score(const float *row, const float *bias, const int biased, int target, long c, int n) {
	vf x = ld(row + c, n);
	if (biased)
		x += blend(lane_index() == (int)(target - c), (vf){0}, ld(bias + c, n));
	return x;
}

INLINE void softmax_xent_rows(float *loss, float *logits, const float *bias, const int biased, const int *target,
                              long rows, long cols, long ld_l, float scale) {
	for (long r = 0; r < rows; r++, logits += ld_l) {
		int hit = target[r];
		float target_logit = logits[hit];
		vf tops = splat(-INFINITY), sums = {0};
		EACH(c, n, cols, { tops = vmax(keep(score(logits, bias, biased, hit, c, n), n, -INFINITY), tops); });
		float top = hmax(tops);
		if (scale == 0.0f) {
			EACH(c, n, cols, { sums += keep(vexp(score(logits, bias, biased, hit, c, n) - top), n, 0.0f); });
		} else {
			EACH(c, n, cols, {
				vf e = vexp(score(logits, bias, biased, hit, c, n) - top);
				st(logits + c, n, e);
				sums += keep(e, n, 0.0f);
			});
		}
		float sum = hsum(sums);
		loss[r] = (float)(log(sum) + ((double)top - target_logit));
		if (scale != 0.0f) {
			// The target's p - 1 is formed before scaling, as the reference does.
			float hit_prob = logits[hit] / sum, factor = scale / sum;
			EACH(c, n, cols, { st(logits + c, n, ld(logits + c, n) * factor); });
			logits[hit] = scale * (hit_prob - 1.0f);
		}
	}
}

static void softmax_xent(float *loss, float *logits, const float *bias, const int *target, long rows, long cols,
                         long ld_l, float scale) {
	if (bias)
		softmax_xent_rows(loss, logits, bias, 1, target, rows, cols, ld_l, scale);
	else
		softmax_xent_rows(loss, logits, bias, 0, target, rows, cols, ld_l, scale);
}
