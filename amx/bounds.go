package amx

import "fmt"

// checked wraps raw operations with the shape checks that every set shares, so
// that a wrong shape panics with both sizes instead of corrupting memory in C.
func checked(raw Kernels) *Kernels {
	return &Kernels{
		Name: raw.Name, Arithmetic: raw.Arithmetic,
		Gemm:   checkedGemm("Gemm", raw.Gemm),
		Gemm32: checkedGemm("Gemm32", raw.Gemm32),
		Pack: func(p *Packed, t Trans, n, k int, b []float32, ldb int) {
			needRight("Pack", len(b), t, n, k, ldb)
			p.set, p.t, p.n, p.k = raw.Name, t, n, k
			raw.Pack(p, t, n, k, b, ldb)
		},
		GemmPacked: func(m int, a []float32, lda int, b *Packed, plus, c []float32, ldc int) {
			b.mustBelong(raw.Name)
			needOperand("GemmPacked", "a", len(a), b.t == TN, m, b.k, lda)
			needResult("GemmPacked", plus, c, m, b.n, ldc)
			raw.GemmPacked(m, a, lda, b, plus, c, ldc)
		},
		RMSNorm: func(y, rstd, x, gain []float32, rows, d int, eps float32) {
			need("RMSNorm", "y", len(y), rows, d, d)
			need("RMSNorm", "rstd", len(rstd), 1, rows, rows)
			need("RMSNorm", "x", len(x), rows, d, d)
			need("RMSNorm", "gain", len(gain), 1, d, d)
			raw.RMSNorm(y, rstd, x, gain, rows, d, eps)
		},
		RMSNormBackward: func(dX, dGain, y, dY, x, gain, rstd []float32, rows, d int) {
			need("RMSNormBackward", "dX", len(dX), rows, d, d)
			need("RMSNormBackward", "dGain", len(dGain), 1, d, d)
			need("RMSNormBackward", "y", len(y), rows, d, d)
			need("RMSNormBackward", "dY", len(dY), rows, d, d)
			need("RMSNormBackward", "x", len(x), rows, d, d)
			need("RMSNormBackward", "gain", len(gain), 1, d, d)
			need("RMSNormBackward", "rstd", len(rstd), 1, rows, rows)
			raw.RMSNormBackward(dX, dGain, y, dY, x, gain, rstd, rows, d)
		},
		GatedAct: func(h, gu []float32, rows, f int, act Activation) {
			needActivation("GatedAct", act)
			need("GatedAct", "h", len(h), rows, f, f)
			need("GatedAct", "gu", len(gu), rows, 2*f, 2*f)
			raw.GatedAct(h, gu, rows, f, act)
		},
		GatedActBackward: func(dGU, h, gu, dH []float32, rows, f int, act Activation) {
			needActivation("GatedActBackward", act)
			need("GatedActBackward", "dGU", len(dGU), rows, 2*f, 2*f)
			need("GatedActBackward", "h", len(h), rows, f, f)
			need("GatedActBackward", "gu", len(gu), rows, 2*f, 2*f)
			need("GatedActBackward", "dH", len(dH), rows, f, f)
			raw.GatedActBackward(dGU, h, gu, dH, rows, f, act)
		},
		SigmoidGate: func(out, y, gate []float32, rows, w, ldg int) {
			need("SigmoidGate", "out", len(out), rows, w, w)
			need("SigmoidGate", "y", len(y), rows, w, w)
			need("SigmoidGate", "gate", len(gate), rows, w, ldg)
			raw.SigmoidGate(out, y, gate, rows, w, ldg)
		},
		SigmoidGateBackward: func(dY, dGate, dOut, y, gate []float32, rows, w, ldg, lddg int) {
			need("SigmoidGateBackward", "dY", len(dY), rows, w, w)
			need("SigmoidGateBackward", "dGate", len(dGate), rows, w, lddg)
			need("SigmoidGateBackward", "dOut", len(dOut), rows, w, w)
			need("SigmoidGateBackward", "y", len(y), rows, w, w)
			need("SigmoidGateBackward", "gate", len(gate), rows, w, ldg)
			raw.SigmoidGateBackward(dY, dGate, dOut, y, gate, rows, w, ldg, lddg)
		},
		Rotary: func(x []float32, rows, ld, heads, dh int, pos []int32, cos, sin []float32, sign float32) {
			if dh%2 != 0 {
				panic(fmt.Sprintf("amx: Rotary: head width %d is odd", dh))
			}
			need("Rotary", "x", len(x), rows, heads*dh, ld)
			need("Rotary", "pos", len(pos), 1, rows, rows)
			angles := min(len(cos), len(sin))
			for _, p := range pos[:rows] {
				needRow("Rotary", "cos and sin", angles, p, dh/2)
			}
			raw.Rotary(x, rows, ld, heads, dh, pos, cos, sin, sign)
		},
		SoftmaxBand: func(p []float32, rows, cols, ld, off, window int, scale float32) {
			need("SoftmaxBand", "p", len(p), rows, cols, ld)
			if rows > 0 && (off < 0 || window < 1 || rows+off-window >= cols) {
				panicBand(rows, cols, off, window)
			}
			raw.SoftmaxBand(p, rows, cols, ld, off, window, scale)
		},
		ScaleRows: func(table, s []float32, idx []int32, rows, d int) {
			need("ScaleRows", "s", len(s), 1, rows, rows)
			needRows("ScaleRows", "table", len(table), idx, rows, d)
			raw.ScaleRows(table, s, idx, rows, d)
		},
		GatherRows: func(dst, table []float32, idx []int32, rows, d int, scale float32) {
			need("GatherRows", "dst", len(dst), rows, d, d)
			needRows("GatherRows", "table", len(table), idx, rows, d)
			raw.GatherRows(dst, table, idx, rows, d, scale)
		},
		ScatterAddRows: func(table, src []float32, idx []int32, rows, d int, scale float32) {
			need("ScatterAddRows", "src", len(src), rows, d, d)
			needRows("ScatterAddRows", "table", len(table), idx, rows, d)
			raw.ScatterAddRows(table, src, idx, rows, d, scale)
		},
		SoftmaxXent: func(loss, logits, bias []float32, target []int32, rows, cols, ld int, scale float32) {
			need("SoftmaxXent", "loss", len(loss), 1, rows, rows)
			need("SoftmaxXent", "logits", len(logits), rows, cols, ld)
			if bias != nil {
				need("SoftmaxXent", "bias", len(bias), 1, cols, cols)
			}
			need("SoftmaxXent", "target", len(target), 1, rows, rows)
			for _, t := range target[:rows] {
				needRow("SoftmaxXent", "columns of logits", cols, t, 1)
			}
			raw.SoftmaxXent(loss, logits, bias, target, rows, cols, ld, scale)
		},
		Attention: func(out, norm, in []float32, s AttentionShape) {
			needAttention("Attention", len(in), len(out), len(norm), s)
			raw.Attention(out, norm, in, s)
		},
		AttentionBackward: func(dIn, in, out, dOut, norm []float32, s AttentionShape) {
			needAttention("AttentionBackward", min(len(in), len(dIn)), min(len(out), len(dOut)), len(norm), s)
			raw.AttentionBackward(dIn, in, out, dOut, norm, s)
		},
		LinearAttention: func(out, states, in, bias []float32, s LinearShape) {
			needLinear("LinearAttention", len(in), len(out), len(states), len(bias), s)
			raw.LinearAttention(out, states, in, bias, s)
		},
		LinearAttentionBackward: func(dIn, states, in, dOut, bias []float32, s LinearShape) {
			needLinear("LinearAttentionBackward", min(len(in), len(dIn)), len(dOut), len(states), len(bias), s)
			raw.LinearAttentionBackward(dIn, states, in, dOut, bias, s)
		},
		AdamW: func(p, g, m, v []float32, s AdamWStep) {
			n := len(p)
			need("AdamW", "g", len(g), 1, n, n)
			need("AdamW", "m", len(m), 1, n, n)
			need("AdamW", "v", len(v), 1, n, n)
			raw.AdamW(p, g, m, v, s)
		},
		AdamWRows: func(p, g, m, v []float32, idx []int32, correct1, correct2 []float32, rows, d int, s AdamWStep) {
			need("AdamWRows", "g", len(g), rows, d, d)
			need("AdamWRows", "corrections", min(len(correct1), len(correct2)), 1, rows, rows)
			needRows("AdamWRows", "p, m and v", min(len(p), len(m), len(v)), idx, rows, d)
			raw.AdamWRows(p, g, m, v, idx, correct1, correct2, rows, d, s)
		},
		SumSquares: raw.SumSquares,
		Dot: func(x, y []float32) float64 {
			if len(x) != len(y) {
				panicLengths("Dot", len(x), len(y))
			}
			return raw.Dot(x, y)
		},
	}
}

