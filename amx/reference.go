package amx

import "math"

// Reference returns the set that defines every operation: plain Go, sums in
// float64, written to be read. It keeps no state, so that any number of
// goroutines may share it.
func Reference() *Kernels {
	return checked(Kernels{
		Name:                    "reference",
		Arithmetic:              FP32,
		Gemm:                    referenceGemm,
		Gemm32:                  referenceGemm,
		Pack:                    referencePack,
		GemmPacked:              referenceGemmPacked,
		RMSNorm:                 referenceRMSNorm,
		RMSNormBackward:         referenceRMSNormBackward,
		GatedAct:                referenceGatedAct,
		GatedActBackward:        referenceGatedActBackward,
		SigmoidGate:             referenceSigmoidGate,
		SigmoidGateBackward:     referenceSigmoidGateBackward,
		Rotary:                  referenceRotary,
		SoftmaxBand:             referenceSoftmaxBand,
		Attention:               referenceAttention,
		AttentionBackward:       referenceAttentionBackward,
		LinearAttention:         referenceLinearAttention,
		LinearAttentionBackward: referenceLinearAttentionBackward,
		ScaleRows:               referenceScaleRows,
		GatherRows:              referenceGatherRows,
		ScatterAddRows:          referenceScatterAddRows,
		SoftmaxXent:             referenceSoftmaxXent,
		AdamW:                   referenceAdamW,
		AdamWRows:               referenceAdamWRows,
		SumSquares:              referenceSumSquares,
		Dot:                     referenceDot,
	})
}

func referenceGemm(t Trans, m, n, k int, a []float32, lda int, b []float32, ldb int, plus, c []float32, ldc int) {
	// Element (i,l) of op(A) is a[i*aRow+l*aCol]; element (l,j) of op(B) is b[l*bRow+j*bCol].
	aRow, aCol, bRow, bCol := lda, 1, ldb, 1
	switch t {
	case NT:
		bRow, bCol = 1, ldb
	case TN:
		aRow, aCol = 1, lda
	}
	for i := range m {
		for j := range n {
			sum := 0.0
			for l := range k {
				sum += float64(a[i*aRow+l*aCol]) * float64(b[l*bRow+j*bCol])
			}
			if plus != nil {
				sum += float64(plus[i*ldc+j])
			}
			c[i*ldc+j] = float32(sum)
		}
	}
}

// referencePack keeps op(B) [K,N] as it is, its rows end to end.
func referencePack(p *Packed, t Trans, n, k int, b []float32, ldb int) {
	p.memory.reserve(4 * n * k)
	for l := range k {
		for j := range n {
			if t == NT {
				p.memory.data[l*n+j] = b[j*ldb+l]
			} else {
				p.memory.data[l*n+j] = b[l*ldb+j]
			}
		}
	}
}

func referenceGemmPacked(m int, a []float32, lda int, b *Packed, plus, c []float32, ldc int) {
	t := NN
	if b.t == TN {
		t = TN
	}
	referenceGemm(t, m, b.n, b.k, a, lda, b.memory.data, b.n, plus, c, ldc)
}

func referenceRMSNorm(y, rstd, x, gain []float32, rows, d int, eps float32) {
	for r := range rows {
		xr, yr := x[r*d:], y[r*d:]
		squares := 0.0
		for i := range d {
			squares += float64(xr[i]) * float64(xr[i])
		}
		inv := 1 / math.Sqrt(squares/float64(d)+float64(eps))
		rstd[r] = float32(inv)
		for i := range d {
			yr[i] = float32(float64(xr[i]) * inv * float64(gain[i]))
		}
	}
}

