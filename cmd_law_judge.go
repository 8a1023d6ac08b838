package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"harness/experiments"
)

func (v *lawView) say(warning bool, format string, args ...any) {
	v.lines = append(v.lines, lawLine{warning, fmt.Sprintf(format, args...)})
}

// judge fills the lines.
func (v *lawView) judge() {
	if v.law == nil {
		return
	}
	l, stages := v.law, v.law.Stages()
	if l.Tokens == 0 {
		v.say(false, "The budget is %s of wall clock: how many tokens that are is not known before a run has calibrated. --tokens N plans for N.", v.spec.Budget)
	}
	v.another = v.run != nil && !v.sameShape()
	v.judgeStages(stages)
	if !slices.ContainsFunc(stages, func(p experiments.LawPoint) bool { return l.Verdict(p) != experiments.UnderLaw }) {
		v.say(false, "The law is kept: whenever mixtures grow and in the end, E is at most the bound and experts have had the tokens that tau asks.")
	}
	v.judgeGrowth()
	v.judgeRun()
}

// stand is how stages stand to the law: those that stand alike share a line.
type stand struct {
	verdict         experiments.LawVerdict
	warns, confirms bool // by its numbers; if not, by the run
}

// judgeStages says how the stages stand to the law.
func (v *lawView) judgeStages(stages []experiments.LawPoint) {
	alike, order := map[stand][]experiments.LawPoint{}, []stand{}
	for _, p := range stages {
		s := stand{v.law.Verdict(p), v.law.Warns(p), false}
		s.confirms = s.verdict == experiments.AboveLaw && !s.warns && v.confirmed(p) != ""
		if alike[s] == nil {
			order = append(order, s)
		}
		alike[s] = append(alike[s], p)
	}
	for _, s := range order {
		v.judgeAlike(s, alike[s], len(stages))
	}
}

// judgeAlike says how some of all stages stand, which stand alike.
func (v *lawView) judgeAlike(s stand, alike []experiments.LawPoint, all int) {
	l, square := v.law, v.law.TopK*v.law.TopK
	first, last := alike[0], alike[len(alike)-1]
	stage := func(p experiments.LawPoint) string {
		return fmt.Sprintf("E=%d at the %s (%s tokens)", p.Experts, p.What, tokensOrUnknown(p.Tokens))
	}
	over := func(of func(experiments.LawPoint) float64) string { return span(alike, of) }
	had := fmt.Sprintf("an expert has had %s tokens, %s per parameter, of the %s that tau asks", over(lineageOf),
		over(func(p experiments.LawPoint) float64 { return l.PerParameter(p.Lineage) }), figure(l.Tau))
	who, is, has, needs := stage(first), "is", "is more than", fmt.Sprintf("E=%d needs", first.Experts)
	if len(alike) > 1 {
		who = fmt.Sprintf("%d of %d stages, from %s to %s,", len(alike), all, stage(first), stage(last))
		is, has, needs = "are", "have more experts than", "they need"
	}
	bound, wants := over(func(p experiments.LawPoint) float64 { return p.Bound }), over(func(p experiments.LawPoint) float64 { return p.Needs })
	pace := over(func(p experiments.LawPoint) float64 { return p.Pace })
	if len(alike) == 1 {
		pace = fmt.Sprintf("%d/%d = %s", square, first.Experts, pace)
	}
	switch s.verdict {
	case experiments.UnknownLaw:
		v.say(false, "E=%d would need %s tokens; k^2/E = %s.", first.Experts, wants, pace)
	case experiments.ByLineage:
		v.say(false, "%s %s the bound of %s, but by their lineage %s.", who, has, bound, had)
	case experiments.AboveLaw:
		text := fmt.Sprintf("%s %s above the law: %s; the bound is %s, and %s %s tokens.", who, is, had, bound, needs, wants)
		if s.warns {
			text += fmt.Sprintf(" k^2/E = %s is below 1/4: an expert parameter sees %s times fewer tokens than a dense one; break-even is E = k^2 = %d.",
				pace, over(func(p experiments.LawPoint) float64 { return 1 / p.Pace }), square)
		}
		for _, p := range alike {
			if confirmed := v.confirmed(p); confirmed != "" && len(alike) > 1 {
				text += fmt.Sprintf(" At E=%d: %s", p.Experts, confirmed)
			} else if confirmed != "" {
				text += " " + confirmed
			}
		}
		v.say(s.warns || s.confirms, "%s", text)
	}
}

func lineageOf(p experiments.LawPoint) float64 { return p.Lineage }

// span is a figure of the points, or the least and the most of it.
func span(points []experiments.LawPoint, of func(experiments.LawPoint) float64) string {
	least, most := math.Inf(1), math.Inf(-1)
	for _, p := range points {
		least, most = min(least, of(p)), max(most, of(p))
	}
	if low, high := figure(least), figure(most); low != high {
		return low + " to " + high
	}
	return figure(least)
}

