package experiments

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// TauBracket is what a set of runs says of tau, the tokens per expert parameter below
// which experts stay dead. It is an interval at best: between the dead run that had
// most and the alive run that had least nothing was tried.
type TauBracket struct {
	Alive, Dead []*RunExperts // by rising ratio
	Left        []*RunExperts // dense, or no table says, or not surely, whether their experts live
}

// MeasureTau sorts runs by whether their experts live.
func MeasureTau(all []*RunExperts) (b TauBracket) {
	for _, r := range all {
		switch {
		case r.Life == UnknownLife || math.IsNaN(r.Ratio()):
			b.Left = append(b.Left, r)
		case r.Life == Dead:
			b.Dead = append(b.Dead, r)
		default:
			b.Alive = append(b.Alive, r)
		}
	}
	byRatio := func(x, y *RunExperts) int { return cmp.Compare(x.Ratio(), y.Ratio()) }
	slices.SortStableFunc(b.Alive, byRatio)
	slices.SortStableFunc(b.Dead, byRatio)
	return b
}

// MostDead is the dead run with most tokens per parameter; nil if none is dead.
func (b TauBracket) MostDead() *RunExperts {
	if len(b.Dead) == 0 {
		return nil
	}
	return b.Dead[len(b.Dead)-1]
}

// LeastAlive is the alive run with fewest tokens per parameter; nil if none is alive.
func (b TauBracket) LeastAlive() *RunExperts {
	if len(b.Alive) == 0 {
		return nil
	}
	return b.Alive[0]
}

// Overlap reports whether a dead run had as many tokens per parameter as an alive
// one, or more: then no threshold separates them.
func (b TauBracket) Overlap() bool {
	dead, alive := b.MostDead(), b.LeastAlive()
	return dead != nil && alive != nil && dead.Ratio() >= alive.Ratio()
}

// Differences names what besides size and tokens is not the same in all judged runs,
// and so may be what killed experts.
func (b TauBracket) Differences() (keys []string) {
	all := slices.Concat(b.Alive, b.Dead)
	for _, d := range []struct {
		key string
		of  func(*Spec) any
	}{
		{"model.activation", func(s *Spec) any { return s.Model.Activation }},
		{"model.moe.top_k", func(s *Spec) any { return s.Model.MoE.TopK }},
		{"model.moe.statistic", func(s *Spec) any { return s.Model.MoE.Statistic }},
		{"model.moe.route_block", func(s *Spec) any { return s.Model.MoE.RouteBlock }},
		{"model.moe.gate_scale", func(s *Spec) any { return s.Model.MoE.GateScale }},
		{"grow.method", func(s *Spec) any {
			if len(s.Grow) == 0 {
				return nil
			}
			return s.Grow[0].Method
		}},
		{"corpus", func(s *Spec) any { return fmt.Sprint(s.Corpus) }},
		{"train.sequence", func(s *Spec) any { return s.Train.Sequence }},
		{"train.step_tokens", func(s *Spec) any { return s.Train.StepTokens }},
		{"model.moe.balance", func(s *Spec) any { return s.Model.MoE.Balance }},
		{"train.optimizer.lr", func(s *Spec) any { return s.Train.Optimizer.LR }},
		{"train.optimizer.weight_decay", func(s *Spec) any { return s.Train.Optimizer.WeightDecay }},
		{"train.optimizer.norm_decay", func(s *Spec) any { return s.Train.Optimizer.NormDecay }},
	} {
		if slices.ContainsFunc(all, func(r *RunExperts) bool { return d.of(r.Spec) != d.of(all[0].Spec) }) {
			keys = append(keys, d.key)
		}
	}
	return keys
}
