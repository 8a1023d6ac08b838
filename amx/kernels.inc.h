// The body of every kernel set, compiled once per instruction set.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "flush.h"

#include "vector.inc.h"

#include "gemm.inc.h"

#include "rowwise.inc.h"

#include "softmax.inc.h"

#include "panel.inc.h"

#include "attention.inc.h"

#include "lin.inc.h"

// What every set of this instruction set shares: all but the multiplication of matrices.
#define ALL_BUT_GEMM \
	.gemm32 = &gemm_fp32, \
	.rmsnorm = rmsnorm, \
	.rmsnorm_backward = rmsnorm_backward, \
	.gated_act = gated_act, \
	.gated_act_backward = gated_act_backward, \
	.sigmoid_gate = sigmoid_gate, \
	.sigmoid_gate_backward = sigmoid_gate_backward, \
	.rotary = rotary, \
	.softmax_band = softmax_band, \
	.scale_rows = scale_rows, \
	.gather_rows = gather_rows, \
	.scatter_add_rows = scatter_add_rows, \
	.softmax_xent = softmax_xent, \
	.attention_scratch = attention_scratch, \
	.attention = attention, \
	.attention_backward = attention_backward, \
	.linear_scratch = linear_scratch, \
	.linear_attention = linear_attention, \
	.linear_attention_backward = linear_attention_backward, \
	.adamw = adamw, \
	.adamw_rows = adamw_rows, \
	.sum_squares = sum_squares, \
	.dot = dot, \
	.fma_peak = fma_peak,

static const kernel_set set = {.gemm = &gemm_fp32, ALL_BUT_GEMM};
