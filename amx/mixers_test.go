package amx

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// mixerOperations are those of attention and linear attention, over a segment of
// w positions whose heads are as wide as there are rows.
func mixerOperations(rows, w, pad int) (ops []operation) {
	const heads = 3
	bias := buffer{1, heads, heads, func(*rand.Rand, int) float32 { return -3 }}
	for _, window := range []int{1, 7, w} {
		s := AttentionShape{N: w, Heads: heads, HeadWidth: rows, Window: window, In: (heads+2)*rows + pad, Out: heads*rows + pad, Scale: 0.5}
		in, out := buffer{w, (heads + 2) * rows, s.In, gaussian}, buffer{w, heads * rows, s.Out, gaussian}
		norm := buffer{heads, w, w, gaussian}
		ops = append(ops, operation{
			name: fmt.Sprintf("Attention/%+v", s), buffers: []buffer{out, norm, in}, tolerance: 1e-12, why: expRounding,
			run: func(k *Kernels, b [][]float32) { k.Attention(b[0], b[1], b[2], s) },
		}, operation{
			name: fmt.Sprintf("AttentionBackward/%+v", s), buffers: []buffer{in, in, out, out, norm}, tolerance: 1e-11, why: cancelling,
			run: func(k *Kernels, b [][]float32) {
				k.Attention(b[2], b[4], b[1], s)
				k.AttentionBackward(b[0], b[1], b[2], b[3], b[4], s)
			},
		})
	}
	s := LinearShape{N: w, Heads: heads, State: 1 + rows%7, HeadWidth: rows, Out: heads*rows + pad}
	width := 2*s.State + heads*(2*rows+1)
	s.In = width + pad
	states := buffer{1, s.States(), s.States(), gaussian}
	in := buffer{w, width, s.In, gaussian}
	out := buffer{w, heads * rows, s.Out, gaussian}
	// The gate's columns are left alone; those of the result start as they are compared.
	ops = append(ops, operation{
		name: fmt.Sprintf("LinearAttention/%+v", s), buffers: []buffer{out, states, in, bias}, tolerance: 1e-11, why: cancelling,
		run: func(k *Kernels, b [][]float32) { k.LinearAttention(b[0], b[1], b[2], b[3], s) },
	}, operation{
		name: fmt.Sprintf("LinearAttentionBackward/%+v", s), buffers: []buffer{in, states, in, out, bias, out}, tolerance: 1e-11, why: cancelling,
		run: func(k *Kernels, b [][]float32) {
			k.LinearAttention(b[5], b[1], b[2], b[4], s)
			k.LinearAttentionBackward(b[0], b[1], b[2], b[3], b[4], s)
		},
	})
	return ops
}

func TestMixers(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		for n := 1; n <= 70; n += 1 + n/20 {
			for _, op := range mixerOperations(1+n*5%41, n, n%3*7) {
				compare(t, k, op, uint64(n), nil)
			}
		}
		for _, n := range []int{64, 128, 129, 300} {
			for _, op := range mixerOperations(32, n, 2) {
				compare(t, k, op, uint64(n), nil)
			}
		}
	})
}

// TestStrongDecay: a state that forgets at once, by e^-20 a step and more.
func TestStrongDecay(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		for _, op := range mixerOperations(8, 150, 0)[6:] {
			for i, b := range op.buffers {
				if b.rows == 1 && b.width == 3 { // the bias
					op.buffers[i].value = func(_ *rand.Rand, h int) float32 { return []float32{20, 60, -30}[h] }
				}
			}
			compare(t, k, op, 4, nil)
		}
	})
}

// TestMixersNonFinite: what the reference makes non-finite is so everywhere.
func TestMixersNonFinite(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			for _, op := range mixerOperations(5, 90, 3) {
				for operand := range op.buffers {
					spoil := func(i int, g guarded) {
						if i == operand && g.shape.width > 0 {
							g.set(g.shape.rows*g.shape.width/2, bad)
						}
					}
					want, got := runOperation(Reference(), op, 6, spoil), runOperation(k, op, 6, spoil)
					for i := range want {
						if err := got[i].checkGuards(); err != nil {
							t.Errorf("%s, operand %d: %v", op.name, i, err)
						}
						for e := range want[i].shape.rows * want[i].shape.width {
							if !finite(float64(want[i].at(e))) && finite(float64(got[i].at(e))) {
								t.Fatalf("%s, %v in operand %d: element %d of operand %d is %v, want %v", op.name, bad, operand, e, i, got[i].at(e), want[i].at(e))
							}
						}
					}
				}
			}
		}
	})
}

