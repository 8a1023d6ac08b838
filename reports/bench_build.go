package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"harness/runs"
)

func newBenchPage(bench runs.Bench) BenchPage {
	b := newBenchData(bench)
	page := BenchPage{Kind: bench.Kind, Machine: b.cpu(), Plot: newRoofline(b), Gemms: gemmTable(b), Limits: limits(b)}
	page.Provenance, page.Libraries = provenance(runs.Run{Provenance: bench.Provenance})
	if bench.Kind == runs.BenchTrain {
		page.Title = "A training step of " + b.spec()
		page.Step = newStep(b)
		page.Paper = paperTraining(b)
	} else {
		page.Title = "What this core can do"
		page.Paper = paperComparison(b)
	}
	page.Facts = benchFacts(b)
	return page
}

// benchFacts are the figures a reader looks for first.
func benchFacts(b benchData) []Fact {
	p := b.bench.Provenance
	fact := func(label string, m runs.Measurement, ok bool, more string) Fact {
		if !ok {
			return Fact{}
		}
		f := figureOf(m)
		return Fact{Label: label, Value: f.Value, Note: strings.TrimPrefix(more+"; "+f.Spread, "; ")}
	}
	var facts []Fact
	if b.bench.Kind == runs.BenchTrain {
		for _, name := range []string{runs.TrainThroughput, runs.TrainFlops, runs.TrainRate, runs.TrainStep} {
			m, ok := b.named(runs.GroupTrain, name)
			facts = append(facts, fact(name, m, ok, stepNote(m)))
		}
	} else {
		best, ok := b.best(func(gemm) bool { return true })
		facts = append(facts, fact("fastest GEMM", best.Measurement, ok, gemmNote(best)))
		fp32, ok := b.named(runs.GroupPeak, "fp32")
		facts = append(facts, fact("fp32 peak", fp32, ok, "from registers"))
		floor := b.group(runs.GroupDispatch)
		if len(floor) > 0 {
			facts = append(facts, fact("dispatch floor", floor[0], true, floor[0].Name))
		}
	}
	for i, m := range b.group(runs.GroupFrequency) {
		if i == 0 {
			facts = append(facts, fact("frequency", m, true, m.Name))
		}
	}
	facts = append(facts, Fact{"CPU", p["cpu"], coreNote(p["core"])}, Fact{"kernels", p["kernels"], choiceNote(p)}, Fact{"AMX", p["amx"], ""}, codeFact(p),
		Fact{"measured", minute(b.bench.Started), ""}, Fact{"bench", b.bench.ID, ""})
	return slices.DeleteFunc(facts, func(f Fact) bool { return f.Value == "" })
}

// choiceNote is why auto takes the kernels, "" where somebody named them.
func choiceNote(p map[string]string) string {
	why, is := strings.CutPrefix(p["kernels_choice"], p["kernels"]+" (")
	if !is {
		return ""
	}
	return strings.TrimSuffix(why, ")")
}

func coreNote(core string) string {
	if core == "" {
		return ""
	}
	return "core " + core
}

func gemmNote(g gemm) string {
	note := fmt.Sprintf("%s, %s", g.set, shapeName(g.shape()))
	if g.ofPeak > 0 {
		note += ", " + percent(g.ofPeak) + " of the " + g.arithmetic + " peak"
		if peak := plainFigure(g.Detail["peak"]); peak != "" {
			note += " then, " + peak
		}
	}
	return note
}

// shapeName writes M×K×N, the order in which the paper gives its shapes.
func shapeName(shape [3]int) string {
	return fmt.Sprintf("%s×%s×%s", humanize.Comma(int64(shape[0])), humanize.Comma(int64(shape[1])), humanize.Comma(int64(shape[2])))
}

// limits lists what the core can do at most, as measured.
func limits(b benchData) []LimitGroup {
	var groups []LimitGroup
	for _, g := range []struct{ group, title string }{
		{runs.GroupFrequency, "Frequency"}, {runs.GroupPeak, "Arithmetic, from registers"},
		{runs.GroupBandwidth, "Read bandwidth"}, {runs.GroupDispatch, "Dispatch of one call"},
	} {
		group := LimitGroup{Title: g.title}
		for _, m := range b.group(g.group) {
			row := LimitRow{Name: m.Name, Figure: figureOf(m)}
			for _, key := range sortedKeys(m.Detail) {
				value := m.Detail[key]
				if key == "median" || value == "" {
					continue // it stands in the spread
				}
				if size, err := strconv.ParseUint(value, 10, 63); err == nil && key == "bytes" {
					key, value = "from", humanize.IBytes(size)
				}
				row.Detail = join(row.Detail, key+" "+value)
			}
			group.Rows = append(group.Rows, row)
		}
		if group.Rows != nil {
			groups = append(groups, group)
		}
	}
	return groups
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// gemmTable has the shapes' letters from the plot, which numbers them the same way.
func gemmTable(b benchData) *GemmTable {
	shapes := b.shapes()
	if len(shapes) == 0 {
		return nil
	}
	table := &GemmTable{Sets: b.sets()}
	for i, shape := range shapes {
		g := shape[0]
		row := GemmRow{Key: letter(i), Shape: shapeName(g.shape()), Work: strings.TrimPrefix(g.Detail["where"]+"; "+threeDigits(g.flop()/1e6)+" MFLOP", "; "), Cells: make([]*GemmCell, len(table.Sets))}
		best, _ := shape.best(func(gemm) bool { return true })
		for _, g := range shape {
			row.Cells[slices.Index(table.Sets, g.set)] = &GemmCell{Figure: figureOf(g.Measurement), Packed: plainFigure(g.Detail["packed"]), Share: g.ofPeak, Peak: plainFigure(g.Detail["peak"]), Best: g.set == best.set}
		}
		title := transTitle(g.trans)
		at := slices.IndexFunc(table.Groups, func(group GemmGroup) bool { return group.Title == title })
		if at < 0 {
			at = len(table.Groups)
			table.Groups = append(table.Groups, GemmGroup{Title: title})
		}
		table.Groups[at].Rows = append(table.Groups[at].Rows, row)
	}
	return table
}

// transTitle says where in a step the products of a pair of transpositions occur.
func transTitle(trans string) string {
	switch trans {
	case "NN":
		return "NN: a layer's forward"
	case "NT":
		return "NT: gradient of its input, dX"
	case "TN":
		return "TN: gradient of its weights, dW"
	}
	return cmp.Or(trans, "GEMM")
}

// letter names the i-th shape or operation in plot and tables: A to Z, then A2 and on.
func letter(i int) string {
	const letters = 26
	name := string(rune('A' + i%letters))
	if i >= letters {
		name += strconv.Itoa(i/letters + 1)
	}
	return name
}
