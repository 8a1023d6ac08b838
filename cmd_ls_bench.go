package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"harness/runs"
)

// writeBenches prints one line per bench, newest first.
func writeBenches(w io.Writer, all []runs.Bench, width int) {
	ids := make([]string, len(all))
	for i, b := range all {
		ids[i] = b.ID
	}
	var rows []table.Row
	for _, b := range all {
		// What a narrow terminal has no room for wraps in the last column.
		rows = append(rows, table.Row{unlikeOthers(ids, b.ID), b.Kind, visible(b.Provenance["kernels"]), humanize.Time(b.Started), shorten(visible(benchSubject(b)), 40)})
	}
	writeTable(w, width, table.Row{"bench", "kind", "kernels", "measured", "of"}, rows)
}

// benchSubject is what a bench is of: a spec or a machine.
func benchSubject(b runs.Bench) string {
	if spec := b.Provenance["spec"]; spec != "" {
		return spec
	}
	return b.Provenance["cpu"]
}

// benchesHint says that there are benches too, and where: they are no runs, and a list
// of runs shows none.
func (c *cli) benchesHint(all []runs.Bench, width int) string {
	if len(all) == 0 {
		return ""
	}
	n := "1 bench"
	if len(all) > 1 {
		n = count(int64(len(all))) + " benches"
	}
	return "\n" + wrapped(fmt.Sprintf("%s as well: %s ls --benches lists them, %s report bench ID writes a page", n, c.program, c.program), width, "") + "\n"
}

type lsBenchJSON struct {
	ID      string    `json:"bench"`
	Kind    string    `json:"kind"`
	Started time.Time `json:"started"`
	Spec    string    `json:"spec,omitempty"`
	CPU     string    `json:"cpu,omitempty"`
	Kernels string    `json:"kernels,omitempty"`
	Report  string    `json:"report,omitempty"` // where its page lies, if one was written
}

func benchesJSON(store *runs.Store, all []runs.Bench) []lsBenchJSON {
	list := []lsBenchJSON{}
	for _, b := range all {
		p := b.Provenance
		j := lsBenchJSON{ID: b.ID, Kind: b.Kind, Started: b.Started, Spec: p["spec"], CPU: p["cpu"], Kernels: p["kernels"]}
		if page := benchPagePath(store, b.ID); exists(page) {
			j.Report = page
		}
		list = append(list, j)
	}
	return list
}

// benchPagePath is where the page of a bench lies.
func benchPagePath(s *runs.Store, id string) string {
	return filepath.Join(s.Dir(), "benches", id+".html")
}

// unlikeOthers is the beginning of an id that none of the others has.
func unlikeOthers(ids []string, id string) string {
	n := min(shortest, len(id))
	for _, other := range ids {
		if other == id {
			continue
		}
		for n < len(id) && strings.HasPrefix(other, id[:n]) {
			n++
		}
	}
	return id[:n]
}
