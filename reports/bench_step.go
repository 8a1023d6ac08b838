package reports

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"harness/runs"
)

// colouredParts is how many operations the bar of a step tells apart by colour; the
// last colour of the palette is left for none.
const colouredParts = 7

// newStep lays out the operations of a training step, the dearest first.
func newStep(b benchData) *Step {
	step := &Step{}
	ops := b.ops()
	start := 0.0
	rest := StepPart{Name: "the other operations"}
	for i, op := range ops {
		d := op.Detail
		row := StepOp{Key: op.key, Name: op.name, Share: share(d["share"]), Time: figureOf(op.Measurement), Calls: plainFigure(d["calls"]),
			GFLOP: plainFigure(d["gflop"]), GByte: plainFigure(d["gbyte"]), Bound: boundOf(d), OfBound: share(d["of_bound"])}
		if i < colouredParts {
			row.Colour = i + 1
			step.Bar = append(step.Bar, StepPart{op.name, start, row.Share, row.Colour})
		} else {
			rest.Size += row.Share
		}
		start += row.Share
		step.Ops = append(step.Ops, row)
	}
	if rest.Size > 0 {
		rest.Start = start - rest.Size
		step.Bar = append(step.Bar, rest)
	}
	const told = 1e-3 // less is rounding
	if left := 1 - start; len(ops) > 0 && left > told {
		step.Bar = append(step.Bar, StepPart{Name: "in no operation", Start: start, Size: left})
	}
	for _, m := range b.group(runs.GroupTrain) {
		if m.Detail["op"] == "" {
			step.Figures = append(step.Figures, StepFigure{m.Name, figureOf(m), stepNote(m)})
		}
	}
	return step
}

// stepOp is a measured operation under its letter in the plot.
type stepOp struct {
	runs.Measurement
	key, name string
}

// ops are the operations of a training step by their share of its time.
func (b benchData) ops() []stepOp {
	var ops []stepOp
	for _, m := range b.group(runs.GroupTrain) {
		if name := m.Detail["op"]; name != "" {
			ops = append(ops, stepOp{Measurement: m, name: name})
		}
	}
	slices.SortStableFunc(ops, func(x, y stepOp) int { return cmp.Compare(share(y.Detail["share"]), share(x.Detail["share"])) })
	for i := range ops {
		ops[i].key = letter(i)
	}
	return ops
}

// boundOf names what limits an operation, and of memory which level.
func boundOf(d map[string]string) string {
	if d["bound"] == runs.BoundBandwidth && d["level"] != "" {
		return d["bound"] + " of " + d["level"]
	}
	return d["bound"]
}

// stepNote explains a figure of the step by its details.
func stepNote(m runs.Measurement) string {
	d := m.Detail
	note := d["formula"]
	if m.N > 1 {
		note = "median of the steps"
	}
	if of := share(d["of_peak"]); of > 0 {
		note = join(note, percent(of)+" of the "+cmp.Or(d["peak"], "measured")+" peak")
	}
	if d["by_spec"] != "" {
		note = join(note, "by the spec, with each draw a column of its own and each position a target: "+plainFigure(d["by_spec"]))
	}
	if d["tokens"] != "" {
		note = join(note, grouped(d["tokens"])+" tokens")
	}
	return note
}

// plainFigure prints a number of a detail, other text as it is.
func plainFigure(text string) string {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return text
	}
	return threeDigits(v)
}
