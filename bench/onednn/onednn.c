// Times oneDNN's matrix product on one thread, shape by shape; README.md says what
// is compared. Each argument is a shape, FORM:M,K,N with FORM one of NN, NT (B is
// stored [N,K]) and TN (A is stored [K,M]). Prints a line of JSON per shape on
// stdout and the same as a table on stderr.
#include "peaks.h"

#include <math.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if DNNL_VERSION_MAJOR != 2
#error "written against oneDNN 2.x (Debian 12's libdnnl-dev); 3.x creates its descriptors in another way"
#endif

#define CHECK(call)                                                                                    \
	do {                                                                                               \
		dnnl_status_t status_ = (call);                                                                \
		if (status_ != dnnl_success) {                                                                 \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, dnnl_status2str(status_)); \
			exit(1);                                                                                   \
		}                                                                                              \
	} while (0)

enum { BURST_NS = 2000000, WAY_NS = 150000000, MIN_BURSTS = 5, PEAK_BURSTS = 30 };

struct shape {
	char form[3];
	long m, k, n;
};

// arithmetic: what A, B and C hold. What C must equal is formed from the values as
// stored, so only the accumulation may differ: by `tolerance` of |A||B|.
struct arithmetic {
	const char *name;
	dnnl_data_type_t a, b, c;
	double tolerance;
};
static const struct arithmetic arithmetics[] = {
	{"f32", dnnl_f32, dnnl_f32, dnnl_f32, 1e-5},
	{"bf16", dnnl_bf16, dnnl_bf16, dnnl_f32, 1e-5},
	{"u8s8", dnnl_u8, dnnl_s8, dnnl_s32, 0},
};
enum { ARITHMETICS = sizeof arithmetics / sizeof arithmetics[0] };

// result: the fastest way found; rate 0 if there was none.
struct result {
	double rate; // GFLOP/s or GOP/s
	char way[128];
};

static void *allocate(size_t bytes) {
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (!p) {
		perror("aligned_alloc");
		exit(1);
	}
	return p;
}

