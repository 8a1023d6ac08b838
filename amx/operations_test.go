package amx

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// buffer describes one float32 operand, [rows,width] with row stride ld.
type buffer struct {
	rows, width, ld int
	value           func(rng *rand.Rand, i int) float32 // element i of rows*width
}

// operation is one call of one kernel: its description serves the comparison
// with the reference, NaN propagation, determinism, allocations and speed.
type operation struct {
	name    string
	buffers []buffer
	run     func(k *Kernels, b [][]float32)
	// tolerance bounds the normalised mean squared error against the reference.
	// float32 rounds to 6e-8, whose square is 3.6e-15.
	tolerance float64
	why       string // why the tolerance is what it is
	gemm      bool   // the tolerance is the set's own, see Arithmetic.GemmError
}

func gaussian(rng *rand.Rand, _ int) float32 { return float32(rng.NormFloat64()) }

func positive(rng *rand.Rand, _ int) float32 { return float32(math.Abs(rng.NormFloat64())) }

func near1(rng *rand.Rand, _ int) float32 { return 1 + 0.1*float32(rng.NormFloat64()) }

const (
	someRoundings = "a few float32 roundings per element"
	expRounding   = "vexp is good to 2e-7, then a few roundings"
	sumRounding   = "float32 sums in 4 to 16 lanes against float64"
	cancelling    = "differences of float32 sums lose a few bits"
)

func indices(rows, below int) []int32 {
	rng := rand.New(rand.NewPCG(3, uint64(rows)))
	idx := make([]int32, rows)
	for i := range idx {
		idx[i] = rng.Int32N(int32(below))
	}
	return idx
}

// gemmForm is how a Gemm is called; every form of one product gives the same bits.
type gemmForm struct {
	accumulate bool // plus is C itself
	residual   bool // plus is a matrix of its own
	packed     bool // B was packed before
}

func gemmOperation(t Trans, m, n, k, pad int, accumulate bool) operation {
	return gemmOperationIn(gemmForm{accumulate: accumulate}, t, m, n, k, pad)
}

func gemmOperationIn(form gemmForm, t Trans, m, n, k, pad int) operation {
	a, b := buffer{m, k, k + pad, gaussian}, buffer{k, n, n + pad, gaussian}
	switch t {
	case NT:
		b = buffer{n, k, k + pad, gaussian}
	case TN:
		a = buffer{k, m, m + pad, gaussian}
	}
	c := buffer{m, n, n + pad, gaussian}
	packed := new(Packed)
	op := operation{
		name:    fmt.Sprintf("Gemm/%s/%dx%dx%d%+v", [...]string{"NN", "NT", "TN"}[t], m, k, n, form),
		buffers: []buffer{a, b, c},
		run: func(kernels *Kernels, v [][]float32) {
			var plus []float32
			if form.accumulate {
				plus = v[2]
			} else if form.residual {
				plus = v[3]
			}
			if form.packed {
				kernels.Pack(packed, t, n, k, v[1], b.ld)
				kernels.GemmPacked(m, v[0], a.ld, packed, plus, v[2], c.ld)
			} else {
				kernels.Gemm(t, m, n, k, v[0], a.ld, v[1], b.ld, plus, v[2], c.ld)
			}
		},
		gemm: true,
		why:  "the format of the operands; in fp32, chains of up to 256 additions",
	}
	if form.residual {
		op.buffers = append(op.buffers, c)
	}
	return op
}

