package nn

import "harness/amx"

// streamMixture routes one document, block by block, as a token comes.
type streamMixture struct {
	layer   int
	routing Routing   // of the current block alone
	sum     []float32 // [D] of the normed states that the next statistic is the mean of
	seen    int       // tokens in sum
	inBlock int       // tokens of the current block that have passed
	packed  []packedExpert
	scaled  []float32
}

// packedExpert is laid out when it is first chosen.
type packedExpert struct {
	ready        bool
	gateUp, down amx.Packed
}

func newStreamMixture(m *Model, i int) *streamMixture {
	x, d, k := m.Layers[i].Mixture, m.DModel, m.MoE.TopK
	return &streamMixture{layer: i, sum: make([]float32, d), packed: make([]packedExpert, x.Experts()),
		scaled:  make([]float32, x.GateUp.row()),
		routing: Routing{k: k, Experts: make([]int32, k), Gates: make([]float32, k), stat: make([]float32, d), scores: make([]float32, x.families())}}
}

func (c *streamMixture) reset() {
	clear(c.sum)
	c.seen, c.inBlock = 0, 0
}

// nextExperts adds what the experts of the current block make of s.normed [D] to s.x.
func (s *Stream) nextExperts(l *Layer, c *streamMixture) {
	m, k, d, f := s.m, s.m.K, s.m.DModel, s.m.MoE.DFF
	if c.inBlock == 0 {
		if s.pos == 0 {
			copy(c.routing.stat, l.Mixture.First.Data)
		} else {
			mean(c.routing.stat, c.sum, float64(c.seen))
		}
		if m.MoE.Statistic == WindowMean {
			clear(c.sum)
			c.seen = 0
		}
		m.choose(l.Mixture, &c.routing, 0)
	}
	for slot, e := range c.routing.Experts {
		p := &c.packed[e]
		if !p.ready {
			m.packExpert(&p.gateUp, &p.down, c.layer, int(e), amx.NN, c.scaled)
			p.ready = true
		}
		k.GemmPacked(1, s.normed, d, &p.gateUp, nil, s.gateUp, 2*f)
		k.GatedAct(s.act, s.gateUp, 1, f, m.activation())
		k.ScaleRows(s.act, c.routing.Gates[slot:], s.first, 1, f)
		k.GemmPacked(1, s.act, f, &p.down, s.x, s.x, d)
	}
	for i, x := range s.normed {
		c.sum[i] += x
	}
	c.seen++
	c.inBlock = (c.inBlock + 1) % m.MoE.RouteBlock
}
