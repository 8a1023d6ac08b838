package nn

import (
	"fmt"

	"harness/amx"
)

// mixtureCache is what a mixture keeps of a forward.
type mixtureCache struct {
	layer     int
	normed    []float32 // [N,D] what router and experts read
	expertsIn []float32 // [K, N, 2Fe] gate and up of every slot, in inference of a block
	routing   Routing
	touched   *Touched // in training
}

// mixtureScratch serves all mixtures of a pass in turn.
type mixtureScratch struct {
	blocks []Block // the grid of the batch
	items  int     // statistics that route it
	routed int     // tokens in blocks that are not the first of their segment

	expertGateUp, expertDown amx.Packed // the expert at work
	scaled                   []float32  // its matrix with pending decay applied
	hidden2                  []float32  // [tokenBlock,Fe]
	sum                      []float32  // [D]
	ones                     []float32  // [route_block]
	iota                     []int32    // [tokenBlock] 0, 1, 2, ...

	dNormed []float32   // [N,D]
	dGate   []float64   // [items,K] gate times its gradient
	dStat   []float32   // [items,D]
	dScores [][]float32 // by level [items, rows]
	value   []float64   // [E]
}

// newMixtureCache makes what layer i needs; shared is what the layer before has, for
// inference, where buffers of the size of the batch serve all layers.
func (a *Activations) newMixtureCache(m *Model, i int, shared mixtureCache) mixtureCache {
	x := m.Layers[i].Mixture
	switch {
	case x == nil && a.training:
		return mixtureCache{}
	case x == nil:
		return shared
	}
	n, d, f, k, f32 := a.maxN, m.DModel, m.MoE.DFF, m.MoE.TopK, amx.Floats
	c := mixtureCache{layer: i, normed: shared.normed, expertsIn: shared.expertsIn}
	if a.training {
		c.normed, c.expertsIn = f32(n*d), f32(k*n*2*f)
	} else if c.normed == nil {
		c.normed, c.expertsIn = f32(n*d), f32(min(n, tokenBlock)*2*f)
	}
	items := m.maxItems(n)
	c.routing = Routing{k: k, Experts: make([]int32, items*k), Gates: f32(items * k), stat: f32(items * d),
		scores: f32(items * x.families()), spans: make([]span, 0, n), uses: make([]use, 0, n*k), gates: f32(k * n)}
	if !a.training {
		return c
	}
	c.routing.entropy = make([]float64, items)
	for _, router := range x.Routers {
		c.routing.p = append(c.routing.p, f32(items*router.Shape[0]))
	}
	most := MostExperts(m, n)
	c.touched = &Touched{IDs: make([]int32, 0, most), GateUp: f32(most * x.GateUp.row()), Down: f32(most * x.Down.row())}
	return c
}

// MostExperts bounds the experts of one mixture that a step of maxTokens tokens
// touches.
func MostExperts(m *Model, maxTokens int) int {
	x := m.mixture()
	if x == nil {
		return 0
	}
	return min(x.Experts(), m.maxItems(maxTokens)*m.MoE.TopK)
}

func newMixtureScratch(m *Model, n int, training bool) mixtureScratch {
	var s mixtureScratch
	if len(m.MoE.Layers) == 0 {
		return s
	}
	d, f, block, f32 := m.DModel, m.MoE.DFF, min(n, tokenBlock), amx.Floats
	s.blocks = make([]Block, 0, n)
	s.sum, s.scaled, s.ones, s.iota = f32(d), f32(2*d*f), f32(min(n, m.MoE.RouteBlock)), make([]int32, block)
	for i := range s.ones {
		s.ones[i] = 1
	}
	for i := range s.iota {
		s.iota[i] = int32(i)
	}
	if !training {
		return s
	}
	items := m.maxItems(n)
	s.hidden2, s.dNormed, s.dStat = f32(block*f), f32(n*d), f32(items*d)
	s.dGate = make([]float64, items*m.MoE.TopK)
	x := m.mixture()
	for _, router := range x.Routers {
		s.dScores = append(s.dScores, f32(items*router.Shape[0]))
	}
	s.value = make([]float64, x.Experts())
	return s
}

// mixture is the first one; all of a model have the same shape. It is nil in a dense
// model.
func (m *Model) mixture() *Mixture {
	for i := range m.Layers {
		if x := m.Layers[i].Mixture; x != nil {
			return x
		}
	}
	return nil
}

// widest is the largest hidden width of any MLP or expert.
func (m *Model) widest() int {
	w := 0
	for i := range m.Layers {
		w = max(w, m.Layers[i].dense())
	}
	if m.mixture() != nil {
		w = max(w, m.MoE.DFF)
	}
	return w
}

// Touched is what the last training forward used of a layer's experts, nil for a layer
// without a mixture.
func (a *Activations) Touched(layer int) *Touched { return a.layers[layer].touched }

// RouterStats is how the last training forward was routed in one mixture.
type RouterStats struct {
	Entropy float64 // nats: sum over routed tokens of the entropy of the router's distribution over all experts
	Routed  int     // tokens that the statistic of earlier tokens routed
	First   int     // tokens that the learned first-block vector routed
	Balance float64 // balance loss without its coefficient: 1 where load or distribution is even
}

// RouterStats reports on the last training step, after Backward.
func (a *Activations) RouterStats(layer int) RouterStats {
	r := &a.layers[layer].routing
	s := RouterStats{Routed: a.routed, First: a.n - a.routed, Balance: r.balance}
	if r.entropy == nil {
		panic(fmt.Sprintf("nn: router statistics of layer %d of a workspace without training caches, or without a mixture", layer))
	}
	for _, b := range a.blocks {
		if !b.First() {
			s.Entropy += float64(b.Hi-b.Lo) * r.entropy[b.Item]
		}
	}
	return s
}
