// Package amx holds the numeric kernels and what is known of the machine they
// run on: one table of kernel sets, the scalar reference that defines every
// operation, CPU detection and core pinning.
//
// All data is float32, row-major. ld ("leading dimension") is the distance in
// elements between two rows. Non-goals: shapes of a model, gradients of a
// layer, memory for activations; package nn owns those.
//
// Every set is deterministic and batch-invariant: a result row depends on its
// own input row and on the shared operand alone, never on how many rows travel
// with it or on its place among them, because every row runs through the same
// sequence of roundings (same K order, tails padded or masked).
package amx

// Trans says which operand of a Gemm is read transposed.
type Trans int

const (
	NN Trans = iota // C = A.B      A [M,K], B [K,N]: a layer's forward
	NT              // C = A.B^T    A [M,K], B [N,K]: gradient of the input; logits against a table of rows
	TN              // C = A^T.B    A [K,M], B [K,N]: gradient of the weights
)

// Activation is the non-linearity of a gated MLP.
type Activation int

const (
	ReLU2 Activation = iota // max(x,0)^2
	SiLU                    // x * sigmoid(x)
)

// AdamWStep holds the scalars of one AdamW update of one contiguous slice.
type AdamWStep struct {
	LR           float32 // learning rate of this step
	Beta1, Beta2 float32
	Eps          float32
	Decay        float32 // lr * weight decay: p -= Decay*p
	Correct1     float32 // 1 / (1 - beta1^t)
	Correct2     float32 // 1 / (1 - beta2^t)
	GradScale    float32 // factor on the gradient (global clip)
}

// Kernels is one instruction set's implementation of every operation the model
// needs. Operations panic on slices too short for the shape they are told:
// that is a bug in the caller. "Accumulates" means +=; otherwise dst is
// overwritten. dst never aliases a source unless the comment says so.
type Kernels struct {
	Name string // "reference", "portable", "avx2", "avx512"

	// Gemm: C [M,N] = op(A).op(B), or C += op(A).op(B) if accumulate.
	Gemm func(t Trans, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool)

	// RMSNorm: y = x * rstd * gain with rstd[r] = 1/sqrt(mean(x[r]^2) + eps).
	// x, y [rows,d]; gain [d]; rstd [rows] is written for the backward pass.
	RMSNorm func(y, rstd, x, gain []float32, rows, d int, eps float32)
	// RMSNormBackward accumulates into dX [rows,d] and dGain [d].
	RMSNormBackward func(dX, dGain, dY, x, gain, rstd []float32, rows, d int)

	// GatedAct: h [rows,f] = act(gate)*up, where gu [rows,2f] holds gate in its
	// first f columns and up in its last f.
	GatedAct func(h, gu []float32, rows, f int, act Activation)
	// GatedActBackward overwrites dGU [rows,2f]; dGU may alias gu.
	GatedActBackward func(dGU, gu, dH []float32, rows, f int, act Activation)

	// SigmoidGate: out [rows,w] = y * sigmoid(gate); gate [rows,w] with row stride ldg.
	SigmoidGate func(out, y, gate []float32, rows, w, ldg int)
	// SigmoidGateBackward overwrites dY [rows,w] and dGate (row stride lddg).
	SigmoidGateBackward func(dY, dGate, dOut, y, gate []float32, rows, w, ldg, lddg int)

	// Rotary rotates, in place, the pairs (i, i+dh/2) of each of `heads` heads of
	// width dh that start at x[row*ld]. Row r's angle for pair i is given by
	// cos[pos[r]*dh/2+i], sin[...]. sign is +1 forward and -1 backward.
	Rotary func(x []float32, rows, ld, heads, dh int, pos []int32, cos, sin []float32, sign float32)

	// SoftmaxBand turns scores p [rows,cols] (row stride ld), in place, into
	// softmax(scale*p) over the band of columns c with r+off-window < c <= r+off,
	// and writes 0 outside it. Every row's band holds at least one column.
	SoftmaxBand func(p []float32, rows, cols, ld, off, window int, scale float32)
	// SoftmaxBandBackward turns dP, in place, into the gradient of the unscaled
	// scores: scale * p * (dP - sum(dP*p)). p is 0 outside the band.
	SoftmaxBandBackward func(dP, p []float32, rows, cols, ld int, scale float32)

	// DecayScores: dst[i,j] = m[i,j] * exp(cum[i]-cum[j]) for j <= i < n, else 0.
	// dst and m are [n,n] with row stride ld. cum is non-increasing, so that every
	// factor is <= 1; it may fall by 20 or more a step (factors underflow to 0).
	DecayScores func(dst, m, cum []float32, n, ld int)
	// DecayScoresBackward takes dDst [n,n]; accumulates dM += dDst*exp(cum[i]-cum[j])
	// on j <= i, and with g = dDst*m*exp(...): dCum[i] += sum_j g[i,j], dCum[j] -= sum_i g[i,j].
	DecayScoresBackward func(dM, dCum, dDst, m, cum []float32, n, ld int)
	// ScaleRows: dst[r,:] = s[r]*src[r,:], or += if accumulate. [rows,w], row strides ldd, lds; dst may alias src.
	ScaleRows func(dst, src, s []float32, rows, w, ldd, lds int, accumulate bool)
	// RowDots: out[r] += sum_c a[r,c]*b[r,c]. [rows,w], row strides lda, ldb.
	RowDots func(out, a, b []float32, rows, w, lda, ldb int)

	// GatherRows: dst[r,:] = scale*table[idx[r],:]. dst [rows,d] contiguous, table [*,d].
	GatherRows func(dst, table []float32, idx []int32, rows, d int, scale float32)
	// ScatterAddRows: table[idx[r],:] += scale*src[r,:], in the order of r.
	ScatterAddRows func(table, src []float32, idx []int32, rows, d int, scale float32)

	// SoftmaxXent scores each row of logits [rows,cols] (row stride ld) against its
	// target column. Column c counts as logits[r,c]+bias[c], but the target column
	// as logits[r,target[r]] alone; bias -Inf leaves a column out; bias nil means 0
	// everywhere. loss[r] = log(sum exp) - logit of the target, in nats. If scale is
	// not 0, logits are overwritten by scale*(softmax - onehot(target)), else kept.
	SoftmaxXent func(loss, logits, bias []float32, target []int32, rows, cols, ld int, scale float32)

	// AdamW updates p in place from gradient g with moments m and v, all [n]:
	// g' = g*GradScale; m = b1 m + (1-b1) g'; v = b2 v + (1-b2) g'^2;
	// p -= Decay*p; p -= LR * (m*Correct1) / (sqrt(v*Correct2) + Eps).
	AdamW func(p, g, m, v []float32, s AdamWStep)

	// SumSquares: sum of x[i]^2 in float64, in a fixed order.
	SumSquares func(x []float32) float64
}