// referenceRMSNormBackward: with y_i = x_i r g_i and r = (mean x^2 + eps)^(-1/2),
// dr/dx_i = -r^3 x_i / d, hence dx_i = r g_i dy_i - x_i (r^3/d) sum_j dy_j g_j x_j.
func referenceRMSNormBackward(dX, dGain, y, dY, x, gain, rstd []float32, rows, d int) {
	for r := range rows {
		xr, yr, dYr, dXr := x[r*d:], y[r*d:], dY[r*d:], dX[r*d:]
		inv := float64(rstd[r])
		dot := 0.0
		for i := range d {
			dot += float64(dYr[i]) * float64(gain[i]) * float64(xr[i])
		}
		pull := inv * inv * inv * dot / float64(d)
		for i := range d {
			dXr[i] += float32(inv*float64(gain[i])*float64(dYr[i]) - float64(xr[i])*pull)
			dGain[i] += float32(float64(dYr[i]) * float64(xr[i]) * inv)
			yr[i] = float32(float64(xr[i]) * inv * float64(gain[i]))
		}
	}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// activate returns the activation's value and derivative at x; NaN stays NaN.
func activate(act Activation, x float64) (value, slope float64) {
	if act == SiLU {
		s := sigmoid(x)
		return x * s, s * (1 + x*(1-s))
	}
	if x <= 0 {
		return 0, 0
	}
	return x * x, 2 * x
}

func referenceGatedAct(h, gu []float32, rows, f int, act Activation) {
	for r := range rows {
		gate, up := gu[r*2*f:], gu[r*2*f+f:]
		for i := range f {
			value, _ := activate(act, float64(gate[i]))
			h[r*f+i] = float32(value * float64(up[i]))
		}
	}
}

func referenceGatedActBackward(dGU, h, gu, dH []float32, rows, f int, act Activation) {
	for r := range rows {
		for i := range f {
			gate, up := r*2*f+i, r*2*f+f+i
			value, slope := activate(act, float64(gu[gate]))
			g := float64(dH[r*f+i])
			dGate := float32(g * float64(gu[up]) * slope)
			h[r*f+i] = float32(value * float64(gu[up]))
			dGU[up] = float32(g * value)
			dGU[gate] = dGate
		}
	}
}

func referenceSigmoidGate(out, y, gate []float32, rows, w, ldg int) {
	for r := range rows {
		for i := range w {
			out[r*w+i] = float32(float64(y[r*w+i]) * sigmoid(float64(gate[r*ldg+i])))
		}
	}
}

func referenceSigmoidGateBackward(dY, dGate, dOut, y, gate []float32, rows, w, ldg, lddg int) {
	for r := range rows {
		for i := range w {
			s := sigmoid(float64(gate[r*ldg+i]))
			g := float64(dOut[r*w+i])
			dY[r*w+i] = float32(g * s)
			dGate[r*lddg+i] = float32(g * float64(y[r*w+i]) * s * (1 - s))
		}
	}
}

func referenceRotary(x []float32, rows, ld, heads, dh int, pos []int32, cos, sin []float32, sign float32) {
	half := dh / 2
	for r := range rows {
		angle := int(pos[r]) * half
		for h := range heads {
			head := x[r*ld+h*dh:]
			for i := range half {
				c, s := float64(cos[angle+i]), float64(sign)*float64(sin[angle+i])
				x0, x1 := float64(head[i]), float64(head[i+half])
				head[i] = float32(x0*c - x1*s)
				head[i+half] = float32(x1*c + x0*s)
			}
		}
	}
}

func referenceScaleRows(table, s []float32, idx []int32, rows, d int) {
	for r := range rows {
		row := table[int(idx[r])*d:]
		for i := range d {
			row[i] *= s[r]
		}
	}
}

func referenceGatherRows(dst, table []float32, idx []int32, rows, d int, scale float32) {
	for r := range rows {
		row := table[int(idx[r])*d:]
		for i := range d {
			dst[r*d+i] = scale * row[i]
		}
	}
}

func referenceScatterAddRows(table, src []float32, idx []int32, rows, d int, scale float32) {
	for r := range rows {
		row := table[int(idx[r])*d:]
		for i := range d {
			row[i] = float32(float64(row[i]) + float64(scale)*float64(src[r*d+i]))
		}
	}
}

func referenceAdamW(p, g, m, v []float32, s AdamWStep) {
	b1, b2 := float64(s.Beta1), float64(s.Beta2)
	for i := range p {
		grad := float64(g[i]) * float64(s.GradScale)
		mean := b1*float64(m[i]) + (1-b1)*grad
		square := b2*float64(v[i]) + (1-b2)*grad*grad
		m[i], v[i] = float32(mean), float32(square)
		param := float64(p[i]) - float64(s.Decay)*float64(p[i])
		step := mean * float64(s.Correct1) / (math.Sqrt(square*float64(s.Correct2)) + float64(s.Eps))
		p[i] = float32(param - float64(s.LR)*step)
	}
}

func referenceAdamWRows(p, g, m, v []float32, idx []int32, correct1, correct2 []float32, rows, d int, s AdamWStep) {
	for r := range rows {
		lo, hi := int(idx[r])*d, (int(idx[r])+1)*d
		s.Correct1, s.Correct2 = correct1[r], correct2[r]
		referenceAdamW(p[lo:hi], g[r*d:(r+1)*d], m[lo:hi], v[lo:hi], s)
	}
}

func referenceSumSquares(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return sum
}

func referenceDot(x, y []float32) float64 {
	sum := 0.0
	for i, v := range x {
		sum += float64(v) * float64(y[i])
	}
	return sum
}
