package nn

import (
	"cmp"
	"slices"

	"harness/amx"
)

// Touched says which experts of a mixture the last training forward used, and holds
// their gradients: compact, so that a step costs what it touched.
type Touched struct {
	IDs    []int32   // ascending
	GateUp []float32 // [len(IDs), D*2Fe], overwritten by Backward
	Down   []float32 // [len(IDs), Fe*D]
}

func sortUses(uses []use) {
	slices.SortFunc(uses, func(a, b use) int {
		return cmp.Or(cmp.Compare(a.expert, b.expert), cmp.Compare(a.span, b.span), cmp.Compare(a.slot, b.slot))
	})
}

// each calls f with every expert that is used and its uses, experts ascending.
func (r *Routing) each(f func(expert int, uses []use)) {
	for lo := 0; lo < len(r.uses); {
		hi := lo
		for hi < len(r.uses) && r.uses[hi].expert == r.uses[lo].expert {
			hi++
		}
		f(int(r.uses[lo].expert), r.uses[lo:hi])
		lo = hi
	}
}

// packExpert lays one expert's matrices out, with its pending decay applied in scratch.
func (m *Model) packExpert(gateUp, down *amx.Packed, layer, expert int, t amx.Trans, scratch []float32) {
	x, d, f := m.Layers[layer].Mixture, m.DModel, m.MoE.DFF
	lay := func(to *amx.Packed, p *Param, in, out int) {
		data := p.Data[expert*p.row() : (expert+1)*p.row()]
		if factor := m.pendingFactor(layer, expert); factor != 1 {
			scaled := scratch[:len(data)]
			for i, w := range data {
				scaled[i] = w * factor
			}
			data = scaled
		}
		if t == amx.NT {
			m.K.Pack(to, t, in, out, data, out)
		} else {
			m.K.Pack(to, t, out, in, data, out)
		}
	}
	lay(gateUp, x.GateUp, d, 2*f)
	lay(down, x.Down, f, d)
}

func (m *Model) pendingFactor(layer, expert int) float32 {
	if m.pending == nil || m.pending[layer] == nil {
		return 1
	}
	return m.pending[layer][expert]
}

// forwardExperts routes the normed rows c.normed [N,D] and adds what the chosen
// experts make of them, each times its gate, to out [N,D]. An expert is packed once
// and all its rows pass; a row gets its experts' parts in ascending order.
func (m *Model) forwardExperts(l *Layer, c *layerCache, a *Activations, out []float32) {
	m.route(l, c, a, c.normed)
	k, d, f, r := m.K, m.DModel, m.MoE.DFF, &c.routing
	if a.training {
		a.touch(c)
	}
	r.each(func(expert int, uses []use) {
		m.packExpert(&a.expertGateUp, &a.expertDown, c.layer, expert, amx.NN, a.scaled)
		for _, u := range uses {
			s := r.spans[u.span]
			gates := r.gates[int(u.slot)*a.maxN:]
			for lo := s.lo; lo < s.hi; lo += tokenBlock {
				rows := min(tokenBlock, s.hi-lo)
				gateUp := c.expertGateUp(a, int(u.slot), lo, f)
				k.GemmPacked(rows, c.normed[lo*d:], d, &a.expertGateUp, nil, gateUp, 2*f)
				k.GatedAct(a.hidden, gateUp, rows, f, m.activation())
				k.ScaleRows(a.hidden, gates[lo:], a.iota, rows, f)
				k.GemmPacked(rows, a.hidden, f, &a.expertDown, out[lo*d:], out[lo*d:], d)
			}
		}
	})
}

// expertGateUp is where the products of a slot are kept for rows from lo on; inference
// has room for one block.
func (c *layerCache) expertGateUp(a *Activations, slot, lo, f int) []float32 {
	if !a.training {
		return c.expertsIn
	}
	return c.expertsIn[(slot*a.maxN+lo)*2*f:]
}

// touch lists the experts in use and has the decay they missed applied.
func (a *Activations) touch(c *layerCache) {
	t := c.touched
	t.IDs = t.IDs[:0]
	for _, u := range c.routing.uses {
		if n := len(t.IDs); n == 0 || t.IDs[n-1] != u.expert {
			t.IDs = append(t.IDs, u.expert)
		}
	}
	if a.BeforeExperts != nil {
		a.BeforeExperts(c.layer, t.IDs)
	}
}

// backwardExperts reads dOut [N,D], the gradient of the layer's output, writes the
// gradients of the experts, routers and first-block vector, and leaves that of the
// normed rows in a.dNormed [N,D]. What c keeps of the experts' inputs is used up.
func (m *Model) backwardExperts(l *Layer, c *layerCache, a *Activations, dOut []float32) {
	k, d, f, r := m.K, m.DModel, m.MoE.DFF, &c.routing
	dNormed, dGate := a.dNormed[:a.n*d], a.dGate[:a.items*m.MoE.TopK]
	clear(dNormed)
	clear(dGate)
	at := 0 // index of the expert among the touched
	r.each(func(expert int, uses []use) {
		m.packExpert(&a.expertGateUp, &a.expertDown, c.layer, expert, amx.NT, a.scaled)
		gradGateUp, gradDown := c.touched.GateUp[at*d*2*f:(at+1)*d*2*f], c.touched.Down[at*f*d:(at+1)*f*d]
		at++
		var plusGateUp, plusDown []float32 // nil at first: overwrite
		for _, u := range uses {
			s := r.spans[u.span]
			gates := r.gates[int(u.slot)*a.maxN:]
			for lo := s.lo; lo < s.hi; lo += tokenBlock {
				rows := min(tokenBlock, s.hi-lo)
				gateUp, dHidden, hidden := c.expertGateUp(a, int(u.slot), lo, f), a.hidden, a.hidden2
				k.GemmPacked(rows, dOut[lo*d:], d, &a.expertDown, nil, dHidden, f)
				k.ScaleRows(dHidden, gates[lo:], a.iota, rows, f)
				k.GatedActBackward(gateUp, hidden, gateUp, dHidden, rows, f, m.activation())
				a.gateGradients(s, int(u.slot), lo, rows, f, k, dGate, m.MoE.TopK)
				k.ScaleRows(hidden, gates[lo:], a.iota, rows, f)
				k.Gemm(amx.TN, f, d, rows, hidden, f, dOut[lo*d:], d, plusDown, gradDown, d)
				k.GemmPacked(rows, gateUp, 2*f, &a.expertGateUp, dNormed[lo*d:], dNormed[lo*d:], d)
				k.Gemm(amx.TN, d, 2*f, rows, c.normed[lo*d:], d, gateUp, 2*f, plusGateUp, gradGateUp, 2*f)
				plusGateUp, plusDown = gradGateUp, gradDown
			}
		}
	})
	m.backwardRoute(l, c, a, dGate, dNormed)
}

// gateGradients adds, for every block among the rows, gate times the gate's gradient:
// the product of the hidden states with their gradient.
func (a *Activations) gateGradients(s span, slot, lo, rows, f int, k *amx.Kernels, dGate []float64, topK int) {
	for _, b := range a.blocks[s.blocks[0]:s.blocks[1]] {
		from, to := max(b.Lo, lo)-lo, min(b.Hi, lo+rows)-lo
		if from < to {
			dGate[b.Item*topK+slot] += k.Dot(a.hidden[from*f:to*f], a.hidden2[from*f:to*f])
		}
	}
}
