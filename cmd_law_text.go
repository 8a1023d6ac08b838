package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"harness/experiments"
)

// figure is a number as tables of the law show it: three digits, or brief.
func figure(v float64) string {
	switch {
	case math.IsNaN(v):
		return "?"
	case math.Abs(v) >= 99.95:
		return brief(v)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func (v lawView) grown() bool { return len(v.law.Growth) > 0 }

func (v lawView) facts() [][2]string {
	l := v.law
	tokens := brief(float64(l.Tokens))
	switch {
	case l.Tokens == 0:
		tokens = "unknown: the budget is " + v.budget.String() + " of wall clock, which a run calibrates; --tokens N plans for N tokens"
	case v.budget.Wall > 0:
		tokens += ", for a budget of " + v.budget.String() + " of wall clock"
	case l.Tokens != v.budget.Tokens:
		tokens += " by --tokens; the spec's budget is " + v.budget.String()
	}
	facts := [][2]string{
		{"experiment", v.name},
		{"mixtures", fmt.Sprintf("in layers %s of %d; k=%d experts act, k^2=%d", numbers(l.Layers), l.Of, l.TopK, l.TopK*l.TopK)},
		{"one expert", fmt.Sprintf("3*d_model*d_ff = 3*%d*%d = %s parameters, P_e", l.DModel, l.DFF, count(l.ExpertParams))},
		{"tau", figure(l.Tau) + " tokens per expert parameter"},
		{"tokens", tokens},
	}
	if l.Tau == experiments.PaperTau {
		facts[3][1] += ", the paper's"
	}
	return facts
}

func (v lawView) legend() string {
	legend := "at: what ends or begins there. expert: tokens that one of the E has had by then, if routing is even; per param: that over P_e. " +
		"bound: the most experts that the law allows, tokens*k/(tau*P_e); needs: tokens that E needs, E*tau*P_e/k."
	switch {
	case !v.grown():
		return legend
	case v.law.Method == "insert_zero":
		return legend + " Inserted experts begin with nothing: the youngest are meant, and above is judged by them."
	}
	return legend + " Children of a split inherit what their parent saw: an expert's tokens are those of its lineage. " +
		"lineage: E is more than the bound for tokens, but its lineage has had enough."
}

func (v lawView) writePoints(w io.Writer, width int) {
	var rows []table.Row
	for _, p := range v.law.Points {
		rows = append(rows, table.Row{p.What, tokensOrUnknown(p.Tokens), p.Experts, figure(p.Lineage), figure(v.law.PerParameter(p.Lineage)),
			figure(p.Bound), figure(p.Needs), pace(p), string(v.law.Verdict(p))})
	}
	writeTable(w, width, table.Row{"at", "tokens", "E", "expert", "per param", "bound", "needs", "k^2/E", "law"}, rows,
		"tokens", "E", "expert", "per param", "bound", "needs", "k^2/E")
}

// pace is k^2/E as a table has room for it.
func pace(p experiments.LawPoint) string {
	if p.Pace < 0.1 {
		return strconv.FormatFloat(p.Pace, 'g', 2, 64)
	}
	return figure(p.Pace)
}

func tokensOrUnknown(n int64) string {
	if n == 0 {
		return "?"
	}
	return brief(float64(n))
}

// writeStages prints what experts have had in the stage alone.
func (v lawView) writeStages(w io.Writer, width int) {
	var rows []table.Row
	for _, p := range v.law.Points {
		rows = append(rows, table.Row{p.What, p.Experts, tokensOrUnknown(p.StageTokens), figure(p.Own), figure(v.law.PerParameter(p.Own))})
	}
	writeTable(w, width, table.Row{"at", "E", "in the stage", "expert", "per param"}, rows, "E", "in the stage", "expert", "per param")
}

// writeGrowth prints from when on the law would allow each growth step.
func (v lawView) writeGrowth(w io.Writer, width int) {
	var rows []table.Row
	for _, g := range v.law.Growth {
		what := "allowed"
		switch late := g.AllowedFrom - float64(g.At); {
		case !g.Happens:
			what = "never: training ends first"
		case late > 0 && v.law.Tokens > 0 && g.AllowedFrom > float64(v.law.Tokens):
			what = "not within training"
		case late > 0:
			what = figure(late) + " too early"
		}
		rows = append(rows, table.Row{g.Experts, brief(float64(g.At)), figure(g.AllowedFrom), figure(g.OwnFrom), what})
	}
	writeTable(w, width, table.Row{"grows to", "at", "bound allows from", "tau of their own by", "by the bound"}, rows, "grows to", "at", "bound allows from", "tau of their own by")
}

// mixtureLegend explains writeMixtures.
const mixtureLegend = "share: of the stream that the branch adds, dead below 0.01. swap: nats a token that other experts cost, dead where its interval " +
	"is not above 0 or all below 0.001; n windows. gain: participation of its entries. unused: experts below 1% of an equal load."

// writeMixtures prints what tables of a run show, a row for every mixture.
func writeMixtures(w io.Writer, layers []experiments.MixtureHealth, width int) {
	var rows []table.Row
	for _, h := range layers {
		rows = append(rows, table.Row{h.Layer, small(h.Share), small(h.Swap), small(h.SwapLow) + " to " + small(h.SwapHigh), orUnknown(h.Windows),
			gainOf(h), orUnknown(figure(h.Dead)), string(h.Life())})
	}
	writeTable(w, width, table.Row{"layer", "share", "swap", "95% interval", "n", "gain", "unused", "experts"}, rows, "layer", "share", "swap", "95% interval", "n", "gain", "unused")
}

func gainOf(h experiments.MixtureHealth) string {
	if math.IsNaN(h.Of) {
		return "?"
	}
	return figure(h.Participation) + " of " + figure(h.Of)
}

// small is a share or a cost; four decimals tell what matters.
func small(v float64) string {
	if math.IsNaN(v) {
		return "?"
	}
	return strconv.FormatFloat(v, 'f', 4, 64)
}

func orUnknown(s string) string {
	if s == "" {
		return "?"
	}
	return visible(s)
}

func (v *lawView) say(warning bool, format string, args ...any) {
	v.lines = append(v.lines, lawLine{warning, fmt.Sprintf(format, args...)})
}

// judge fills the lines.
func (v *lawView) judge() {
	if v.dense {
		return
	}
	l, stages := v.law, v.law.Stages()
	if l.Tokens == 0 {
		v.say(false, "The budget is %s of wall clock: how many tokens that are is not known before a run has calibrated. --tokens N plans for N.", v.budget)
	}
	if v.unused {
		v.say(true, "route_block is no less than sequence: all blocks are the first of a document, which a learned vector routes, and the router is never used.")
	}
	v.another = v.run != nil && !v.sameShape()
	for _, p := range stages {
		v.judgeStage(p)
	}
	if !slices.ContainsFunc(stages, func(p experiments.LawPoint) bool { return l.Verdict(p) != experiments.UnderLaw }) {
		v.say(false, "The law is kept: whenever mixtures grow and in the end, E is at most the bound and experts have had the tokens that tau asks.")
	}
	for _, g := range l.Growth {
		if !g.Happens {
			v.say(true, "Growth to %d at %s tokens never happens: training ends at %s.", g.Experts, brief(float64(g.At)), brief(float64(l.Tokens)))
		}
	}
	v.judgeRun()
}

// judgeStage says how a stage stands to the law.
func (v *lawView) judgeStage(p experiments.LawPoint) {
	l, confirmed := v.law, v.confirmed(p)
	verdict := l.Verdict(p)
	stage := fmt.Sprintf("E=%d at the %s (%s tokens)", p.Experts, p.What, tokensOrUnknown(p.Tokens))
	have := fmt.Sprintf("an expert has had %s tokens, %s per parameter, of the %s that tau asks", figure(p.Lineage), figure(l.PerParameter(p.Lineage)), figure(l.Tau))
	switch verdict {
	case experiments.UnknownLaw:
		v.say(false, "E=%d would need %s tokens; k^2/E = %d/%d = %s.", p.Experts, figure(p.Needs), l.TopK*l.TopK, p.Experts, figure(p.Pace))
	case experiments.ByLineage:
		v.say(false, "%s is more than the bound of %s, but by their lineage %s.", stage, figure(p.Bound), have)
	case experiments.AboveLaw:
		text := fmt.Sprintf("%s is above the law: %s; the bound is %s, and E=%d needs %s tokens.", stage, have, figure(p.Bound), p.Experts, figure(p.Needs))
		if l.Warns(p) {
			text += fmt.Sprintf(" k^2/E = %d/%d = %s is below 1/4: an expert parameter sees %s times fewer tokens than a dense one; break-even is E = k^2 = %d.",
				l.TopK*l.TopK, p.Experts, figure(p.Pace), figure(1/p.Pace), l.TopK*l.TopK)
		}
		if confirmed != "" {
			text += " " + confirmed
		}
		v.say(l.Warns(p) || confirmed != "", "%s", text)
	}
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
	case r.Life == experiments.UnknownLife && shown == "":
		v.say(false, "Run %s does not say whether its experts live: it has no routing ablations of step %s, which the last probe writes.", id, count(r.Step))
	case r.Law.Verdict(last) != experiments.AboveLaw:
		v.say(true, "Run %s has dead experts though the law is kept, %s: it is not tokens that they lack (norm_decay is %s). In it %s.", id, have, figure(r.Spec.Train.Optimizer.NormDecay), strings.TrimPrefix(shown, "in "))
	}
}