// TestMixersForgetNonFinite: what is not finite stays in its segment. Rows that are
// none of a segment's, in scratch that an earlier one left, count as nothing.
func TestMixersForgetNonFinite(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		var ops []operation
		for _, s := range []struct{ width, n int }{{5, 3}, {20, 70}, {33, 130}} {
			ops = append(ops, mixerOperations(s.width, s.n, 1)...)
		}
		var before [][]guarded
		for _, op := range ops {
			before = append(before, runOperation(k, op, 3, nil))
		}
		for _, spoilt := range mixerOperations(40, 200, 0) {
			for i, op := range ops {
				runOperation(k, spoilt, 4, func(_ int, g guarded) {
					for e := range g.shape.rows * g.shape.width {
						g.set(e, float32(math.NaN()))
					}
				})
				if at := firstDifference(before[i], runOperation(k, op, 3, nil)); at != "" {
					t.Fatalf("%s, after %s of NaN: %s", op.name, spoilt.name, at)
				}
			}
		}
	})
}

// firstDifference names the first bits in which two runs of an operation differ.
func firstDifference(first, second []guarded) string {
	for b := range first {
		for e := range first[b].all {
			if math.Float32bits(first[b].all[e]) != math.Float32bits(second[b].all[e]) {
				return fmt.Sprintf("operand %d: element %d is %v, then %v", b, e, first[b].all[e], second[b].all[e])
			}
		}
	}
	return ""
}

// TestMixersRepeat: the same bits whatever ran before, no allocation, and a
// segment's beginning does not depend on what follows.
func TestMixersRepeat(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		other := mixerOperations(32, 200, 0)
		for i, op := range mixerOperations(20, 150, 1) {
			first := runOperation(k, op, 3, nil)
			data := make([][]float32, len(op.buffers))
			for b, g := range runOperation(k, other[i], 4, nil) {
				data[b] = g.data()
			}
			if at := firstDifference(first, runOperation(k, op, 3, nil)); at != "" {
				t.Fatalf("%s, %s", op.name, at)
			}
			if n := testing.AllocsPerRun(3, func() { other[i].run(k, data) }); n != 0 {
				t.Errorf("%s allocates %v times a call", other[i].name, n)
			}
		}
		for _, i := range []int{0, 6} {
			long, short := mixerOperations(20, 150, 1)[i], mixerOperations(20, 77, 1)[i]
			var inputs []guarded
			want := runOperation(k, long, 3, func(_ int, g guarded) {
				inputs = append(inputs, guarded{g.shape, append([]float32(nil), g.all...), g.start})
			})
			got := runOperation(k, short, 3, func(operand int, g guarded) {
				if in := inputs[operand]; g.shape.width == in.shape.width {
					for e := range g.shape.rows * g.shape.width {
						g.set(e, in.at(e))
					}
				}
			})
			for e := range 77 * got[0].shape.width {
				if got[0].at(e) != want[0].at(e) {
					t.Fatalf("%s: element %d is %v alone and %v with more behind it", short.name, e, got[0].at(e), want[0].at(e))
				}
			}
		}
	})
}

// TestGemm32: products in float32 whatever the set multiplies in.
func TestGemm32(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		for _, trans := range transposes {
			op := gemmOperation(trans, 7, 33, 70, 2, true)
			op.gemm, op.tolerance = false, 1e-12
			lda, ldb, ldc := op.buffers[0].ld, op.buffers[1].ld, op.buffers[2].ld
			op.run = func(k *Kernels, b [][]float32) { k.Gemm32(trans, 7, 33, 70, b[0], lda, b[1], ldb, b[2], b[2], ldc) }
			compare(t, k, op, 8, nil)
		}
	})
}
