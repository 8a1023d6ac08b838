// Package amx holds the numeric kernels and what is known of the machine they
// run on: one table of kernel sets, the scalar reference that defines every
// operation, CPU detection and core pinning.
//
// Operands and results are float32, row-major; a set may multiply matrices in a
// shorter format of its own (Arithmetic), which shows in a Packed alone. ld ("leading
// dimension") is the distance in elements between two rows. Non-goals: shapes of a model, gradients of a
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

// AttentionShape is one segment of N positions; In and Out are row strides.
type AttentionShape struct {
	N, Heads, HeadWidth, Window int
	In, Out                     int
	Scale                       float32
}

// LinearShape is one segment of N positions; In and Out are row strides.
type LinearShape struct {
	N, Heads, State, HeadWidth int
	In, Out                    int
}

// LinearChunk is how many positions LinearAttention treats at once.
const LinearChunk = 64

// States is the number of floats of a segment's saved states.
func (s LinearShape) States() int {
	return max(s.N-1, 0) / LinearChunk * s.Heads * s.State * s.HeadWidth
}

// Kernels is one instruction set's implementation of every operation the model
// needs. Operations panic on slices too short for the shape they are told:
// that is a bug in the caller. "Accumulates" means +=; otherwise dst is
// overwritten. dst never aliases a source unless the comment says so.
type Kernels struct {
	Name       string // of the Set
	Arithmetic Arithmetic

	// Gemm: C [M,N] = plus + op(A).op(B). plus nil counts as 0; otherwise it is
	// [M,N] with C's row stride, and may be c itself, which accumulates.
	Gemm func(t Trans, m, n, k int, a []float32, lda int, b []float32, ldb int, plus, c []float32, ldc int)
	// Gemm32 is Gemm in float32 in every set, as the mixers compute: for what a
	// document hands on from token to token.
	Gemm32 func(t Trans, m, n, k int, a []float32, lda int, b []float32, ldb int, plus, c []float32, ldc int)
	// Pack lays op(B) [K,N] out in the set's own format, for any number of
	// GemmPacked calls. p keeps no reference to b; its memory is reused.
	Pack func(p *Packed, t Trans, n, k int, b []float32, ldb int)
	// GemmPacked is Gemm with the t, n, k and b of a Pack by the same set: the same bits.
	GemmPacked func(m int, a []float32, lda int, b *Packed, plus, c []float32, ldc int)

	// RMSNorm: y = x * rstd * gain with rstd[r] = 1/sqrt(mean(x[r]^2) + eps).
	// x, y [rows,d]; gain [d]; rstd [rows] is written for the backward pass.
	RMSNorm func(y, rstd, x, gain []float32, rows, d int, eps float32)
	// RMSNormBackward accumulates into dX [rows,d] and dGain [d]. It also writes the
	// forward's y [rows,d], which need not have been kept; y may alias dY.
	RMSNormBackward func(dX, dGain, y, dY, x, gain, rstd []float32, rows, d int)

	// GatedAct: h [rows,f] = act(gate)*up, where gu [rows,2f] holds gate in its
	// first f columns and up in its last f.
	GatedAct func(h, gu []float32, rows, f int, act Activation)
	// GatedActBackward overwrites dGU [rows,2f], which may alias gu. It also writes the
	// forward's h [rows,f], which need not have been kept; h may alias dH.
	GatedActBackward func(dGU, h, gu, dH []float32, rows, f int, act Activation)

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
	// Attention is softmax attention over one segment of s.N positions: Heads query
	// heads over one key and value head. in [N, In] holds in each row q Heads*dh | k dh |
	// v dh. Position i sees j with i-Window < j <= i:
	//
	//	out[i, h] = sum_j p_j v_j,  p = softmax_j(Scale * q[i,h].k_j)
	//
	// out [N, Out] gets Heads*dh columns; norm [Heads, N] the logarithm of each softmax's
	// denominator, for the backward pass. A value that is not finite makes the rows
	// that see it not finite, and may do so to others of its segment, never of another.
	Attention func(out, norm, in []float32, s AttentionShape)
	// AttentionBackward overwrites dIn [N, In], the q, k and v columns, from dOut [N, Out]
	// and what Attention made of in, its out and norm.
	AttentionBackward func(dIn, in, out, dOut, norm []float32, s AttentionShape)
	// LinearAttention is the recurrence of one segment, from a state of 0: per head h
	//
	//	state_t = exp(-softplus(decay_t + bias[h])) state_{t-1} + k_t v_t^T,  out[t, h] = q_t.state_t
	//
	// in [N, In] holds in each row q State | k State | v Heads*dh | gate Heads*dh (not
	// read) | decay Heads. out [N, Out] gets Heads*dh columns, states [States()] the states
	// [Heads, State, dh] before positions LinearChunk, 2*LinearChunk, ..., for the backward
	// pass; bias [Heads]. What is not finite spreads as in Attention.
	LinearAttention func(out, states, in, bias []float32, s LinearShape)
	// LinearAttentionBackward overwrites dIn [N, In] but for the gate's columns, from
	// dOut [N, Out] and the forward's states.
	LinearAttentionBackward func(dIn, states, in, dOut, bias []float32, s LinearShape)

	// ScaleRows: table[idx[r],:] *= s[r], in the order of r; table [*,d]. Where s[r] is
	// 1 the row is left alone.
	ScaleRows func(table, s []float32, idx []int32, rows, d int)

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

	// AdamWRows is AdamW on the rows idx of tables p, m and v [*,d]; g [rows,d] is
	// contiguous. Row r has its own corrections, correct1[r] and correct2[r]. No row
	// stands in idx twice.
	AdamWRows func(p, g, m, v []float32, idx []int32, correct1, correct2 []float32, rows, d int, s AdamWStep)

	// SumSquares: sum of x[i]^2 in float64, in a fixed order.
	SumSquares func(x []float32) float64
	// Dot: sum of x[i]*y[i] in float64, in the order of SumSquares. x and y, of one
	// length, may be the same slice.
	Dot func(x, y []float32) float64
}
