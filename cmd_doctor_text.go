package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"harness/amx"
)

func (e examination) write(w io.Writer, width int) {
	writeLabelled(w, width, e.facts())

	fmt.Fprintf(w, "\nAMX: %s\n", visible(e.tiles.Verdict()))
	var rows []table.Row
	for _, c := range e.tiles.Conditions() {
		rows = append(rows, table.Row{c.Name, yesNo(c.Holds), visible(c.Meaning)})
	}
	writeTable(w, width, table.Row{"condition", "holds", "meaning"}, rows)

	fmt.Fprintln(w, "\nkernel sets")
	rows = nil
	for _, s := range e.sets {
		note := s.missing
		if note == "" && s.Name == e.choice.Set.Name {
			note = "what auto takes"
		}
		rows = append(rows, table.Row{s.Name, string(s.Arithmetic), yesNo(s.missing == ""), visible(note)})
	}
	writeTable(w, width, table.Row{"set", "arithmetic", "runs", "note"}, rows)
	fmt.Fprintln(w)
	writeLabelled(w, width, e.choiceFacts())

	fmt.Fprintln(w, "\nplaces")
	for _, p := range e.places { // paths are whole, to be copied
		fmt.Fprintf(w, "  %-10s  %s\n  %-10s  %s\n", p.Name, visible(p.State), "", visible(p.Path))
	}
	if len(e.problems) > 0 {
		fmt.Fprintln(w, "\nproblems")
		writeItems(w, width, e.problems)
	}
	if len(e.warnings) == 0 {
		fmt.Fprintln(w, "\nno warnings")
		return
	}
	fmt.Fprintln(w, "\nwarnings")
	writeItems(w, width, e.warnings)
}

func (e examination) facts() [][2]string {
	cpu := e.machine.CPUModel
	if id := e.identity; id.Vendor != "" {
		cpu += fmt.Sprintf(" (%s, family %d, model %d, stepping %d)", id.Vendor, id.Family, id.Model, id.Stepping)
	}
	if e.identity.Hypervisor != "" {
		cpu += ", in a virtual machine (" + e.identity.Hypervisor + ")"
	}
	version := e.program["code_version"]
	if e.program["code_dirty"] == "true" {
		version += ", with changes"
	}
	facts := [][2]string{
		{"program", "harness " + version + "; it needs no compiler"},
		{"system", strings.TrimSuffix(e.machine.OS+"/"+e.machine.Arch+", kernel "+e.kernel, ", kernel ")},
		{"CPU", cpu},
		{"cores", e.coreFact()},
		{"caches", cacheFact(e.caches)},
		{"memory", bytesOrUnknown(e.memory) + " available"},
		{"frequency", e.frequencyFact()},
		{"fp32 peak", e.peakFact()},
		{"denormals", fmt.Sprintf("%.1f times the time of other numbers", e.denormals)},
		{"flags", strings.Join(e.machine.Flags, " ")},
	}
	return facts
}

func (e examination) coreFact() string {
	text := fmt.Sprintf("%d for this process", e.machine.Cores)
	if e.core < 0 {
		return text + "; none can be claimed: " + e.coreNote
	}
	return fmt.Sprintf("%s; core %d can be claimed", text, e.core)
}

func (e examination) frequencyFact() string {
	if e.frequency == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.2f GHz, measured", e.frequency)
}

func (e examination) peakFact() string {
	text := fmt.Sprintf("%.0f GFLOP/s, measured, best of %d", e.peak.Value, e.peak.N)
	if e.frequency > 0 {
		text += fmt.Sprintf("; %.0f a cycle", e.peak.Value/e.frequency)
	}
	return text
}

func (e examination) choiceFacts() [][2]string {
	why := e.choice.Why()
	if why == "" {
		why = "there is no other to choose from"
	}
	facts := [][2]string{{"auto takes", e.choice.Set.Name}, {"why", why}}
	if e.keptAt != "" {
		facts = append(facts, [2]string{"kept in", e.keptAt + " since " + e.choice.When.UTC().Format("2006-01-02 15:04 UTC") + "; harness bench measures anew"})
	}
	return facts
}

// cacheFact is the data caches in a line.
func cacheFact(caches []amx.Cache) string {
	var parts []string
	from := ""
	for _, c := range caches {
		if c.Kind == "instruction" {
			continue
		}
		part := fmt.Sprintf("L%d %s", c.Level, humanize.IBytes(uint64(c.Bytes)))
		if c.SharedBy > 1 {
			part += fmt.Sprintf(" shared by %d CPUs", c.SharedBy)
		}
		parts, from = append(parts, part), c.From
	}
	if len(parts) == 0 {
		return "unknown"
	}
	return strings.Join(parts, ", ") + ", says " + from
}

func bytesOrUnknown(n int64) string {
	if n <= 0 {
		return "unknown"
	}
	return humanize.IBytes(uint64(n))
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func numbers(list []int) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, ", ")
}

// wrapped is a paragraph whose lines after the first begin with an indent.
func wrapped(s string, width int, indent string) string {
	lines := strings.Split(paragraph(visible(s), max(width-len(indent), 20)), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n"+indent)
}

// writeLabelled prints labels and values in two columns, the values wrapped.
func writeLabelled(w io.Writer, width int, facts [][2]string) {
	wide := 0
	for _, f := range facts {
		wide = max(wide, len(f[0]))
	}
	for _, f := range facts {
		fmt.Fprintf(w, "  %-*s  %s\n", wide, f[0], wrapped(f[1], width, strings.Repeat(" ", wide+4)))
	}
}

// writeItems prints paragraphs with a dash before each.
func writeItems(w io.Writer, width int, items []string) {
	for _, item := range items {
		fmt.Fprintf(w, "  - %s\n", wrapped(item, width, "    "))
	}
}