// judgeGrowth says which growth steps never happen, and which add nothing.
func (v *lawView) judgeGrowth() {
	var never, equal []string
	happens := false
	for i, g := range v.law.Growth {
		switch {
		case !g.Happens:
			never = append(never, fmt.Sprintf("%d at %s tokens", g.Experts, brief(float64(g.At))))
			continue
		case v.spec.Grow[i].Jitter == 0:
			equal = append(equal, strconv.Itoa(g.Experts))
		}
		happens = true
	}
	if len(never) > 0 {
		v.say(true, "Growth to %s never happens: training ends at %s tokens, without a step after it.", several(never), brief(float64(v.law.Tokens)))
	}
	if !happens || v.law.Method != "split" || v.spec.Model.MoE.Balance > 0 {
		return
	}
	text := "balance is 0: the router rows that a split adds pick a twin and gate nothing, and so get no gradient."
	if len(equal) > 0 {
		text += fmt.Sprintf(" At the growth to %s jitter is 0: the elder twin alone acts, and the younger is never trained.", several(equal))
	}
	v.say(false, "%s", text)
}

// several names the first and the last of a list.
func several(list []string) string {
	if n := len(list); n > 1 {
		return fmt.Sprintf("%s, and %d more up to %s,", list[0], n-1, list[n-1])
	}
	return list[0]
}

// sameShape reports whether the run trained what is planned, so far as the law goes.
func (v *lawView) sameShape() bool {
	r, l := v.run.Law, v.law
	return r != nil && r.TopK == l.TopK && r.ExpertParams == l.ExpertParams && slices.Equal(r.Layers, l.Layers) &&
		slices.ContainsFunc(l.Stages(), func(p experiments.LawPoint) bool { return p.Experts == v.run.Experts })
}

// evidence says which layers of the run show dead experts or a collapsed gain.
func evidence(r *experiments.RunExperts) string {
	var parts []string
	for _, h := range r.Layers {
		switch {
		case h.Life() == experiments.Dead:
			part := fmt.Sprintf("in layer %d the branch adds %s of the stream", h.Layer, small(h.Share))
			if !math.IsNaN(h.Swap) {
				part += fmt.Sprintf(" and swapping experts costs %s nats (%s to %s, n=%s)", small(h.Swap), small(h.SwapLow), small(h.SwapHigh), h.Windows)
			}
			parts = append(parts, part)
		case h.Collapsed():
			parts = append(parts, fmt.Sprintf("in layer %d the gain's participation is %s", h.Layer, gainOf(h)))
		}
	}
	return strings.Join(parts, "; ")
}

// wide says in which layers of the run the interval of the swap is too wide to tell, ""
// if in none.
func wide(r *experiments.RunExperts) string {
	var parts []string
	for _, h := range r.Layers {
		if h.Wide() {
			parts = append(parts, fmt.Sprintf("%s to %s nats (n=%s) in layer %d", small(h.SwapLow), small(h.SwapHigh), orUnknown(h.Windows), h.Layer))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "the interval is too wide of what swapping experts costs, " + strings.Join(parts, ", ")
}

// confirmed is how the run confirms that a stage has too many experts, or "".
func (v *lawView) confirmed(p experiments.LawPoint) string {
	if v.run == nil || v.another || v.run.Experts != p.Experts {
		return ""
	}
	if shown := evidence(v.run); shown != "" {
		return "Run " + v.run.Run.ID + " confirms it: " + shown + "."
	}
	return ""
}

// judgeRun says what the run shows where no stage has said it.
func (v *lawView) judgeRun() {
	r := v.run
	if r == nil {
		return
	}
	id := r.Run.ID
	shown := evidence(r)
	switch {
	case r.Law == nil:
		v.say(false, "Run %s trained a dense model: it says nothing about this plan.", id)
		return
	case v.another:
		v.say(false, "Run %s trained another shape (E=%d, k=%d, P_e=%s, layers %s): it neither confirms nor denies this plan.", id, r.Experts, r.Law.TopK, count(r.Law.ExpertParams), numbers(r.Law.Layers))
		return
	case r.Step == 0:
		v.say(false, "Run %s has no tables yet that say whether its experts live; they are written at its probes.", id)
		return
	}
	last := r.Last()
	have := fmt.Sprintf("with %s tokens per parameter of its experts", figure(r.Ratio()))
	switch {
	case r.Life == experiments.Alive && shown == "":
		v.say(false, "Run %s does not confirm that experts lack tokens: %s they are alive in all mixtures.", id, have)
	case r.Life == experiments.UnknownLife && shown == "" && wide(r) != "":
		v.say(false, "Run %s does not say whether its experts live: %s.", id, wide(r))
	case r.Life == experiments.UnknownLife && shown == "":
		v.say(false, "Run %s does not say whether its experts live: it has no routing ablations of step %s, which the last probe writes.", id, count(r.Step))
	case r.Law.Verdict(last) != experiments.AboveLaw:
		what := "dead experts"
		if r.Life != experiments.Dead {
			what = "a collapsed gain"
		}
		v.say(true, "Run %s has %s though the law is kept, %s: it is not tokens that they lack (norm_decay is %s). In it %s.", id, what, have, figure(r.Spec.Train.Optimizer.NormDecay), strings.TrimPrefix(shown, "in "))
	}
}
