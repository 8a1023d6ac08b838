package reports

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"harness/runs"
)

// attemptTable lists the processes that worked on the run, and how each ended.
func attemptTable(attempts []runs.Attempt) Table {
	t := Table{
		Title:   "Attempts",
		Columns: []string{"attempt", "state", "from step", "to step", "tokens", "started", "took", "host", "core", "kernels", "why it ended"},
		Numeric: []bool{true, false, true, true, true, false, true, false, true, false, false},
	}
	for _, a := range attempts {
		t.Rows = append(t.Rows, []string{
			strconv.Itoa(a.Number), string(a.State),
			humanize.Comma(a.FromStep), humanize.Comma(a.Step), humanize.Comma(a.Tokens),
			moment(a.Started), elapsed(attemptTime(a)),
			a.Host, strconv.Itoa(a.Core), a.Kernels, a.Message,
		})
	}
	return t
}

func eventTable(events []runs.Event) Table {
	t := Table{
		Title:   "Events",
		Columns: []string{"attempt", "after", "step", "event", "text"},
		Numeric: []bool{true, true, true, false, false},
	}
	for _, e := range events {
		t.Rows = append(t.Rows, []string{strconv.Itoa(e.Attempt), elapsed(e.Elapsed), humanize.Comma(e.Step), e.Kind, e.Text})
	}
	return t
}

// artifactTable lists the run's files, those in its own directory by their short
// path. gone holds the paths of those that are no longer on disk.
func artifactTable(artifacts []runs.Artifact, runID string, gone map[string]bool) Table {
	runDir := "runs/" + runID + "/"
	t := Table{
		Title:   "Files",
		Note:    "in " + runDir + " of the store",
		Columns: []string{"step", "kind", "path", "on disk", "size", "sha256"},
		Numeric: []bool{true, false, false, false, true, false},
	}
	for _, a := range artifacts {
		size := fmt.Sprintf("%d B", a.Bytes)
		if a.Bytes >= 0 {
			size = humanize.IBytes(uint64(a.Bytes))
		}
		there := "yes"
		if gone[a.Path] {
			there = "gone"
			t.Meaning = "Gone: not on disk when this page was written. A run keeps its newest checkpoints and prunes the older ones."
		}
		t.Rows = append(t.Rows, []string{humanize.Comma(a.Step), a.Kind, strings.TrimPrefix(a.Path, runDir), there, size, a.SHA256})
	}
	return t
}

// provenance says what a reader needs to make the run again: what is known of the
// program and the machine, and the versions of the program's libraries.
func provenance(run runs.Run) (facts, libraries []Fact) {
	for _, key := range slices.Sorted(maps.Keys(run.Provenance)) {
		fact := Fact{Label: key, Value: run.Provenance[key]}
		if module, isModule := strings.CutPrefix(key, "module:"); isModule {
			fact.Label = module
			libraries = append(libraries, fact)
			continue
		}
		facts = append(facts, fact)
	}
	if run.SpecHash != "" {
		facts = append(facts, Fact{Label: "spec hash", Value: run.SpecHash})
	}
	return facts, libraries
}
