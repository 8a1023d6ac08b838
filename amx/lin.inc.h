// Linear attention of one segment, chunk by chunk of CHUNK positions. Within a
// chunk every decay is formed as exp(cum_i - cum_j) <= 1, since factored exponentials
// would overflow; across chunks the state carries. Scores and decays are kept
// transposed, at [j][i], so that the queries i stand in the lanes. Rows and widths are
// padded with zeros. A row's layout is that of LinearShape in kernels.go.

enum { CHUNK = 64 };

// chunk_buffers are one chunk's working memory; s and d are the padded widths.
typedef struct {
	long rows, s, d;
	float *q, *k, *qt;     // [CHUNK,s], [CHUNK,s], [s,CHUNK]
	float *v, *scaled;     // [CHUNK,d] of one head
	float *scores;         // [CHUNK,CHUNK] k_j.q_i
	float *decayed;        // [CHUNK,CHUNK] scores * exp(cum_i - cum_j), 0 where i < j
	float *state, *out;    // [s,d], [CHUNK, the wider of s and d]
	float *cum, *start, *end; // [CHUNK] decay from the chunk's start, its exp, exp of that to the chunk's end
	float *g, *gt, *dscores, *ddecayed, *dq, *dk, *dv, *turned, *dcum, *dstate; // backward: dstate [heads][s,d]
} chunk_buffers;

static chunk_buffers carve_chunk(float *scratch, long heads, long s, long d) {
	chunk_buffers b = {.s = s, .d = d};
	b.q = carve(&scratch, CHUNK * s), b.k = carve(&scratch, CHUNK * s), b.qt = carve(&scratch, s * CHUNK);
	b.v = carve(&scratch, CHUNK * d), b.scaled = carve(&scratch, CHUNK * d);
	b.scores = carve(&scratch, CHUNK * CHUNK), b.decayed = carve(&scratch, CHUNK * CHUNK);
	b.state = carve(&scratch, s * d), b.out = carve(&scratch, CHUNK * (s > d ? s : d));
	b.cum = carve(&scratch, CHUNK), b.start = carve(&scratch, CHUNK), b.end = carve(&scratch, CHUNK);
	b.g = carve(&scratch, CHUNK * d), b.gt = carve(&scratch, d * CHUNK);
	b.dscores = carve(&scratch, CHUNK * CHUNK), b.ddecayed = carve(&scratch, CHUNK * CHUNK);
	b.dq = carve(&scratch, CHUNK * s), b.dk = carve(&scratch, CHUNK * s), b.dv = carve(&scratch, CHUNK * d);
	b.turned = carve(&scratch, s * d), b.dcum = carve(&scratch, CHUNK);
	b.dstate = carve(&scratch, heads * s * d);
	return b;
}

static long linear_scratch(long heads, long state, long dh) {
	long s = pad_up(state), d = pad_up(dh);
	return (long)sizeof(float) * (5 * CHUNK * s + 5 * CHUNK * d + CHUNK * (s > d ? s : d) + 4 * CHUNK * CHUNK + (2 + heads) * s * d + 4 * CHUNK + 22 * SLACK);
}

// softplus: log(1 + exp(x)) = max(x,0) + log1p(exp(-|x|)).
INLINE vf vsoftplus(vf x) {
	vf u = vexp(-vmax(-x, x)), z = u / (2.0f + u), y = z * z;
	// log1p(u) = 2 atanh(z), z <= 1/3: the first term left out is below 2e-9 of the sum.
	vf p = y * (1.0f / 17) + 1.0f / 15;
	p = p * y + 1.0f / 13;
	p = p * y + 1.0f / 11;
	p = p * y + 1.0f / 9;
	p = p * y + 1.0f / 7;
	p = p * y + 1.0f / 5;
	p = p * y + 1.0f / 3;
	return vmax(x, (vf){0}) + 2.0f * (z + z * y * p);
}