// fill draws small whole numbers, u8 from 0 up, which every type holds exactly.
static void fill(void *data, dnnl_data_type_t type, long n, uint64_t seed) {
	for (long i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		int value = (int)(seed >> 33) % 15 - (type == dnnl_u8 ? 0 : 7);
		float f = (float)value;
		if (type == dnnl_f32) {
			((float *)data)[i] = f;
		} else if (type == dnnl_bf16) {
			uint32_t bits;
			memcpy(&bits, &f, sizeof bits);
			((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
		} else {
			((int8_t *)data)[i] = (int8_t)value;
		}
	}
}

static double at(const void *data, dnnl_data_type_t type, long i) {
	switch (type) {
	case dnnl_f32: return ((const float *)data)[i];
	case dnnl_s32: return ((const int32_t *)data)[i];
	case dnnl_u8: return ((const uint8_t *)data)[i];
	case dnnl_s8: return ((const int8_t *)data)[i];
	default: {
		uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
		float f;
		memcpy(&f, &bits, sizeof f);
		return f;
	}
	}
}

// verify compares some elements of C with their definition: a fast wrong product
// is not a peer.
static void verify(const struct shape *s, const struct arithmetic *x, const void *a, const void *b, const void *c) {
	int a_transposed = s->form[0] == 'T', b_transposed = s->form[1] == 'T';
	for (long probe = 0; probe < 32; probe++) {
		long i = probe * 7919 % s->m, j = probe * 104729 % s->n;
		if (probe == 0)
			i = s->m - 1, j = s->n - 1;
		double want = 0, size = 0;
		for (long l = 0; l < s->k; l++) {
			double u = at(a, x->a, a_transposed ? l * s->m + i : i * s->k + l);
			double v = at(b, x->b, b_transposed ? j * s->k + l : l * s->n + j);
			want += u * v;
			size += fabs(u * v);
		}
		double got = at(c, x->c, i * s->n + j);
		if (!(fabs(got - want) <= x->tolerance * size)) {
			fprintf(stderr, "%s %s: C[%ld,%ld] = %g, want %g\n", s->form, x->name, i, j, got, want);
			exit(1);
		}
	}
}

// product is one way to form C; execute runs it once.
struct product {
	dnnl_stream_t stream;
	dnnl_primitive_t primitive; // NULL: dnnl_sgemm
	dnnl_exec_arg_t args[3];
	const struct shape *shape;
	const float *a, *b;
	float *c;
};

static void execute(const struct product *p) {
	if (p->primitive) {
		CHECK(dnnl_primitive_execute(p->primitive, p->stream, 3, p->args));
		CHECK(dnnl_stream_wait(p->stream));
		return;
	}
	const struct shape *s = p->shape;
	CHECK(dnnl_sgemm(s->form[0], s->form[1], s->m, s->n, s->k, 1, p->a, s->form[0] == 'T' ? s->m : s->k, p->b,
	                 s->form[1] == 'T' ? s->k : s->n, 0, p->c, s->n));
}

// time_product keeps the rate of the fastest burst in best, if it is faster.
static void time_product(const struct product *p, const char *way, struct result *best) {
	execute(p);
	double start = thread_ns();
	execute(p);
	double once = thread_ns() - start, shortest = INFINITY, spent = 0;
	int calls = 1 + (int)(BURST_NS / (once > 1 ? once : 1));
	for (int i = 0; i < MIN_BURSTS || spent < WAY_NS; i++) {
		start = thread_ns();
		for (int call = 0; call < calls; call++)
			execute(p);
		double burst = thread_ns() - start;
		spent += burst;
		shortest = burst < shortest ? burst : shortest;
	}
	const struct shape *s = p->shape;
	double rate = 2.0 * (double)s->m * (double)s->k * (double)s->n * calls / shortest;
	if (rate > best->rate) {
		best->rate = rate;
		snprintf(best->way, sizeof best->way, "%s", way);
	}
}

static dnnl_memory_desc_t describe(dnnl_data_type_t type, long rows, long columns, int transposed) {
	dnnl_memory_desc_t d;
	dnnl_dims_t dims = {rows, columns}, strides = {transposed ? 1 : columns, transposed ? rows : 1};
	CHECK(dnnl_memory_desc_init_by_strides(&d, 2, dims, type, strides));
	return d;
}

// repack returns b in oneDNN's layout `to`; this is outside of all timing.
static dnnl_memory_t repack(dnnl_engine_t engine, dnnl_stream_t stream, dnnl_memory_t b, const dnnl_memory_desc_t *from,
                            const dnnl_memory_desc_t *to) {
	dnnl_memory_t packed;
	dnnl_primitive_desc_t description;
	dnnl_primitive_t reorder;
	CHECK(dnnl_memory_create(&packed, to, engine, DNNL_MEMORY_ALLOCATE));
	CHECK(dnnl_reorder_primitive_desc_create(&description, from, engine, to, engine, NULL));
	CHECK(dnnl_primitive_create(&reorder, description));
	dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, b}, {DNNL_ARG_TO, packed}};
	CHECK(dnnl_primitive_execute(reorder, stream, 2, args));
	CHECK(dnnl_stream_wait(stream));
	CHECK(dnnl_primitive_destroy(reorder));
	CHECK(dnnl_primitive_desc_destroy(description));
	return packed;
}

// time_matmul times the matmul primitive with B as it lies or, if packed, in the
// layout that the primitive asks for.
static void time_matmul(dnnl_engine_t engine, dnnl_stream_t stream, const struct shape *s, const struct arithmetic *x,
                        void *a, void *b, void *c, int packed, struct result *best) {
	dnnl_memory_desc_t a_layout = describe(x->a, s->m, s->k, s->form[0] == 'T');
	dnnl_memory_desc_t b_layout = describe(x->b, s->k, s->n, s->form[1] == 'T');
	dnnl_memory_desc_t c_layout = describe(x->c, s->m, s->n, 0), b_any;
	dnnl_dims_t b_dims = {s->k, s->n};
	CHECK(dnnl_memory_desc_init_by_tag(&b_any, 2, b_dims, x->b, dnnl_format_tag_any));
	dnnl_matmul_desc_t operation;
	dnnl_primitive_desc_t description;
	CHECK(dnnl_matmul_desc_init(&operation, &a_layout, packed ? &b_any : &b_layout, NULL, &c_layout));
	if (dnnl_primitive_desc_create(&description, &operation, NULL, engine, NULL) != dnnl_success)
		return; // this arithmetic is not supported here
	const char *name;
	CHECK(dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name));
	if (strncmp(name, "ref", 3) == 0) { // a scalar loop: seconds per call
		CHECK(dnnl_primitive_desc_destroy(description));
		return;
	}
	const dnnl_memory_desc_t *b_wanted = dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0);
	dnnl_memory_t a_memory, b_memory, c_memory, b_packed = NULL;
	CHECK(dnnl_memory_create(&a_memory, &a_layout, engine, a));
	CHECK(dnnl_memory_create(&b_memory, &b_layout, engine, b));
	CHECK(dnnl_memory_create(&c_memory, &c_layout, engine, c));
	if (packed)
		b_packed = repack(engine, stream, b_memory, &b_layout, b_wanted);
	struct product p = {.stream = stream, .shape = s};
	CHECK(dnnl_primitive_create(&p.primitive, description));
	p.args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, a_memory};
	p.args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, packed ? b_packed : b_memory};
	p.args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, c_memory};
	char way[100];
	snprintf(way, sizeof way, "%s %s", packed ? "packed" : "plain", name);
	time_product(&p, way, best);
	verify(s, x, a, b, c);
	CHECK(dnnl_primitive_destroy(p.primitive));
	if (packed)
		CHECK(dnnl_memory_destroy(b_packed));
	CHECK(dnnl_memory_destroy(c_memory));
	CHECK(dnnl_memory_destroy(b_memory));
	CHECK(dnnl_memory_destroy(a_memory));
	CHECK(dnnl_primitive_desc_destroy(description));
}

