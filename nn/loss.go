package nn

import (
	"harness/amx"
)

// readoutChunk is how many positions are scored at once: it bounds the logits
// that exist at any time to readoutChunk rows.
const readoutChunk = 256

type readoutScratch struct {
	at      []int32   // positions that have a target
	targets []int32   // softmax column of each
	hidden  []float32 // [readoutChunk, D]
	dHidden []float32 // [readoutChunk, D]
	logits  []float32 // [readoutChunk, columns]
	loss    []float32 // nats of each position in at

	forward, backward amx.Packed // the scored rows, for logits and for their gradient
	rehearsed         int        // columns that all of this has room for
}

func (z *readoutScratch) reserve(n, d, columns int) {
	if cap(z.at) < n {
		z.at, z.targets, z.loss = make([]int32, 0, n), make([]int32, 0, n), make([]float32, n)
		z.hidden, z.dHidden = make([]float32, readoutChunk*d), make([]float32, readoutChunk*d)
	}
	if len(z.logits) < readoutChunk*columns {
		z.logits = amx.Floats(readoutChunk * columns)
	}
}

// rehearse makes room for the largest number of columns that any step can have, in
// packed operands and in the kernels' scratch, by multiplying what is there. Steps draw
// more columns or fewer, and the memory only grows: later ones allocate nothing.
func (z *readoutScratch) rehearse(m *Model, rows *Rows) {
	if rows.pool == nil || rows.most <= z.rehearsed {
		return
	}
	z.rehearsed = rows.most
	k, d, v := m.K, m.DModel, rows.most
	k.Pack(&z.forward, amx.NT, v, d, rows.table, d)
	k.Pack(&z.backward, amx.NN, d, v, rows.table, d)
	k.GemmPacked(readoutChunk, z.hidden, d, &z.forward, nil, z.logits, v)
	k.Gemm(amx.TN, v, d, readoutChunk, z.logits, v, z.hidden, d, nil, rows.Grad, d)
	k.GemmPacked(readoutChunk, z.logits, v, &z.backward, nil, z.dHidden, d)
}

// Loss is the sum over positions with a target; divide by Count for nats a token.
type Loss struct {
	Sum   float64 // nats
	Count int
}

// Mean is nats a token, 0 where there were none.
func (l Loss) Mean() float64 {
	if l.Count == 0 {
		return 0
	}
	return l.Sum / float64(l.Count)
}

// Add sums two losses.
func (l Loss) Add(o Loss) Loss { return Loss{l.Sum + o.Sum, l.Count + o.Count} }

// Loss scores every position that has a target against the rows' columns, after
// Forward. It writes the gradient of the mean loss into a.DHidden, and the readout's
// share of it into rows.Grad.
func (m *Model) Loss(a *Activations, b Batch, rows *Rows) Loss {
	k, d := m.K, m.DModel
	z := a.findTargets(m, b, rows.most)
	z.rehearse(m, rows)
	table := m.Embedding.Data
	if rows.pool != nil {
		table = rows.table
		k.GatherRows(table, m.Embedding.Data, rows.IDs[:rows.Scored], rows.Scored, d, 1)
	}
	clear(a.DHidden[:a.n*d])
	total := Loss{Count: len(z.at)}
	if total.Count == 0 {
		clear(rows.Grad[:len(rows.IDs)*d])
		return total
	}
	clear(rows.Grad[rows.Scored*d : len(rows.IDs)*d]) // the rows that are only read
	rows.slots(z.targets, z.targets)
	scale := 1 / float32(total.Count)
	k.Pack(&z.forward, amx.NT, rows.Scored, d, table, d)
	k.Pack(&z.backward, amx.NN, d, rows.Scored, table, d)
	for lo := 0; lo < len(z.at); lo += readoutChunk {
		hi := min(lo+readoutChunk, len(z.at))
		n, v := hi-lo, rows.Scored
		k.GatherRows(z.hidden, a.Hidden, z.at[lo:hi], n, d, 1)
		k.GemmPacked(n, z.hidden, d, &z.forward, nil, z.logits, v)
		k.SoftmaxXent(z.loss[lo:hi], z.logits, rows.Bias, z.targets[lo:hi], n, v, v, scale)
		plus := rows.Grad
		if lo == 0 {
			plus = nil
		}
		k.Gemm(amx.TN, v, d, n, z.logits, v, z.hidden, d, plus, rows.Grad, d)
		k.GemmPacked(n, z.logits, v, &z.backward, nil, z.dHidden, d)
		k.ScatterAddRows(a.DHidden, z.dHidden, z.at[lo:hi], n, d, 1)
	}
	for _, x := range z.loss[:total.Count] {
		total.Sum += float64(x)
	}
	return total
}

// Evaluate is the exact full-softmax loss of the batch, after Forward. If observe
// is not nil it is called for every scored position with its logits [V].
func (m *Model) Evaluate(a *Activations, b Batch, observe func(position int, logits []float32)) Loss {
	k, d, v := m.K, m.DModel, m.V
	z := a.findTargets(m, b, v)
	total := Loss{Count: len(z.at)}
	if total.Count == 0 {
		return total
	}
	k.Pack(&z.forward, amx.NT, v, d, m.Embedding.Data, d)
	for lo := 0; lo < len(z.at); lo += readoutChunk {
		hi := min(lo+readoutChunk, len(z.at))
		n := hi - lo
		k.GatherRows(z.hidden, a.Hidden, z.at[lo:hi], n, d, 1)
		k.GemmPacked(n, z.hidden, d, &z.forward, nil, z.logits, v)
		if observe != nil {
			for r, at := range z.at[lo:hi] {
				observe(int(at), z.logits[r*v:(r+1)*v])
			}
		}
		k.SoftmaxXent(z.loss[lo:hi], z.logits, nil, z.targets[lo:hi], n, v, v, 0)
	}
	for _, x := range z.loss[:total.Count] {
		total.Sum += float64(x)
	}
	return total
}

// PositionLosses calls f with every scored position of the last Loss or Evaluate
// and its nats, in order: how losses are split by source.
func (a *Activations) PositionLosses(f func(position int, nats float32)) {
	for i, at := range a.readout.at {
		f(int(at), a.readout.loss[i])
	}
}

// findTargets lists the positions that have a target, and their targets.
func (a *Activations) findTargets(m *Model, b Batch, columns int) *readoutScratch {
	z := &a.readout
	z.reserve(a.maxN, m.DModel, columns)
	z.at, z.targets = z.at[:0], z.targets[:0]
	for i, target := range b.Targets {
		if target >= 0 {
			z.at = append(z.at, int32(i))
			z.targets = append(z.targets, target)
		}
	}
	return z
}
