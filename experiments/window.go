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

	// Of the mixtures of experts, in the order of their layers.
	entropy []float64 // [mixtures] nats, summed over routed tokens
	balance []float64 // [mixtures] balance loss without its coefficient, summed over routed tokens
	routed  []int64   // [1] tokens routed by a statistic
	first   []int64   // [1] tokens routed by the first-block vector
}

func newWindow(entries, mixtures int) window {
	return window{make([]float64, entries), make([]int64, entries), make([]float64, 1), make([]int64, 1),
		make([]float64, mixtures), make([]float64, mixtures), make([]int64, 1), make([]int64, 1)}
}

func (w window) add(entry int, nats float32) {
	w.sum[entry] += float64(nats)
	w.count[entry]++
}

// addRouters adds how a step was routed.
func (w window) addRouters(m *nn.Model, a *nn.Activations) {
	at := 0
	for i := range m.Layers {
		if m.Layers[i].Mixture == nil {
			continue
		}
		s := a.RouterStats(i)
		w.entropy[at] += s.Entropy
		w.balance[at] += s.Balance * float64(s.Routed)
		if at == 0 { // the same in every layer
			w.routed[0] += int64(s.Routed)
			w.first[0] += int64(s.First)
		}
		at++
	}
}

// loss is that of one entry of the mixture.
func (w window) loss(entry int) nn.Loss {
	return nn.Loss{Sum: w.sum[entry], Count: int(w.count[entry])}
}

func (w window) clear() {
	for _, t := range w.tensors() {
		clear(t.F64)
		clear(t.I64)
	}
}

func (w window) tensors() []checkpoint.Tensor {
	ts := []checkpoint.Tensor{
		{Name: "window.sum", Shape: []int{len(w.sum)}, F64: w.sum},
		{Name: "window.count", Shape: []int{len(w.count)}, I64: w.count},
		{Name: "window.norm", Shape: []int{1}, F64: w.norm},
		{Name: "window.steps", Shape: []int{1}, I64: w.steps},
	}
	if n := len(w.entropy); n > 0 {
		ts = append(ts,
			checkpoint.Tensor{Name: "window.router.entropy", Shape: []int{n}, F64: w.entropy},
			checkpoint.Tensor{Name: "window.router.balance", Shape: []int{n}, F64: w.balance},
			checkpoint.Tensor{Name: "window.router.routed", Shape: []int{1}, I64: w.routed},
			checkpoint.Tensor{Name: "window.router.first", Shape: []int{1}, I64: w.first})
	}
	return ts
}