// time_shape returns the fastest way to form one shape's product in one arithmetic.
static struct result time_shape(dnnl_engine_t engine, dnnl_stream_t stream, const struct shape *s,
                                const struct arithmetic *x) {
	struct result best = {0};
	void *a = allocate(dnnl_data_type_size(x->a) * (size_t)(s->m * s->k));
	void *b = allocate(dnnl_data_type_size(x->b) * (size_t)(s->k * s->n));
	void *c = allocate(dnnl_data_type_size(x->c) * (size_t)(s->m * s->n));
	fill(a, x->a, s->m * s->k, 1);
	fill(b, x->b, s->k * s->n, 2);
	for (int packed = 0; packed < 2; packed++)
		time_matmul(engine, stream, s, x, a, b, c, packed, &best);
	if (x->a == dnnl_f32) {
		struct product p = {.stream = stream, .shape = s, .a = a, .b = b, .c = c};
		time_product(&p, "dnnl_sgemm", &best);
		verify(s, x, a, b, c);
	}
	free(a), free(b), free(c);
	return best;
}

static struct shape parse(const char *argument) {
	struct shape s;
	int end = 0;
	if (sscanf(argument, "%2[NT]:%ld,%ld,%ld%n", s.form, &s.m, &s.k, &s.n, &end) != 4 || argument[end] != '\0' ||
	    (strcmp(s.form, "NN") && strcmp(s.form, "NT") && strcmp(s.form, "TN")) || s.m < 1 || s.k < 1 || s.n < 1) {
		fprintf(stderr, "%s: not a shape; write NN:M,K,N, NT:M,K,N or TN:M,K,N\n", argument);
		exit(2);
	}
	return s;
}

int main(int argc, char **argv) {
	omp_set_num_threads(1);
	const dnnl_version_t *v = dnnl_version();
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	CHECK(dnnl_engine_create(&engine, dnnl_cpu, 0));
	CHECK(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
	fprintf(stderr, "%-18s %28s %28s %28s\n", "oneDNN", "f32 GFLOP/s (of peak)", "bf16", "u8s8 GOP/s");
	for (int i = 1; i < argc; i++) {
		struct shape s = parse(argv[i]);
		struct peaks p = measure_peaks(PEAK_BURSTS);
		const double peak[ARITHMETICS] = {p.f32, p.bf16, p.int8};
		printf("{\"peer\":\"oneDNN %d.%d.%d\",\"form\":\"%s\",\"m\":%ld,\"k\":%ld,\"n\":%ld,", v->major, v->minor, v->patch,
		       s.form, s.m, s.k, s.n);
		printf("\"peaks\":{\"f32\":%.1f,\"bf16\":%.1f,\"int16\":%.1f,\"int8\":%.1f},\"results\":{", p.f32, p.bf16, p.int16,
		       p.int8);
		fprintf(stderr, "%-18s", argv[i]);
		const char *comma = "";
		for (int x = 0; x < ARITHMETICS; x++) {
			struct result r = time_shape(engine, stream, &s, &arithmetics[x]);
			if (r.rate == 0) {
				fprintf(stderr, " %28s", "-");
				continue;
			}
			printf("%s\"%s\":{\"rate\":%.1f,\"peak\":%.1f,\"way\":\"%s\"}", comma, arithmetics[x].name, r.rate, peak[x], r.way);
			fprintf(stderr, " %6.1f (%.2f) %s", r.rate, peak[x] > 0 ? r.rate / peak[x] : 0, r.way);
			comma = ",";
		}
		printf("}}\n");
		fprintf(stderr, "\n");
		fflush(stdout);
	}
	CHECK(dnnl_stream_destroy(stream));
	CHECK(dnnl_engine_destroy(engine));
	return 0;
}