func checkedGemm(op string, gemm gemmFunc) gemmFunc {
	return func(t Trans, m, n, k int, a []float32, lda int, b []float32, ldb int, plus, c []float32, ldc int) {
		needOperand(op, "a", len(a), t == TN, m, k, lda)
		needRight(op, len(b), t, n, k, ldb)
		needResult(op, plus, c, m, n, ldc)
		gemm(t, m, n, k, a, lda, b, ldb, plus, c, ldc)
	}
}

type gemmFunc = func(t Trans, m, n, k int, a []float32, lda int, b []float32, ldb int, plus, c []float32, ldc int)

// need panics unless a slice of length have holds a [rows,width] matrix of row stride ld.
func need(op, operand string, have, rows, width, ld int) {
	if rows < 0 || width < 0 || (rows > 1 && ld < width) {
		panicShape(op, operand, have, rows, width, ld)
	}
	if rows > 0 && width > 0 && have < (rows-1)*ld+width {
		panicShape(op, operand, have, rows, width, ld)
	}
}

// needOperand checks a [rows,width] operand that may be stored transposed.
func needOperand(op, operand string, have int, transposed bool, rows, width, ld int) {
	if transposed {
		rows, width = width, rows
	}
	need(op, operand, have, rows, width, ld)
}

// needRight checks the right operand of a product.
func needRight(op string, have int, t Trans, n, k, ldb int) {
	if t != NN && t != NT && t != TN {
		panic(fmt.Sprintf("amx: %s: unknown Trans %d", op, t))
	}
	needOperand(op, "b", have, t == NT, k, n, ldb)
}

