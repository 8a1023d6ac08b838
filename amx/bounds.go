package amx

import "fmt"

// checked wraps raw operations with the shape checks that every set shares, so
// that a wrong shape panics with both sizes instead of corrupting memory in C.
func checked(raw Kernels) *Kernels {
	return &Kernels{
		Name: raw.Name,
		Gemm: func(t Trans, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
			ar, ac, br, bc := m, k, k, n
			switch t {
			case NN:
			case NT:
				br, bc = n, k
			case TN:
				ar, ac = k, m
			default:
				panic(fmt.Sprintf("amx: Gemm: unknown Trans %d", t))
			}
			need("Gemm", "a", len(a), ar, ac, lda)
			need("Gemm", "b", len(b), br, bc, ldb)
			need("Gemm", "c", len(c), m, n, ldc)
			raw.Gemm(t, m, n, k, a, lda, b, ldb, c, ldc, accumulate)
		},
		RMSNorm: func(y, rstd, x, gain []float32, rows, d int, eps float32) {
			need("RMSNorm", "y", len(y), rows, d, d)
			need("RMSNorm", "rstd", len(rstd), 1, rows, rows)
			need("RMSNorm", "x", len(x), rows, d, d)
			need("RMSNorm", "gain", len(gain), 1, d, d)
			raw.RMSNorm(y, rstd, x, gain, rows, d, eps)
		},
		RMSNormBackward: func(dX, dGain, dY, x, gain, rstd []float32, rows, d int) {
			need("RMSNormBackward", "dX", len(dX), rows, d, d)
			need("RMSNormBackward", "dGain", len(dGain), 1, d, d)
			need("RMSNormBackward", "dY", len(dY), rows, d, d)
			need("RMSNormBackward", "x", len(x), rows, d, d)
			need("RMSNormBackward", "gain", len(gain), 1, d, d)
			need("RMSNormBackward", "rstd", len(rstd), 1, rows, rows)
			raw.RMSNormBackward(dX, dGain, dY, x, gain, rstd, rows, d)
		},
		GatedAct: func(h, gu []float32, rows, f int, act Activation) {
			needActivation("GatedAct", act)
			need("GatedAct", "h", len(h), rows, f, f)
			need("GatedAct", "gu", len(gu), rows, 2*f, 2*f)
			raw.GatedAct(h, gu, rows, f, act)
		},
		GatedActBackward: func(dGU, gu, dH []float32, rows, f int, act Activation) {
			needActivation("GatedActBackward", act)
			need("GatedActBackward", "dGU", len(dGU), rows, 2*f, 2*f)
			need("GatedActBackward", "gu", len(gu), rows, 2*f, 2*f)
			need("GatedActBackward", "dH", len(dH), rows, f, f)
			raw.GatedActBackward(dGU, gu, dH, rows, f, act)
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
			raw.SoftmaxBand(p, rows, cols, ld, off, window, scale)
		},
		SoftmaxBandBackward: func(dP, p []float32, rows, cols, ld int, scale float32) {
			need("SoftmaxBandBackward", "dP", len(dP), rows, cols, ld)
			need("SoftmaxBandBackward", "p", len(p), rows, cols, ld)
			raw.SoftmaxBandBackward(dP, p, rows, cols, ld, scale)
		},
		DecayScores: func(dst, m, cum []float32, n, ld int) {
			need("DecayScores", "dst", len(dst), n, n, ld)
			need("DecayScores", "m", len(m), n, n, ld)
			need("DecayScores", "cum", len(cum), 1, n, n)
			raw.DecayScores(dst, m, cum, n, ld)
		},
		DecayScoresBackward: func(dM, dCum, dDst, m, cum []float32, n, ld int) {
			need("DecayScoresBackward", "dM", len(dM), n, n, ld)
			need("DecayScoresBackward", "dCum", len(dCum), 1, n, n)
			need("DecayScoresBackward", "dDst", len(dDst), n, n, ld)
			need("DecayScoresBackward", "m", len(m), n, n, ld)
			need("DecayScoresBackward", "cum", len(cum), 1, n, n)
			raw.DecayScoresBackward(dM, dCum, dDst, m, cum, n, ld)
		},
		ScaleRows: func(dst, src, s []float32, rows, w, ldd, lds int, accumulate bool) {
			need("ScaleRows", "dst", len(dst), rows, w, ldd)
			need("ScaleRows", "src", len(src), rows, w, lds)
			need("ScaleRows", "s", len(s), 1, rows, rows)
			raw.ScaleRows(dst, src, s, rows, w, ldd, lds, accumulate)
		},
		RowDots: func(out, a, b []float32, rows, w, lda, ldb int) {
			need("RowDots", "out", len(out), 1, rows, rows)
			need("RowDots", "a", len(a), rows, w, lda)
			need("RowDots", "b", len(b), rows, w, ldb)
			raw.RowDots(out, a, b, rows, w, lda, ldb)
		},
		GatherRows: func(dst, table []float32, idx []int32, rows, d int, scale float32) {
			need("GatherRows", "dst", len(dst), rows, d, d)
			need("GatherRows", "idx", len(idx), 1, rows, rows)
			for _, i := range idx[:rows] {
				needRow("GatherRows", "table", len(table), i, d)
			}
			raw.GatherRows(dst, table, idx, rows, d, scale)
		},
		ScatterAddRows: func(table, src []float32, idx []int32, rows, d int, scale float32) {
			need("ScatterAddRows", "src", len(src), rows, d, d)
			need("ScatterAddRows", "idx", len(idx), 1, rows, rows)
			for _, i := range idx[:rows] {
				needRow("ScatterAddRows", "table", len(table), i, d)
			}
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
		AdamW: func(p, g, m, v []float32, s AdamWStep) {
			n := len(p)
			need("AdamW", "g", len(g), 1, n, n)
			need("AdamW", "m", len(m), 1, n, n)
			need("AdamW", "v", len(v), 1, n, n)
			raw.AdamW(p, g, m, v, s)
		},
		SumSquares: raw.SumSquares,
	}
}

// need panics unless a slice of length have holds a [rows,width] matrix of row stride ld.
func need(op, operand string, have, rows, width, ld int) {
	if rows < 0 || width < 0 || (rows > 1 && ld < width) {
		panicShape(op, operand, have, rows, width, ld)
	}
	if rows > 0 && width > 0 && have < (rows-1)*ld+width {
		panicShape(op, operand, have, rows, width, ld)
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
func panicRow(op, operand string, have int, i int32, w int) {
	panic(fmt.Sprintf("amx: %s: row %d of width %d lies outside %s of %d elements", op, i, w, operand, have))
}
