// The body of every kernel set, compiled once per instruction set.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "vector.inc.h"

#include "gemm.inc.h"

#include "rowwise.inc.h"

#include "softmax.inc.h"

static const kernel_set set = {
	.gemm_scratch = gemm_scratch,
	.gemm = gemm,
	.rmsnorm = rmsnorm,
	.rmsnorm_backward = rmsnorm_backward,
	.gated_act = gated_act,
	.gated_act_backward = gated_act_backward,
	.sigmoid_gate = sigmoid_gate,
	.sigmoid_gate_backward = sigmoid_gate_backward,
	.rotary = rotary,
	.softmax_band = softmax_band,
	.softmax_band_backward = softmax_band_backward,
	.decay_scores = decay_scores,
	.decay_scores_backward = decay_scores_backward,
	.scale_rows = scale_rows,
	.row_dots = row_dots,
	.gather_rows = gather_rows,
	.scatter_add_rows = scatter_add_rows,
	.softmax_xent = softmax_xent,
	.adamw = adamw,
	.sum_squares = sum_squares,
	.fma_peak = fma_peak,
};