// rowOperations returns every operation but Gemm at [rows,w]; pad is added to the
// row strides of those operands that have one.
func rowOperations(rows, w, pad int) []operation {
	dense := func(value func(*rand.Rand, int) float32) buffer { return buffer{rows, w, w, value} }
	padded := func(value func(*rand.Rand, int) float32) buffer { return buffer{rows, w, w + pad, value} }
	double := buffer{rows, 2 * w, 2 * w, gaussian}
	column := buffer{1, rows, rows, positive}
	vector := buffer{1, w, w, near1}
	ld := w + pad
	var ops []operation
	add := func(name string, tolerance float64, why string, run func(*Kernels, [][]float32), buffers ...buffer) {
		ops = append(ops, operation{name: name, buffers: buffers, run: run, tolerance: tolerance, why: why})
	}
	add("RMSNorm", 1e-13, sumRounding, func(k *Kernels, b [][]float32) {
		k.RMSNorm(b[0], b[1], b[2], b[3], rows, w, 1e-6)
	}, dense(gaussian), column, dense(gaussian), vector)
	add("RMSNormBackward", 1e-12, cancelling, func(k *Kernels, b [][]float32) {
		k.RMSNormBackward(b[0], b[1], b[2], b[3], b[4], b[5], b[6], rows, w)
	}, dense(gaussian), vector, dense(gaussian), dense(gaussian), dense(gaussian), vector, column)
	add("RMSNormBackward/inPlace", 1e-12, cancelling, func(k *Kernels, b [][]float32) {
		k.RMSNormBackward(b[0], b[1], b[2], b[2], b[3], b[4], b[5], rows, w)
	}, dense(gaussian), vector, dense(gaussian), dense(gaussian), vector, column)
	for act, name := range []string{"ReLU2", "SiLU"} {
		add("GatedAct/"+name, 1e-13, expRounding, func(k *Kernels, b [][]float32) {
			k.GatedAct(b[0], b[1], rows, w, Activation(act))
		}, dense(gaussian), double)
		add("GatedActBackward/"+name, 1e-13, expRounding, func(k *Kernels, b [][]float32) {
			k.GatedActBackward(b[0], b[1], b[2], b[3], rows, w, Activation(act))
		}, double, dense(gaussian), double, dense(gaussian))
		add("GatedActBackward/inPlace"+name, 1e-13, expRounding, func(k *Kernels, b [][]float32) {
			k.GatedActBackward(b[0], b[1], b[0], b[1], rows, w, Activation(act))
		}, double, dense(gaussian))
	}
	add("SigmoidGate", 1e-13, expRounding, func(k *Kernels, b [][]float32) {
		k.SigmoidGate(b[0], b[1], b[2], rows, w, ld)
	}, dense(gaussian), dense(gaussian), padded(gaussian))
	add("SigmoidGateBackward", 1e-12, cancelling, func(k *Kernels, b [][]float32) {
		k.SigmoidGateBackward(b[0], b[1], b[2], b[3], b[4], rows, w, ld, ld)
	}, dense(gaussian), padded(gaussian), dense(gaussian), dense(gaussian), padded(gaussian))
	const heads, positions = 2, 50
	at := indices(rows, positions)
	angles := buffer{positions, w, w, gaussian}
	add("Rotary", 1e-13, someRoundings, func(k *Kernels, b [][]float32) {
		k.Rotary(b[0], rows, heads*2*w+pad, heads, 2*w, at, b[1], b[2], -1)
	}, buffer{rows, heads * 2 * w, heads*2*w + pad, gaussian}, angles, angles)
	bandRows := min(rows, w)
	band := buffer{bandRows, w, ld, gaussian}
	for _, window := range []int{1, (w + 1) / 2, w + 3} {
		add(fmt.Sprintf("SoftmaxBand/%d", window), 1e-13, expRounding, func(k *Kernels, b [][]float32) {
			k.SoftmaxBand(b[0], bandRows, w, ld, w-bandRows, window, 0.7)
		}, band)
	}
	add("SoftmaxBand/beyondLastColumn", 1e-13, expRounding, func(k *Kernels, b [][]float32) {
		k.SoftmaxBand(b[0], bandRows, w, ld, w-bandRows+2, 4, 0.7)
	}, band)
	const tableRows = 9
	idx := indices(rows, tableRows)
	table := buffer{tableRows, w, w, gaussian}
	add("GatherRows", 1e-14, "one rounding", func(k *Kernels, b [][]float32) {
		k.GatherRows(b[0], b[1], idx, rows, w, 0.3)
	}, dense(gaussian), table)
	add("ScaleRows", 1e-14, "one rounding", func(k *Kernels, b [][]float32) {
		k.ScaleRows(b[0], b[1], idx, rows, w)
	}, table, column)
	add("ScatterAddRows", 1e-13, someRoundings, func(k *Kernels, b [][]float32) {
		k.ScatterAddRows(b[0], b[1], idx, rows, w, 0.3)
	}, table, dense(gaussian))
	target := indices(rows, w)
	bias := buffer{1, w, w, func(rng *rand.Rand, i int) float32 {
		if i%5 == 3 {
			return float32(math.Inf(-1))
		}
		return float32(rng.NormFloat64())
	}}
	for _, scale := range []float32{0, 0.25} {
		add(fmt.Sprintf("SoftmaxXent/scale=%v", scale), 1e-11, cancelling, func(k *Kernels, b [][]float32) {
			k.SoftmaxXent(b[0], b[1], nil, target, rows, w, ld, scale)
		}, column, padded(gaussian))
		add(fmt.Sprintf("SoftmaxXent/biased/scale=%v", scale), 1e-11, cancelling, func(k *Kernels, b [][]float32) {
			k.SoftmaxXent(b[0], b[1], b[2], target, rows, w, ld, scale)
		}, column, padded(gaussian), bias)
	}
	step := AdamWStep{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Eps: 0.1, Decay: 1e-3, Correct1: 2, Correct2: 3, GradScale: 0.5}
	line := buffer{1, rows * w, rows * w, gaussian}
	add("AdamW", 1e-13, someRoundings, func(k *Kernels, b [][]float32) {
		k.AdamW(b[0], b[1], b[2], b[3], step)
	}, line, line, line, buffer{1, rows * w, rows * w, positive})
	each := make([]int32, rows) // every third row
	for r := range each {
		each[r] = int32(3 * (rows - 1 - r))
	}
	sparse := buffer{3 * rows, w, w, gaussian}
	add("AdamWRows", 1e-13, someRoundings, func(k *Kernels, b [][]float32) {
		k.AdamWRows(b[0], b[1], b[2], b[3], each, b[4], b[5], rows, w, step)
	}, sparse, dense(gaussian), sparse, buffer{3 * rows, w, w, positive}, column, column)
	add("SumSquares", 1e-14, "float64 in another order, stored as float32", func(k *Kernels, b [][]float32) {
		b[0][0] = float32(k.SumSquares(b[1]))
	}, buffer{1, 1, 1, gaussian}, line)
	add("Dot", 1e-14, "float64 in another order, stored as float32", func(k *Kernels, b [][]float32) {
		b[0][0] = float32(k.Dot(b[1], b[2]))
	}, buffer{1, 1, 1, gaussian}, line, line)
	return ops
}
