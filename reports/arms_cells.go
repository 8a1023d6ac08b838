package reports

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// ArmColumn is a column of the comparison as text, a cell per arm. Cells are as
// recorded: whoever prints them makes them safe.
type ArmColumn struct {
	Name  string
	Right bool
	Cells []string
}

// Columns is the comparison as one table.
func (page ArmsPage) Columns() []ArmColumn {
	column := func(name string, right bool, cell func(Arm) string) ArmColumn {
		c := ArmColumn{Name: name, Right: right}
		for _, a := range page.Arms {
			c.Cells = append(c.Cells, cell(a))
		}
		return c
	}
	columns := []ArmColumn{
		column("arm", false, func(a Arm) string { return a.Name }),
		column("validation", true, func(a Arm) string { return a.Loss.text(nats) }),
	}
	if page.Baseline != "" && len(page.Arms) > 1 {
		columns = append(columns,
			column("less baseline", true, page.difference),
			column("verdict", false, func(a Arm) string { return a.Difference.Reading() }))
	}
	columns = append(columns,
		column("seeds", true, func(a Arm) string { return strconv.Itoa(len(a.Runs)) }),
		column("tokens", true, func(a Arm) string { return a.each(func(r ArmRun) string { return tick(round(float64(r.Tokens), 4)) }) }),
		column("stored", true, func(a Arm) string { return a.each(func(r ArmRun) string { return parameters(r.Stored) }) }),
		column("active body", true, func(a Arm) string { return a.each(func(r ArmRun) string { return parameters(r.Active) }) }),
		column("tokens/s", true, Arm.speedText),
		column("time", true, func(a Arm) string { return elapsed(a.time()) }))
	for i, task := range page.Tasks {
		columns = append(columns, column(task.heading(), true, func(a Arm) string { return a.Scores[i].cell(task) }))
	}
	return columns
}

// Key explains the columns.
func (page ArmsPage) Key() string {
	key := "validation: final loss in nats per token, mean over seeds ± half of the 95% t interval"
	if page.Baseline != "" && len(page.Arms) > 1 {
		key += "; less baseline: mean difference to " + page.Baseline + ", paired by seed, with its own interval (n: pairs, where not all seeds have one); verdict: only where that interval leaves 0 out"
	}
	key += "; active body: parameters that act on a token, embedding rows aside; tokens/s: median of training, and over runs; time: mean wall time of a run, validation and probes included"
	if len(page.Tasks) > 0 {
		key += "; tasks: final score and its 95% interval, Wilson's for one run of n prompts and t over seeds for more, with + above chance, - below it, = not told from it"
	}
	return key + "."
}

// nats prints a loss with as many digits as an experiment can tell apart.
func nats(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }

// signed prints a difference of losses.
func signed(v float64) string { return fmt.Sprintf("%+.4f", v) }

// text prints the mean and half its interval.
func (e Estimate) text(print func(float64) string) string {
	if e.N == 0 {
		return ""
	}
	return strings.TrimSpace(print(e.Mean) + " " + e.halfText())
}

// halfText prints half the interval, "" if there is none.
func (e Estimate) halfText() string {
	if math.IsNaN(e.Half) {
		return ""
	}
	return "±" + nats(e.Half)
}

// difference is an arm's difference to the baseline in a cell.
func (page ArmsPage) difference(a Arm) string {
	switch {
	case a.Name == page.Baseline:
		return "baseline"
	case a.Difference.N == 0:
		return a.Difference.Why
	}
	text := a.Difference.text(signed)
	if a.Difference.N != len(a.Runs) {
		text += fmt.Sprintf(" (n %d)", a.Difference.N)
	}
	return text
}

// parameters prints a count of them, "" where it is not known.
func parameters(n int64) string {
	if n == 0 {
		return ""
	}
	return tick(round(float64(n), 3))
}

// speedText prints an arm's speed, with a sign where it was not alone.
func (a Arm) speedText() string {
	median, shared := a.speed()
	switch {
	case math.IsNaN(median):
		return ""
	case shared:
		return humanize.Comma(int64(math.Round(median))) + "†"
	}
	return humanize.Comma(int64(math.Round(median)))
}

// heading names a task and says what all arms have in common.
func (t Task) heading() string {
	var common []string
	if finite(t.Chance) {
		common = append(common, "chance "+ScoreRow{}.text(t.Chance))
	}
	if t.N > 0 {
		common = append(common, "n "+humanize.Comma(int64(t.N)))
	}
	if len(common) == 0 {
		return t.Name
	}
	return t.Name + " (" + strings.Join(common, ", ") + ")"
}

// cell prints a score with its interval and the sign of its verdict, and what the
// heading could not say.
func (r ScoreRow) cell(task Task) string {
	if math.IsNaN(r.Value) {
		return ""
	}
	cell := r.Figure()
	if finite(r.Low) && finite(r.High) {
		cell += " " + strings.TrimSuffix(r.text(r.Low), "%") + "–" + r.text(r.High)
	}
	switch v := r.Verdict(); {
	case strings.HasPrefix(v, "above"):
		cell += " +"
	case strings.HasPrefix(v, "below"):
		cell += " -"
	case v != "":
		cell += " ="
	}
	var own []string
	if !finite(task.Chance) {
		own = append(own, "chance "+r.Guessing())
	}
	if task.N == 0 {
		own = append(own, "n "+humanize.Comma(int64(r.N)))
	}
	if len(own) > 0 {
		cell += " (" + strings.Join(own, ", ") + ")"
	}
	return cell
}

// Markdown writes the comparison as a table to paste into a document, with what is to
// be minded and the runs behind every row.
func (page ArmsPage) Markdown(w io.Writer) error {
	var b strings.Builder
	row := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	columns := page.Columns()
	var names, rules []string
	for _, c := range columns {
		names = append(names, markdown(c.Name))
		if c.Right {
			rules = append(rules, "---:")
		} else {
			rules = append(rules, "---")
		}
	}
	row(names)
	row(rules)
	for i := range page.Arms {
		var cells []string
		for _, c := range columns {
			cells = append(cells, markdown(c.Cells[i]))
		}
		row(cells)
	}
	b.WriteString("\n" + markdown(page.Key()) + "\n")
	list := func(title string, items []string) {
		if len(items) == 0 {
			return
		}
		b.WriteString("\n" + title + ":\n\n")
		for _, item := range items {
			b.WriteString("* " + markdown(item) + "\n")
		}
	}
	list("To be minded", page.Notes)
	list("Runs", page.RunLines(func(id string) string { return id }))
	list("Left out", page.LeftOutLines(func(id string) string { return id }))
	_, err := io.WriteString(w, b.String())
	return err
}

// markdown makes text one harmless cell or line.
func markdown(text string) string {
	return strings.NewReplacer("\n", " ", `\`, `\\`, "|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`).Replace(visible(text))
}

// RunLines names the runs behind every arm; id prints an id.
func (page ArmsPage) RunLines(id func(string) string) []string {
	var lines []string
	for _, a := range page.Arms {
		var parts []string
		for _, r := range a.Runs {
			parts = append(parts, fmt.Sprintf("seed %d %s", r.Seed, id(r.ID)))
		}
		lines = append(lines, a.Name+": "+strings.Join(parts, ", "))
	}
	return lines
}

// LeftOutLines names the runs that do not count.
func (page ArmsPage) LeftOutLines(id func(string) string) []string {
	var lines []string
	for _, l := range page.LeftOut {
		lines = append(lines, fmt.Sprintf("%s: seed %d %s, %s", l.Arm, l.Seed, id(l.ID), l.Why))
	}
	return lines
}
