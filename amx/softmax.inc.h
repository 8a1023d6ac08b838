// Operations around exp: banded softmax, cross-entropy, logarithm.
// Maxima may drop a NaN, but exp(NaN) then enters the sum and with it the row.

// vlog: log(x) of normal x > 0, relative error some 1e-7; Inf and NaN stay.
// x = 2^e f with f within a factor sqrt(2) of 1, and log(f) = 2 atanh((f-1)/(f+1)).
INLINE vf vlog(vf x) {
	vi e = ((vi)x - 0x3f3504f3) >> 23;
	vf f = (vf)((vi)x - (e << 23)), n = __builtin_convertvector(e, vf);
	vf z = (f - 1.0f) / (f + 1.0f), y = z * z;
	vf p = y * (1.0f / 9) + 1.0f / 7;
	p = p * y + 1.0f / 5;
	p = p * y + 1.0f / 3;
	vf log_f = 2.0f * (z + z * y * p);
	return blend(x < INFINITY, n * 0.693359375f + (n * -2.12194440e-4f + log_f), x);
}

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