// decays fills cum, start and end from the decay column of head h.
static void decays(chunk_buffers *b, const float *column, long ld_in, float bias) {
	float raw[CHUNK] = {0};
	for (long i = 0; i < b->rows; i++)
		raw[i] = column[i * ld_in];
	for (long i = 0; i < CHUNK; i += VW)
		store(b->cum + i, vsoftplus(load(raw + i) + bias));
	double sum = 0;
	for (long i = 0; i < CHUNK; i++) {
		if (i < b->rows)
			sum -= (double)b->cum[i];
		b->cum[i] = (float)sum;
	}
	float last = (float)sum;
	for (long i = 0; i < CHUNK; i += VW) {
		store(b->start + i, vexp(load(b->cum + i)));
		store(b->end + i, vexp(last - load(b->cum + i)));
	}
}

// load_chunk brings in what the heads share: q, k and their scores.
static void load_chunk(chunk_buffers *b, const float *in, long ld_in, long rows, long state) {
	b->rows = rows;
	lay(b->q, CHUNK, b->s, in, ld_in, rows, state, 1.0f);
	lay(b->k, CHUNK, b->s, in + state, ld_in, rows, state, 1.0f);
	turn(b->qt, CHUNK, CHUNK, b->s, in, ld_in, rows, state, 1.0f);
	for (long j = 0; j < rows; j += PAD)
		panel_rows(b->scores + j * CHUNK + j, CHUNK, PAD, CHUNK - j, 0.0f, b->s, b->k + j * b->s, b->s, b->qt + j, CHUNK);
}

// decay_chunk forms decayed from the PAD-aligned diagonal block of each row on.
static void decay_chunk(chunk_buffers *b) {
	for (long j = 0; j < b->rows; j++) {
		float *to = b->decayed + j * CHUNK;
		const float *from = b->scores + j * CHUNK;
		for (long i = j / PAD * PAD; i < CHUNK; i += VW) {
			vf x = load(from + i) * vexp(load(b->cum + i) - b->cum[j]);
			store(to + i, i < j ? blend(lane_index() >= (int)(j - i), x, (vf){0}) : x);
		}
	}
}

// scale_lines: dst [rows,d] = factor[r] * src, and 0 up to the padded rows.
static void scale_lines(float *dst, const float *src, const float *factor, long rows, long d) {
	for (long r = 0; r < rows; r++)
		for (long c = 0; c < d; c += VW)
			store(dst + r * d + c, factor[r] * load(src + r * d + c));
}

// add_triangle: C [CHUNK rows,w] = C + T^T.B or T.B over the lower triangle, where
// T [j][i] holds values at i >= j. Columns of T are rows of C (turned), or its rows are.
static void add_triangle(float *c, long w, const float *t, const float *b, long rows, int turned) {
	for (long i = 0; i < rows; i += PAD) {
		if (turned) // C_i += sum over j <= i of T[j][i] B_j
			panel_cols(c + i * w, w, PAD, w, 1.0f, i + PAD < rows ? i + PAD : rows, t + i, CHUNK, b, w);
		else // C_j += sum over i >= j of T[j][i] B_i
			panel_rows(c + i * w, w, PAD, w, 1.0f, rows - i, t + i * CHUNK + i, CHUNK, b + i * w, w);
	}
}

