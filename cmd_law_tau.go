package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"harness/experiments"
	"harness/runs"
)

// tauView is what plan --measure-tau prints.
type tauView struct {
	experiments.TauBracket
	all []runs.Run // of the store, to name runs shortly
}

func (v tauView) ref(r *experiments.RunExperts) string { return shortID(v.all, r.Run.ID) }

// judged are the runs that count, by rising tokens per parameter.
func (v tauView) judged() []*experiments.RunExperts {
	judged := slices.Concat(v.Dead, v.Alive)
	slices.SortStableFunc(judged, func(x, y *experiments.RunExperts) int {
		switch {
		case x.Ratio() < y.Ratio():
			return -1
		case x.Ratio() > y.Ratio():
			return 1
		}
		return 0
	})
	return judged
}

const tauLegend = "per param: tokens that an expert has had over its lineage, if routing is even, over its parameters P_e. experts: dead if those of any layer are. "

func (v tauView) write(w io.Writer, width int) {
	judged := v.judged()
	if len(judged) > 0 {
		var rows []table.Row
		for _, r := range judged {
			rows = append(rows, table.Row{v.ref(r), shorten(visible(r.Run.Name), 16), r.Run.Seed, r.Experts, r.Law.TopK, brief(float64(r.Law.ExpertParams)),
				brief(float64(r.Tokens)), figure(r.Ratio()), string(r.Life)})
		}
		writeTable(w, width, table.Row{"run", "name", "seed", "E", "k", "P_e", "tokens", "per param", "experts"}, rows, "seed", "E", "k", "P_e", "tokens", "per param")
		for _, r := range judged {
			fmt.Fprintf(w, "\nrun %s at step %s\n", v.ref(r), count(r.Step))
			writeMixtures(w, r.Layers, width)
		}
		fmt.Fprintln(w, "\n"+wrapped(tauLegend+mixtureLegend, width, "")+"\n")
	}
	writeItems(w, width, v.verdict())
}

// verdict is what the runs say of tau, in sentences.
func (v tauView) verdict() (lines []string) {
	dead, alive := v.MostDead(), v.LeastAlive()
	n := len(v.Dead) + len(v.Alive)
	of := func(r *experiments.RunExperts) string { return fmt.Sprintf("%s (run %s)", figure(r.Ratio()), v.ref(r)) }
	counted := fmt.Sprintf("n=%d, %d dead and %d alive, %s", n, len(v.Dead), len(v.Alive), v.seeds())
	switch {
	case n == 0:
		lines = append(lines, "No run says anything about tau.")
	case v.Overlap():
		lines = append(lines, fmt.Sprintf("No threshold separates them: experts are dead at %s tokens per parameter and alive at %s; %s.", of(dead), of(alive), counted))
	case dead == nil:
		lines = append(lines, fmt.Sprintf("All are alive: tau is at most %s tokens per parameter, the fewest that any had; there is no lower bound; %s.", of(alive), counted))
	case alive == nil:
		lines = append(lines, fmt.Sprintf("All are dead: tau is more than %s tokens per parameter, the most that any had; there is no upper bound; %s.", of(dead), counted))
	default:
		lines = append(lines, fmt.Sprintf("tau lies between %s and %s tokens per parameter: the most that a dead run had and the fewest that an alive one had; %s.", of(dead), of(alive), counted))
	}
	if n > 0 && !v.Overlap() {
		lines = append(lines, v.paper())
	}
	if keys := v.Differences(); len(keys) > 0 {
		lines = append(lines, "The runs differ in "+strings.Join(keys, ", ")+" too: these, and not tokens, may be what killed experts.")
	}
	for _, r := range v.Left {
		why := "no table of its last probe says whether its experts live"
		switch {
		case r.Law == nil:
			why = "its model is dense"
		case r.Step == 0:
			why = "it has no tables yet"
		case wide(r) != "":
			why = wide(r)
		}
		lines = append(lines, fmt.Sprintf("Run %s (%s) is left out: %s.", v.ref(r), r.Run.Name, why))
	}
	return lines
}

// seeds counts what the runs drew: runs of one seed are hardly several.
func (v tauView) seeds() string {
	seen := map[int64]bool{}
	for _, r := range v.judged() {
		seen[r.Run.Seed] = true
	}
	if len(seen) == 1 {
		return "1 seed"
	}
	return fmt.Sprintf("%d seeds", len(seen))
}

// paper compares with the paper's figure, where the runs can.
func (v tauView) paper() string {
	const tau = experiments.PaperTau
	switch dead, alive := v.MostDead(), v.LeastAlive(); {
	case dead != nil && dead.Ratio() >= tau:
		return fmt.Sprintf("The paper's %d is too low for these.", tau)
	case alive != nil && alive.Ratio() < tau:
		return fmt.Sprintf("The paper's %d is more than these need.", tau)
	}
	return fmt.Sprintf("The paper's %d is not ruled out.", tau)
}
