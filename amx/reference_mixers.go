package amx

import "math"

// weights are the attention weights of one query over its window, and the
// logarithm of their denominator.
func attentionWeights(in []float32, i, h int, s AttentionShape) (first int, p []float64, norm float64) {
	dh := s.HeadWidth
	q := in[i*s.In+h*dh:]
	first = max(i-s.Window+1, 0)
	p = make([]float64, i+1-first)
	top := math.Inf(-1)
	for j := range p {
		k := in[(first+j)*s.In+s.Heads*dh:]
		for c := range dh {
			p[j] += float64(q[c]) * float64(k[c])
		}
		p[j] *= float64(s.Scale)
		top = math.Max(top, p[j])
	}
	sum := 0.0
	for j := range p {
		p[j] = math.Exp(p[j] - top)
		sum += p[j]
	}
	for j := range p {
		p[j] /= sum
	}
	return first, p, top + math.Log(sum)
}

func referenceAttention(out, norm, in []float32, s AttentionShape) {
	dh := s.HeadWidth
	sum := make([]float64, dh)
	for i := range s.N {
		for h := range s.Heads {
			first, p, n := attentionWeights(in, i, h, s)
			norm[h*s.N+i] = float32(n)
			clear(sum)
			for j, weight := range p {
				v := in[(first+j)*s.In+(s.Heads+1)*dh:]
				for c := range dh {
					sum[c] += weight * float64(v[c])
				}
			}
			for c := range dh {
				out[i*s.Out+h*dh+c] = float32(sum[c])
			}
		}
	}
}

// referenceAttentionBackward: with g_j = dOut.v_j, dS_j = p_j (g_j - sum p g); it
// forms p from in alone.
func referenceAttentionBackward(dIn, in, out, dOut, norm []float32, s AttentionShape) {
	dh, hd := s.HeadWidth, s.Heads*s.HeadWidth
	width := hd + 2*dh
	d := make([]float64, s.N*width)
	for i := range s.N {
		for h := range s.Heads {
			first, p, _ := attentionWeights(in, i, h, s)
			g, mean := make([]float64, len(p)), 0.0
			for j := range p {
				v := in[(first+j)*s.In+hd+dh:]
				for c := range dh {
					g[j] += float64(dOut[i*s.Out+h*dh+c]) * float64(v[c])
				}
				mean += p[j] * g[j]
			}
			for j := range p {
				at := first + j
				dS := float64(s.Scale) * p[j] * (g[j] - mean)
				for c := range dh {
					d[i*width+h*dh+c] += dS * float64(in[at*s.In+hd+c])
					d[at*width+hd+c] += dS * float64(in[i*s.In+h*dh+c])
					d[at*width+hd+dh+c] += p[j] * float64(dOut[i*s.Out+h*dh+c])
				}
			}
		}
	}
	for i := range s.N {
		for c := range width {
			dIn[i*s.In+c] = float32(d[i*width+c])
		}
	}
}

// linearColumns are where the parts of a row of LinearAttention's input start.
func (s LinearShape) columns() (k, v, decay int) {
	return s.State, 2 * s.State, 2*s.State + 2*s.Heads*s.HeadWidth
}

// keep is the factor by which position t of head h shrinks the state.
func (s LinearShape) keep(in, bias []float32, t, h int) float64 {
	_, _, decay := s.columns()
	x := float64(in[t*s.In+decay+h]) + float64(bias[h])
	if x > 30 { // softplus(x) is x
		return math.Exp(-x)
	}
	return 1 / (1 + math.Exp(x)) // exp(-log(1+exp(x)))
}

// history returns the states after every position, [N,State,dh], of one head.
func (s LinearShape) history(in, bias []float32, h int) []float64 {
	k, v, _ := s.columns()
	dh, size := s.HeadWidth, s.State*s.HeadWidth
	all := make([]float64, s.N*size)
	for t := range s.N {
		keep := s.keep(in, bias, t, h)
		for l := range s.State {
			for c := range dh {
				x := float64(in[t*s.In+k+l]) * float64(in[t*s.In+v+h*dh+c])
				if t > 0 {
					x += keep * all[(t-1)*size+l*dh+c]
				}
				all[t*size+l*dh+c] = x
			}
		}
	}
	return all
}

func referenceLinearAttention(out, states, in, bias []float32, s LinearShape) {
	dh, size := s.HeadWidth, s.State*s.HeadWidth
	for h := range s.Heads {
		all := s.history(in, bias, h)
		for t := range s.N {
			for c := range dh {
				sum := 0.0
				for l := range s.State {
					sum += float64(in[t*s.In+l]) * all[t*size+l*dh+c]
				}
				out[t*s.Out+h*dh+c] = float32(sum)
			}
			if next := t + 1; next%LinearChunk == 0 && next < s.N {
				for i, x := range all[t*size : next*size] {
					states[((next/LinearChunk-1)*s.Heads+h)*size+i] = float32(x)
				}
			}
		}
	}
}

// referenceLinearAttentionBackward walks the recurrence from its end, with the
// gradient of the state; it forms the states from in alone.
func referenceLinearAttentionBackward(dIn, states, in, dOut, bias []float32, s LinearShape) {
	k, v, decay := s.columns()
	dh, size := s.HeadWidth, s.State*s.HeadWidth
	for t := range s.N {
		clear(dIn[t*s.In : t*s.In+2*s.State])
	}
	dQ, dK := make([]float64, s.N*s.State), make([]float64, s.N*s.State)
	for h := range s.Heads {
		all, d := s.history(in, bias, h), make([]float64, size)
		for t := s.N - 1; t >= 0; t-- {
			row, dRow := in[t*s.In:], dIn[t*s.In:]
			dV, dKeep := make([]float64, dh), 0.0
			for l := range s.State {
				for c := range dh {
					g, i := float64(dOut[t*s.Out+h*dh+c]), l*dh+c
					dQ[t*s.State+l] += g * all[t*size+i]
					d[i] += g * float64(row[l])
					dK[t*s.State+l] += d[i] * float64(row[v+h*dh+c])
					dV[c] += d[i] * float64(row[k+l])
					if t > 0 {
						dKeep += d[i] * all[(t-1)*size+i]
					}
				}
			}
			for c := range dh {
				dRow[v+h*dh+c] = float32(dV[c])
			}
			keep := s.keep(in, bias, t, h)
			// d exp(-softplus(x)) / dx = -keep * sigmoid(x)
			dRow[decay+h] = float32(-dKeep * keep * sigmoid(float64(row[decay+h])+float64(bias[h])))
			for i := range d {
				d[i] *= keep
			}
		}
	}
	for t := range s.N {
		for l := range s.State {
			dIn[t*s.In+l], dIn[t*s.In+k+l] = float32(dQ[t*s.State+l]), float32(dK[t*s.State+l])
		}
	}
}
