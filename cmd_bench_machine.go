package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"harness/amx"
	"harness/reports"
)

// notStored stands for the id of a bench that the store did not take.
const notStored = "not stored"

// write prints the tables of a bench, with the paper's figures if there are any.
func (m machineBench) write(w io.Writer, paper reports.Comparison, width int) {
	p := m.bench.Provenance
	where := "unpinned"
	if core := p["core"]; core != "" {
		where = "core " + core
	}
	fmt.Fprintf(w, "%s, %s\n", visible(p["cpu"]), where)

	fmt.Fprintln(w, "\narithmetic on registers alone, and frequency")
	var rows []table.Row
	frequency := 0.0
	for _, s := range m.of(amx.GroupFrequency) {
		frequency = s.Value // the last is that beside wide vectors
		rows = append(rows, table.Row{s.Name, fmt.Sprintf("%.2f", s.Value), fmt.Sprintf("%.2f", s.Median), s.Unit, s.N, "", s.Detail["instruction"]})
	}
	for _, s := range m.of(amx.GroupPeak) {
		perCycle := ""
		if frequency > 0 {
			perCycle = fmt.Sprintf("%.1f", s.Value/frequency)
		}
		rows = append(rows, table.Row{s.Name, rateText(s.Value), rateText(s.Median), s.Unit, s.N, perCycle, s.Detail["instruction"]})
	}
	writeTable(w, width, table.Row{"what", "best", "median", "unit", "n", "a cycle", "with"}, rows, "best", "median", "n", "a cycle")

	fmt.Fprintln(w, "\nmemory, in GB/s of one core")
	rows = nil
	for _, s := range m.of(amx.GroupBandwidth) {
		size, err := strconv.ParseUint(s.Detail["bytes"], 10, 63)
		from := humanize.IBytes(size)
		if err != nil {
			from = "?"
		}
		rows = append(rows, table.Row{s.Name, rateText(s.Value), rateText(s.Median), s.N, s.Detail["write"], s.Detail["copy"], from})
	}
	writeTable(w, width, table.Row{"level", "read", "median", "n", "write", "copy", "buffer"}, rows, "read", "median", "n", "write", "copy", "buffer")

	fmt.Fprintln(w, "\ncost of a call, in microseconds")
	rows = nil
	for _, s := range m.of(amx.GroupDispatch) {
		rows = append(rows, table.Row{s.Name, fmt.Sprintf("%.3f", s.Value), fmt.Sprintf("%.3f", s.Median), s.N})
	}
	writeTable(w, width, table.Row{"call", "best", "median", "n"}, rows, "best", "median", "n")

	m.writeProducts(w, width)
	if len(paper.Rows) > 0 {
		writePaper(w, paper, width)
	}

	fmt.Fprintln(w)
	writeLabelled(w, width, m.choiceFacts())

	facts := [][2]string{{"bench", cmp.Or(m.bench.ID, notStored)}}
	if m.report != "" {
		facts = append(facts, [2]string{"report", m.report}, [2]string{"", fileURL(m.report)})
	}
	fmt.Fprintln(w)
	writeFacts(w, facts)
}

func (m machineBench) of(group string) []amx.Measurement {
	var found []amx.Measurement
	for _, s := range m.samples {
		if s.Group == group {
			found = append(found, s)
		}
	}
	return found
}

// writeProducts prints a row for each product and a column for each set.
func (m machineBench) writeProducts(w io.Writer, width int) {
	fmt.Fprintln(w, "\nproducts MxKxN, the best, in GFLOP/s or GOP/s and % of the set's own peak")
	var sets []string
	var rows []table.Row
	index := map[string]int{}
	for _, s := range m.of(amx.GroupGemm) {
		set, d := s.Detail["set"], s.Detail
		if !slices.Contains(sets, set) {
			sets = append(sets, set)
		}
		name := fmt.Sprintf("%s %sx%sx%s", d["trans"], d["m"], d["k"], d["n"])
		i, seen := index[name]
		if !seen {
			i = len(rows)
			index[name] = i
			rows = append(rows, table.Row{name})
		}
		cell := rateText(s.Value)
		if share, err := strconv.ParseFloat(d["of_peak"], 64); err == nil {
			cell += fmt.Sprintf(" %3.0f%%", 100*share)
		}
		rows[i] = append(rows[i], cell)
	}
	for first := 0; first < len(sets); {
		header, right := table.Row{"product"}, []string{}
		for _, set := range sets[first:] {
			if next := append(slices.Clone(header), set); len(header) == 1 || tableWidth(columnWidths(next, columnsOf(rows, first, len(next)))) <= width {
				header, right = next, append(right, set)
				continue
			}
			break
		}
		if first > 0 {
			fmt.Fprintln(w)
		}
		writeTable(w, width, header, columnsOf(rows, first, len(header)), right...)
		first += len(right)
	}
	fmt.Fprintln(w, wrapped("Packing of both operands is counted; NN is a layer's forward, NT its gradient of the input, TN of the weights. The peak is taken anew beside the products: a shared core changes its speed.", width, ""))
}

// columnsOf is a table with its first column and the n-1 that begin with `first` after it.
func columnsOf(rows []table.Row, first, n int) []table.Row {
	cut := make([]table.Row, len(rows))
	for i, row := range rows {
		cut[i] = append(table.Row{row[0]}, row[1+first:first+n]...)
	}
	return cut
}

// writePaper prints the paper's figures beside ours.
func writePaper(w io.Writer, paper reports.Comparison, width int) {
	fmt.Fprintf(w, "\n%s\n", visible(paper.Title))
	var rows []table.Row
	for _, r := range paper.Rows {
		ours := r.Ours.Value
		if ours == "" {
			ours = "-"
		}
		ratio := r.Ratio
		if ratio == "" {
			ratio = "-"
		}
		rows = append(rows, table.Row{visible(r.Quantity), visible(r.Paper), visible(ours), visible(ratio), visible(r.Note)})
	}
	header := table.Row{"quantity", "paper", "here", "times", "note"}
	const narrowestNote = 16
	if tableWidth(columnWidths(header, rows)[:len(header)-1])+columnGap+narrowestNote <= width {
		writeTable(w, width, header, rows, "paper", "here", "times")
		return
	}
	// The notes go below, and what is left fits where it did not.
	for i := range rows {
		rows[i] = table.Row{rows[i][1], rows[i][2], rows[i][3], rows[i][0]}
	}
	writeTable(w, width, table.Row{"paper", "here", "times", "quantity"}, rows, "paper", "here", "times")
	for _, r := range paper.Rows {
		if r.Note != "" {
			writeItems(w, width, []string{r.Quantity + ": " + r.Note})
		}
	}
}

func (m machineBench) choiceFacts() [][2]string {
	facts := [][2]string{{"kernels", m.choice.String()}}
	switch {
	case m.changed():
		facts = append(facts, [2]string{"changed", fmt.Sprintf("auto took %s until now: runs started from now on give other bits; a resume keeps its set", m.before)})
	case m.before.Set.Name != "":
		facts = append(facts, [2]string{"unchanged", "auto took the same until now"})
	}
	return facts
}

// rateText is a rate in three or four digits.
func rateText(v float64) string {
	if v < 99.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
