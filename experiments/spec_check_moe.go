package experiments

import (
	"fmt"

	"harness/nn"
)

// checkMoE finds contradictions in the mixtures of experts and in their growth.
func (d *decoder) checkMoE(s *Spec) {
	moe := s.Model.MoE
	first := map[int]int{}
	for i, layer := range moe.Layers {
		path := fmt.Sprintf("model.moe.layers[%d]", i)
		if !d.sound(path, "model.layers") {
			continue
		}
		if n := len(s.Model.Layers); layer >= n {
			d.fail(d.culprit(path, "model.layers"), "there is no layer %d: model.layers has %d, 0 to %d", layer, n, n-1)
		}
		if before, twice := first[layer]; twice {
			d.fail(path, "layer %d is model.moe.layers[%d] already", layer, before)
		} else {
			first[layer] = i
		}
	}
	const experts, topK = "model.moe.experts", "model.moe.top_k"
	if d.sound(experts, topK) && moe.TopK > moe.Experts {
		d.fail(d.culprit(topK, experts), "top_k %d is more than experts, which is %d", moe.TopK, moe.Experts)
	}
	const shared, width = "model.moe.shared", "model.moe.shared_d_ff"
	if d.sound(shared, width) && moe.SharedDFF > 0 && moe.Shared == 0 {
		d.fail(d.culprit(width, shared), "a width of %d, but shared is 0: there are no shared experts", moe.SharedDFF)
	}
	const block, sequence = "model.moe.route_block", "train.sequence"
	if len(moe.Layers) > 0 && d.sound(block, sequence) && moe.RouteBlock >= s.Train.Sequence {
		d.fail(d.culprit(block, sequence), "route_block %d leaves one block of a window of sequence %d tokens, whose first block a learned vector routes: the router would never be used; want route_block at most %d, or sequence at least %d",
			moe.RouteBlock, s.Train.Sequence, s.Train.Sequence-1, moe.RouteBlock+1)
	}
	if len(s.Grow) > 0 && len(moe.Layers) == 0 && d.sound("model.moe.layers") {
		d.fail(d.culprit("grow", "model.moe.layers"), "there is nothing to grow: model.moe.layers names no layer")
		return
	}
	for i := range s.Grow {
		d.checkGrowthTime(s, i)
		d.checkGrowthSize(s, i)
	}
}

// checkGrowthTime makes sure that a growth step comes in its turn, and that something
// is trained after it.
func (d *decoder) checkGrowthTime(s *Spec, i int) {
	at, tokens := fmt.Sprintf("grow[%d].at", i), func(n int64) string { return Budget{Tokens: n}.String() }
	if !d.sound(at) {
		return
	}
	grown := s.Grow[i].At
	if i > 0 {
		if before := fmt.Sprintf("grow[%d].at", i-1); d.sound(before) && grown <= s.Grow[i-1].At {
			d.fail(d.culprit(at, before), "%s tokens are not after the growth before, which is at %s", tokens(grown), tokens(s.Grow[i-1].At))
		}
	}
	step, budget := int64(s.Train.StepTokens), s.Budget.Tokens
	if !d.sound("budget", "train.step_tokens") || budget == 0 {
		return
	}
	// Growth waits for the end of a step; without overflow, at being up to 1e15.
	if steps := (budget + step - 1) / step; (grown+step-1)/step >= steps {
		d.fail(d.culprit(at, "budget"), "%s tokens: the budget of %s ends before a step is trained after that, want at most %s",
			tokens(grown), s.Budget, tokens((steps-1)*step))
	}
}

// checkGrowthSize makes sure that a growth step can make as many experts as it says.
// There are never fewer than top_k then: growth only adds to what there was.
func (d *decoder) checkGrowthSize(s *Spec, i int) {
	experts, method := fmt.Sprintf("grow[%d].experts", i), fmt.Sprintf("grow[%d].method", i)
	had, before := s.Model.MoE.Experts, "model.moe.experts"
	if i > 0 {
		had, before = s.Grow[i-1].Experts, fmt.Sprintf("grow[%d].experts", i-1)
	}
	g := s.Grow[i]
	switch {
	case !d.sound(experts, before, method):
	case g.Experts <= had:
		d.fail(d.culprit(experts, before), "%d experts are not more than the %d before", g.Experts, had)
	case g.Method != nn.InsertZero && !isDoubling(had, g.Experts):
		d.fail(d.culprit(experts, before), "%s makes 2, 4, 8, ... of each of %d experts, want %d, %d or %d and so on, not %d",
			g.Method, had, 2*had, 4*had, 8*had, g.Experts)
	}
	if i > 0 && d.sound(method, "grow[0].method") && g.Method != s.Grow[0].Method {
		d.fail(d.culprit(method, "grow[0].method"), "%s after %s: a spec grows by one method, for families nest under split alone",
			g.Method, s.Grow[0].Method)
	}
}

// isDoubling reports whether more is n times 2, 4, 8, ...
func isDoubling(n, more int) bool {
	for n > 0 && n < more {
		n *= 2
	}
	return n == more
}
