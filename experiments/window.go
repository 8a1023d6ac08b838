package experiments

import (
	"harness/nn"
	"harness/nn/checkpoint"
)

// window sums what training tells since it was last recorded. It is part of a
// checkpoint, so that a resumed run records the means that an undisturbed one does.
// Its scalars are slices of one because that is what a checkpoint holds.
type window struct {
	sum   []float64 // [mixture entries] nats
	count []int64   // [mixture entries] targets
	norm  []float64 // [1] sum of gradient norms
	steps []int64   // [1]
}

func newWindow(entries int) window {
	return window{make([]float64, entries), make([]int64, entries), make([]float64, 1), make([]int64, 1)}
}

func (w window) add(entry int, nats float32) {
	w.sum[entry] += float64(nats)
	w.count[entry]++
}

// loss is that of one entry of the mixture.
func (w window) loss(entry int) nn.Loss {
	return nn.Loss{Sum: w.sum[entry], Count: int(w.count[entry])}
}

func (w window) clear() {
	clear(w.sum)
	clear(w.count)
	clear(w.norm)
	clear(w.steps)
}

func (w window) tensors() []checkpoint.Tensor {
	return []checkpoint.Tensor{
		{Name: "window.sum", Shape: []int{len(w.sum)}, F64: w.sum},
		{Name: "window.count", Shape: []int{len(w.count)}, I64: w.count},
		{Name: "window.norm", Shape: []int{1}, F64: w.norm},
		{Name: "window.steps", Shape: []int{1}, I64: w.steps},
	}
}
