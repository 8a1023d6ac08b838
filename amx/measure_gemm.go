package amx

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// Product is one multiplication of matrices of a model.
type Product struct {
	Trans   Trans
	M, K, N int
	LD      int    // row stride of all operands where they are columns of wider ones; 0 where not
	Where   string // in which model, for what
}

func (t Trans) String() string { return [...]string{"NN", "NT", "TN"}[t] }

// String is the product's name in tables: "NN 2048x256x1280" are its M, K and N.
func (p Product) String() string { return fmt.Sprintf("%v %dx%dx%d", p.Trans, p.M, p.K, p.N) }

func (p Product) flop() float64 { return 2 * float64(p.M) * float64(p.K) * float64(p.N) }

// Products are those to measure: of the released dense shape (d=256, d_ff=640) and
// of the d=384 arms with their training batch of 4,096 tokens, the shapes for which the paper
// gives figures, and one tile of attention, one chunk and one token.
func Products() []Product {
	return []Product{
		{NN, 2048, 256, 1280, 0, "the paper's best shape; d=256 gate and up"},
		{NN, 1024, 1024, 1024, 0, "the paper's cube"},
		{NN, 4096, 256, 640, 0, "d=256 one MLP matrix"},
		{NN, 4096, 640, 256, 0, "d=256 down"},
		{NN, 4096, 256, 128, 0, "d=256 attention projections"},
		{NT, 4096, 1280, 256, 0, "d=256 gate and up, dX"},
		{NT, 4096, 256, 640, 0, "d=256 down, dX"},
		{NT, 1024, 256, 4096, 0, "d=256 sampled readout"},
		{TN, 256, 4096, 1280, 0, "d=256 gate and up, dW"},
		{TN, 640, 4096, 256, 0, "d=256 down, dW"},
		{NN, 4096, 384, 896, 0, "d=384 gate and up"},
		{NN, 4096, 448, 384, 0, "d=384 down"},
		{TN, 384, 4096, 896, 0, "d=384 gate and up, dW"},
		{NN, 256, 384, 896, 0, "d=384 experts of one routed block"},
		{NT, 64, 32, 319, 352, "attention scores, 64 queries"},
		{NN, 64, 319, 32, 352, "attention output, 64 queries"},
		{TN, 319, 64, 32, 352, "attention dK and dV, 64 queries"},
		{NN, 64, 64, 32, 352, "linear attention, one chunk"},
		{NN, 1, 256, 1280, 0, "d=256 gate and up, one token"},
	}
}

// operandsOf holds what a product multiplies, small numbers of both signs.
type operandsOf struct {
	a, b, c       []float32
	lda, ldb, ldc int
}

func (p Product) operands() operandsOf {
	matrix := func(rows, columns int) ([]float32, int) {
		ld := max(columns, p.LD)
		return alignedFloats(rows * ld), ld
	}
	var o operandsOf
	if p.Trans == TN {
		o.a, o.lda = matrix(p.K, p.M)
	} else {
		o.a, o.lda = matrix(p.M, p.K)
	}
	if p.Trans == NT {
		o.b, o.ldb = matrix(p.N, p.K)
	} else {
		o.b, o.ldb = matrix(p.K, p.N)
	}
	o.c, o.ldc = matrix(p.M, p.N)
	rng := rand.New(rand.NewPCG(uint64(p.M), uint64(p.K)<<32|uint64(p.N)))
	for _, x := range [][]float32{o.a, o.b} {
		for i := range x {
			x[i] = float32(int32(rng.Uint32())) / (1 << 31)
		}
	}
	return o
}

// gemm runs the product with kernels that pack its right operand on the way.
func (p Product) gemm(k *Kernels, o operandsOf) {
	k.Gemm(p.Trans, p.M, p.N, p.K, o.a, o.lda, o.b, o.ldb, nil, o.c, o.ldc)
}

// MeasureGemm measures products with every set, told of each product before. The
// value counts the packing of both operands; the Detail "packed" is the rate with the right
// one packed before, and "of_peak" the fraction of what the set's arithmetic reaches on
// registers alone, measured before and after: the machine may have changed its speed in
// between.
func MeasureGemm(ctx context.Context, e Effort, sets []Set, products []Product, told func(i int)) ([]Measurement, error) {
	b := sampling{least: 5, length: 200 * time.Microsecond, budget: 150 * time.Millisecond}
	if e.Quick {
		b.least, b.budget = 3, 30*time.Millisecond
	}
	kernels, peaks := make([]*Kernels, len(sets)), make([]float64, len(sets))
	for i, s := range sets {
		kernels[i], peaks[i] = s.New(), s.Peak()
	}
	var all []Measurement // of each product, all sets
	for i, p := range products {
		told(i)
		o := p.operands()
		for _, k := range kernels {
			m, err := measureProduct(ctx, b, k, p, o)
			if err != nil {
				return nil, fmt.Errorf("measure set %s: %w", k.Name, err)
			}
			all = append(all, m)
		}
	}
	for i, s := range sets {
		peak := max(peaks[i], s.Peak())
		for j := i; j < len(all); j += len(sets) {
			all[j].Detail["peak"], all[j].Detail["of_peak"] = fixed(peak, 1), fixed(all[j].Value/peak, 3)
		}
	}
	return all, nil
}

func measureProduct(ctx context.Context, b sampling, k *Kernels, p Product, o operandsOf) (Measurement, error) {
	m := Measurement{Group: GroupGemm, Name: k.Name + " " + p.String(), Unit: k.Arithmetic.unit(), Detail: map[string]string{
		"set": k.Name, "arithmetic": string(k.Arithmetic), "trans": p.Trans.String(), "m": strconv.Itoa(p.M), "k": strconv.Itoa(p.K), "n": strconv.Itoa(p.N), "where": p.Where}}
	times, err := b.times(ctx, func() { p.gemm(k, o) })
	if err != nil {
		return m, err
	}
	m = rate(m, p.flop(), times)
	var packed Packed
	k.Pack(&packed, p.Trans, p.N, p.K, o.b, o.ldb)
	if times, err = b.times(ctx, func() { k.GemmPacked(p.M, o.a, o.lda, &packed, nil, o.c, o.ldc) }); err != nil {
		return m, err
	}
	m.Detail["packed"] = fixed(rate(Measurement{}, p.flop(), times).Value, 1)
	return m, nil
}

// unit is what a set's rates are counted in: integers are no floating-point numbers.
func (a Arithmetic) unit() string {
	if a == Int16 {
		return "GOP/s"
	}
	return "GFLOP/s"
}
