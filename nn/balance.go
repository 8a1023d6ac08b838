package nn

import (
	"math"

	"harness/amx"
)

// distribution fills p and the entropy of an item: over families a softmax of their
// scores, within a family at every level one of the two siblings' scores.
func (x *Mixture) distribution(r *Routing, item int) {
	d := len(x.First.Data)
	stat := r.stat[item*d : (item+1)*d]
	for level, router := range x.Routers {
		rows := router.Shape[0]
		p := r.p[level][item*rows : (item+1)*rows]
		if level == 0 {
			softmax(p, r.scores[item*rows:(item+1)*rows])
			r.entropy[item] = entropy(p)
			continue
		}
		score(p, router.Data, stat)
		for e := 0; e < rows; e += 2 {
			softmax(p[e:e+2], p[e:e+2])
			r.entropy[item] += x.reach(r, item, level-1, e/2) * entropy(p[e:e+2])
		}
	}
}

// reach is the probability of a node: its own within its family times its parents'.
func (x *Mixture) reach(r *Routing, item, level, node int) float64 {
	p := 1.0
	for ; level >= 0; level-- {
		p *= float64(r.p[level][item*x.Routers[level].Shape[0]+node])
		node /= 2
	}
	return p
}

func softmax(dst, scores []float32) {
	most, sum := math.Inf(-1), 0.0
	for _, s := range scores {
		most = max(most, float64(s))
	}
	for _, s := range scores {
		sum += math.Exp(float64(s) - most)
	}
	for i, s := range scores {
		dst[i] = float32(math.Exp(float64(s)-most) / sum)
	}
}

func entropy(p []float32) float64 {
	h := 0.0
	for _, x := range p {
		if x > 0 {
			h -= float64(x) * math.Log(float64(x))
		}
	}
	return h
}

// backwardBalance adds the gradient of the balance loss, Balance * E * sum over
// experts of load * p, p averaged over the routed tokens, to the gradients of the
// scores of every level, dScores by level [items, rows]; it leaves the loss without
// its coefficient in r.balance.
func (m *Model) backwardBalance(x *Mixture, c *layerCache, a *Activations, dScores [][]float32) {
	r := &c.routing
	r.balance = 0
	if a.routed == 0 {
		return
	}
	experts := float64(x.Experts())
	for _, b := range a.blocks {
		if b.First() {
			continue
		}
		share := float64(b.Hi-b.Lo) / float64(a.routed)
		// From the leaves up: what is expected of the load below a node.
		value := a.value[:x.Experts()]
		copy(value, x.Load)
		for level := len(x.Routers) - 1; level >= 0; level-- {
			rows := x.Routers[level].Shape[0]
			p := r.p[level][b.Item*rows : (b.Item+1)*rows]
			group := rows
			if level > 0 {
				group = 2
			}
			for lo := 0; lo < rows; lo += group {
				mean, above := 0.0, 1.0
				for e := lo; e < lo+group; e++ {
					mean += float64(p[e]) * value[e]
				}
				if level > 0 {
					above = x.reach(r, b.Item, level-1, lo/2)
				}
				for e := lo; e < lo+group; e++ {
					dScores[level][b.Item*rows+e] += float32(m.MoE.Balance * experts * share * above * float64(p[e]) * (value[e] - mean))
				}
				value[lo/group] = mean
			}
		}
		r.balance += experts * share * value[0]
	}
}

// backwardRoute takes the gradients of the gates back through the router and the
// statistic: dGate [items, K] holds gate times its gradient. It writes the gradients
// of the routers and of the first-block vector, and adds that of the tokens that
// made the statistics to dNormed [N,D].
func (m *Model) backwardRoute(l *Layer, c *layerCache, a *Activations, dGate []float64, dNormed []float32) {
	x, r, d, k := l.Mixture, &c.routing, m.DModel, m.MoE.TopK
	for level, router := range x.Routers {
		clear(a.dScores[level][:a.items*router.Shape[0]])
	}
	families, scale := x.families(), m.MoE.gateScale()
	for item := range a.items {
		sum := 0.0
		for j := range k {
			sum += dGate[item*k+j]
		}
		for j, e := range r.chosen(item) {
			family := int(e) >> (len(x.Routers) - 1)
			p := float64(r.Gates[item*k+j]) / scale
			a.dScores[0][item*families+family] += float32(dGate[item*k+j] - p*sum)
		}
	}
	m.backwardBalance(x, c, a, a.dScores)
	var plus []float32
	for level, router := range x.Routers {
		rows := router.Shape[0]
		m.K.Gemm32(amx.TN, rows, d, a.items, a.dScores[level], rows, r.stat, d, nil, router.Grad, d)
		m.K.Gemm32(amx.NN, a.items, d, rows, a.dScores[level], rows, router.Data, d, plus, a.dStat, d)
		plus = a.dStat
	}
	copy(x.First.Grad, a.dStat[:d])
	m.backwardStatistic(a, dNormed)
}

// backwardStatistic adds to every row of dNormed [N,D] its share of the gradients of
// the means it was part of.
func (m *Model) backwardStatistic(a *Activations, dNormed []float32) {
	d := m.DModel
	clear(a.sum)
	for i := len(a.blocks) - 1; i > 0; i-- {
		b := a.blocks[i]
		if b.First() {
			clear(a.sum)
			continue
		}
		before := a.blocks[i-1]
		rows, seen := before.Hi-before.Lo, int(a.pos[b.Lo])
		if m.MoE.Statistic == WindowMean {
			clear(a.sum)
			seen = rows
		}
		for j, g := range a.dStat[b.Item*d : (b.Item+1)*d] {
			a.sum[j] += float32(float64(g) / float64(seen))
		}
		at := dNormed[before.Lo*d:]
		m.K.Gemm32(amx.NN, rows, d, 1, a.ones, 1, a.sum, d, at, at, d)
	}
}
