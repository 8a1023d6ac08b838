package main

import (
	"fmt"
	"io"
	"math"
	"strconv"

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
		tokens = "unknown: the budget is " + v.spec.Budget.String() + " of wall clock, which a run calibrates; --tokens N plans for N tokens"
	case v.spec.Budget.Wall > 0:
		tokens += ", for a budget of " + v.spec.Budget.String() + " of wall clock"
	case l.Tokens != v.spec.Budget.Tokens:
		tokens += " by --tokens; the spec's budget is " + v.spec.Budget.String()
	}
	facts := [][2]string{
		{"experiment", v.spec.Name},
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
	"is all below 0.001, alive where it is above 0; n windows. gain: participation of its entries. unused: experts below 1% of an equal load."

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