static void linear_attention(float *out, long ldo, float *states, const float *in, long ld_in, const float *bias, long n,
                             long heads, long state, long dh, void *memory) {
	chunk_buffers b = carve_chunk(memory, heads, pad_up(state), pad_up(dh));
	long column = 2 * state + 2 * heads * dh, size = state * dh;
	for (long lo = 0; lo < n; lo += CHUNK, in += CHUNK * ld_in, out += CHUNK * ldo) {
		long rows = n - lo < CHUNK ? n - lo : CHUNK;
		load_chunk(&b, in, ld_in, rows, state);
		for (long h = 0; h < heads; h++) {
			lay(b.v, CHUNK, b.d, in + 2 * state + h * dh, ld_in, rows, dh, 1.0f);
			decays(&b, in + column + h, ld_in, bias[h]);
			decay_chunk(&b);
			if (lo > 0) {
				const float *from = states + ((lo / CHUNK - 1) * heads + h) * size;
				lay(b.state, b.s, b.d, from, dh, state, dh, 1.0f);
				panel_rows(b.out, b.d, CHUNK, b.d, 0.0f, b.s, b.q, b.s, b.state, b.d);
				scale_lines(b.out, b.out, b.start, rows, b.d);
			} else {
				memset(b.out, 0, CHUNK * b.d * sizeof(float));
			}
			add_triangle(b.out, b.d, b.decayed, b.v, rows, 1);
			unlay(out + h * dh, ldo, b.out, b.d, rows, dh, 1.0f);
			if (lo + rows < n) {
				scale_lines(b.scaled, b.v, b.end, rows, b.d);
				panel_cols(b.state, b.d, b.s, b.d, lo > 0 ? b.start[rows - 1] : 0.0f, rows, b.k, b.s, b.scaled, b.d);
				unlay(states + (lo / CHUNK * heads + h) * size, dh, b.state, b.d, state, dh, 1.0f);
			}
		}
	}
}

// decay_chunk_backward: from ddecayed, dscores gets ddecayed * exp(cum_i - cum_j),
// added to what earlier heads gave unless first. With g = dscores' share * scores,
// dcum_i gains the sum of g over j < i and dcum_j loses that over i > j: the diagonal's
// factor is exp(0) whatever cum is.
static void decay_chunk_backward(chunk_buffers *b, int first) {
	for (long j = 0; j < b->rows; j++) {
		long at = j * CHUNK;
		vf sums = {0};
		for (long i = j / PAD * PAD; i < CHUNK; i += VW) {
			vf w = load(b->ddecayed + at + i) * vexp(load(b->cum + i) - b->cum[j]);
			vf g = w * load(b->scores + at + i);
			if (i <= j) {
				w = blend(lane_index() >= (int)(j - i), w, (vf){0});
				g = blend(lane_index() > (int)(j - i), g, (vf){0});
			}
			if (!first)
				w += load(b->dscores + at + i);
			store(b->dscores + at + i, w);
			store(b->dcum + i, load(b->dcum + i) + g);
			sums += g;
		}
		b->dcum[j] -= hsum(sums);
	}
}

// dots: factor_r * (a_r.b_r) of row r of two [rows,w] panels.
INLINE float dots(const float *a, const float *b, long w, float factor) {
	vf sum = {0};
	for (long c = 0; c < w; c += VW)
		sum += load(a + c) * load(b + c);
	return factor * hsum(sum);
}

// head_backward differentiates one head of a chunk. dstate holds the gradient of
// the state at the chunk's end and becomes that at its start.
static void head_backward(chunk_buffers *b, float *dstate, int has_state, int has_next, int first) {
	long rows = b->rows, s = b->s, d = b->d;
	for (long j = 0; j < rows; j += PAD)
		panel_rows(b->ddecayed + j * CHUNK + j, CHUNK, PAD, CHUNK - j, 0.0f, d, b->v + j * d, d, b->gt + j, CHUNK);
	memset(b->dcum, 0, CHUNK * sizeof(float));
	decay_chunk_backward(b, first);
	if (has_next) { // state' = total * state + sum over j of end_j k_j v_j^T
		panel_rows(b->dv, d, CHUNK, d, 0.0f, s, b->k, s, dstate, d);
		float all = 0;
		for (long j = 0; j < rows; j++) {
			float g = dots(b->dv + j * d, b->v + j * d, d, b->end[j]);
			all += g;
			b->dcum[j] -= g;
		}
		scale_lines(b->dv, b->dv, b->end, rows, d);
		turn(b->turned, s, s, d, dstate, d, s, d, 1.0f);
		scale_lines(b->scaled, b->v, b->end, rows, d);
		panel_rows(b->dk, s, CHUNK, s, 1.0f, d, b->scaled, d, b->turned, s);
		if (has_state)
			for (long l = 0; l < s; l++)
				all += dots(dstate + l * d, b->state + l * d, d, b->start[rows - 1]);
		b->dcum[rows - 1] += all;
	} else {
		memset(b->dv, 0, CHUNK * d * sizeof(float));
	}
	add_triangle(b->dv, d, b->decayed, b->g, rows, 0);
	if (has_state) { // out_i += start_i q_i.state
		scale_lines(b->scaled, b->g, b->start, rows, d);
		turn(b->turned, s, s, d, b->state, d, s, d, 1.0f);
		panel_rows(b->out, s, CHUNK, s, 0.0f, d, b->scaled, d, b->turned, s);
		for (long i = 0; i < rows; i++) {
			b->dcum[i] += dots(b->out + i * s, b->q + i * s, s, 1.0f);
			for (long c = 0; c < s; c += VW)
				store(b->dq + i * s + c, load(b->dq + i * s + c) + load(b->out + i * s + c));
		}
		panel_cols(dstate, d, s, d, has_next ? b->start[rows - 1] : 0.0f, rows, b->q, s, b->scaled, d);
	}
}