// needResult checks a product's result and what it is added to.
func needResult(op string, plus, c []float32, m, n, ldc int) {
	need(op, "c", len(c), m, n, ldc)
	if plus != nil {
		need(op, "plus", len(plus), m, n, ldc)
	}
}

func needAttention(op string, in, out, norm int, s AttentionShape) {
	if s.N < 1 || s.Heads < 1 || s.HeadWidth < 1 || s.Window < 1 {
		panic(fmt.Sprintf("amx: %s: shape %+v", op, s))
	}
	need(op, "in or dIn", in, s.N, (s.Heads+2)*s.HeadWidth, s.In)
	need(op, "out or dOut", out, s.N, s.Heads*s.HeadWidth, s.Out)
	need(op, "norm", norm, s.Heads, s.N, s.N)
}

func needLinear(op string, in, out, states, bias int, s LinearShape) {
	if s.N < 1 || s.Heads < 1 || s.State < 1 || s.HeadWidth < 1 {
		panic(fmt.Sprintf("amx: %s: shape %+v", op, s))
	}
	need(op, "in or dIn", in, s.N, 2*s.State+s.Heads*(2*s.HeadWidth+1), s.In)
	need(op, "out or dOut", out, s.N, s.Heads*s.HeadWidth, s.Out)
	need(op, "states", states, 1, s.States(), s.States())
	need(op, "bias", bias, 1, s.Heads, s.Heads)
}

// needRows panics unless idx lists `rows` rows of width w inside a table of length have.
func needRows(op, operand string, have int, idx []int32, rows, w int) {
	need(op, "idx", len(idx), 1, rows, rows)
	for _, i := range idx[:rows] {
		needRow(op, operand, have, i, w)
	}
}

// needRow panics unless row i of width w lies inside a slice of length have.
func needRow(op, operand string, have int, i int32, w int) {
	if i < 0 || (int(i)+1)*w > have {
		panicRow(op, operand, have, i, w)
	}
}

func needActivation(op string, act Activation) {
	if act != ReLU2 && act != SiLU {
		panic(fmt.Sprintf("amx: %s: unknown Activation %d", op, act))
	}
}

// The panics are functions of their own so that formatting allocates nothing on
// the path that does not panic.

//go:noinline
func panicShape(op, operand string, have, rows, width, ld int) {
	panic(fmt.Sprintf("amx: %s: %s has %d elements, shape [%d,%d] with row stride %d does not fit", op, operand, have, rows, width, ld))
}

//go:noinline
func panicLengths(op string, x, y int) {
	panic(fmt.Sprintf("amx: %s: x has %d elements, y has %d", op, x, y))
}

//go:noinline
func panicBand(rows, cols, off, window int) {
	panic(fmt.Sprintf("amx: SoftmaxBand: [%d,%d], offset %d and window %d leave a row without a column", rows, cols, off, window))
}

//go:noinline
func panicRow(op, operand string, have int, i int32, w int) {
	panic(fmt.Sprintf("amx: %s: row %d of width %d lies outside %s of %d elements", op, i, w, operand, have))
}