// decays_backward turns the gradient of the summed decays into that of the decay
// column: da_t = sum of dcum from t on, times -sigmoid of what softplus saw.
static void decays_backward(float *dcolumn, const float *column, long ld_in, float bias, const float *dcum, long rows) {
	float x[CHUNK] = {0};
	for (long i = 0; i < rows; i++)
		x[i] = column[i * ld_in];
	for (long i = 0; i < CHUNK; i += VW)
		store(x + i, vsigmoid(load(x + i) + bias));
	double sum = 0;
	for (long i = rows - 1; i >= 0; i--) {
		sum += (double)dcum[i];
		dcolumn[i * ld_in] = (float)(-sum * (double)x[i]);
	}
}

static void linear_attention_backward(float *din, const float *states, const float *in, long ld_in, const float *dout,
                                      long ldo, const float *bias, long n, long heads, long state, long dh,
                                      void *memory) {
	chunk_buffers b = carve_chunk(memory, heads, pad_up(state), pad_up(dh));
	long column = 2 * state + 2 * heads * dh, values = 2 * state, size = state * dh;
	for (long lo = (n - 1) / CHUNK * CHUNK; lo >= 0; lo -= CHUNK) {
		long rows = n - lo < CHUNK ? n - lo : CHUNK;
		const float *at = in + lo * ld_in, *gradient = dout + lo * ldo;
		float *to = din + lo * ld_in;
		load_chunk(&b, at, ld_in, rows, state);
		memset(b.dq, 0, CHUNK * b.s * sizeof(float));
		memset(b.dk, 0, CHUNK * b.s * sizeof(float));
		for (long h = 0; h < heads; h++) {
			lay(b.v, CHUNK, b.d, at + values + h * dh, ld_in, rows, dh, 1.0f);
			lay(b.g, CHUNK, b.d, gradient + h * dh, ldo, rows, dh, 1.0f);
			turn(b.gt, CHUNK, CHUNK, b.d, gradient + h * dh, ldo, rows, dh, 1.0f);
			decays(&b, at + column + h, ld_in, bias[h]);
			decay_chunk(&b);
			if (lo > 0)
				lay(b.state, b.s, b.d, states + ((lo / CHUNK - 1) * heads + h) * size, dh, state, dh, 1.0f);
			head_backward(&b, b.dstate + h * b.s * b.d, lo > 0, lo + rows < n, h == 0);
			unlay(to + values + h * dh, ld_in, b.dv, b.d, rows, dh, 1.0f);
			decays_backward(to + column + h, at + column + h, ld_in, bias[h], b.dcum, rows);
		}
		add_triangle(b.dq, b.s, b.dscores, b.k, rows, 1);
		add_triangle(b.dk, b.s, b.dscores, b.q, rows, 0);
		unlay(to, ld_in, b.dq, b.s, rows, state, 1.0f);
		unlay(to + state, ld_in, b.dk, b.s, rows, state, 1.0f);
	}
}
