package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"harness/runs"
)

func (c *cli) lsCommand() *cobra.Command {
	var asJSON, benches bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the runs of the store, newest first",
		Long: `List the runs of the store, newest first, with how far they got, their last
validation loss in nats, parameters, last speed of training alone, and last probe
scores in percent; a narrow terminal shows fewer columns. The shown beginning of an id is
enough to name a run.

--benches lists what "harness bench" has measured instead; "harness report bench ID"
writes the page of one.`,
		Example: "  harness ls\n  harness ls --store /data/runs --json\n  harness ls --benches",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			w := cmd.OutOrStdout()
			store, err := runs.OpenReadOnly(c.store)
			if errors.Is(err, runs.ErrNoStore) {
				if asJSON {
					return writeJSON(w, []lsJSON{})
				}
				what, how := "runs", "run SPEC"
				if benches {
					what, how = "benches", "bench"
				}
				fmt.Fprintf(w, "no %s yet: %s %s makes a store in %s\n", what, c.program, how, visible(c.store))
				return nil
			}
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			measured, err := store.Benches(cmd.Context())
			if err != nil {
				return err
			}
			if benches {
				switch {
				case asJSON:
					return writeJSON(w, benchesJSON(store, measured))
				case len(measured) == 0:
					fmt.Fprintf(w, "no benches yet in the store %s\n", visible(store.Dir()))
				default:
					writeBenches(w, measured, resultWidth(w))
				}
				return nil
			}
			list, err := listed(cmd.Context(), store)
			if err != nil {
				return err
			}
			if asJSON {
				all := []lsJSON{}
				for _, r := range list {
					all = append(all, r.json())
				}
				return writeJSON(w, all)
			}
			if len(list) == 0 {
				fmt.Fprintf(w, "no runs yet in the store %s\n", visible(store.Dir()))
			} else {
				writeRuns(w, list, resultWidth(w))
			}
			fmt.Fprint(w, c.benchesHint(measured, resultWidth(w)))
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	cmd.Flags().BoolVar(&benches, "benches", false, "list the benches instead")
	return cmd
}

// listedRun is a run with what a list says of its metrics.
type listedRun struct {
	runs.Run
	ref        string
	validation float64 // nats; NaN if there is none
	speed      float64 // tokens a second of training alone, as last recorded; NaN if not known
	scores     []runs.Score
}

func listed(ctx context.Context, s *runs.Store) ([]listedRun, error) {
	all, err := s.Runs(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]listedRun, len(all))
	for i, run := range all {
		r := listedRun{Run: run, ref: shortID(all, run.ID), validation: math.NaN(), speed: math.NaN()}
		last, err := s.Last(ctx, run.ID)
		if err != nil {
			return nil, err
		}
		if p, is := last["validation/loss"]; is {
			r.validation = p.Value
		}
		if p, is := last["throughput"]; is {
			r.speed = p.Value
		}
		scores, err := s.Scores(ctx, run.ID)
		if err != nil {
			return nil, err
		}
		r.scores = ofLastStep(scores, func(s runs.Score) int64 { return s.Step })
		list[i] = r
	}
	return list, nil
}

// lsColumn is a column of the list of runs.
type lsColumn struct {
	name  string
	right bool
	rank  int // the lowest is kept longest
	cell  func(listedRun) string
}

// lsColumns are in the order they are shown.
func lsColumns() []lsColumn {
	figure := func(v float64, format func(float64) string) string {
		if math.IsNaN(v) {
			return "-"
		}
		return format(v)
	}
	return []lsColumn{
		{"run", false, 0, func(r listedRun) string { return r.ref }},
		{"name", false, 0, func(r listedRun) string { return shorten(visible(r.Name), 30) }},
		{"state", false, 0, func(r listedRun) string { return string(r.State) }},
		{"step", true, 0, func(r listedRun) string { return stepOf(r.Run) }},
		{"tokens", true, 8, func(r listedRun) string { return brief(float64(r.Tokens)) }},
		{"validation", true, 1, func(r listedRun) string { return figure(r.validation, nats) }},
		{"params", true, 2, func(r listedRun) string {
			if all, _ := parameters(r.Run); all > 0 {
				return brief(float64(all))
			}
			return "-"
		}},
		{"tok/s", true, 3, func(r listedRun) string { return figure(r.speed, brief) }},
		{"time", true, 4, func(r listedRun) string { return duration(wallTime(r.Run)) }},
		{"seed", true, 5, func(r listedRun) string { return strconv.FormatInt(r.Seed, 10) }},
		{"created", false, 7, func(r listedRun) string { return humanize.Time(r.Created) }},
		{"tags", false, 9, func(r listedRun) string { return visible(strings.Join(r.Tags, ",")) }},
		{probesColumn, false, 6, func(r listedRun) string { return shortScores(r.scores) }},
	}
}

const (
	probesColumn    = "probes"
	narrowestProbes = 24 // the column wraps, being the last
)

// writeRuns prints one line per run, with as many columns as fit, the most telling
// ones first.
func writeRuns(w io.Writer, list []listedRun, width int) {
	all := lsColumns()
	cells := make([][]string, len(all)) // by column
	widths := make([]int, len(all))
	for i, c := range all {
		for _, r := range list {
			cells[i] = append(cells[i], c.cell(r))
		}
		var column []table.Row
		for _, cell := range cells[i] {
			column = append(column, table.Row{cell})
		}
		widths[i] = columnWidths(table.Row{c.name}, column)[0]
	}
	byRank := make([]int, len(all))
	for i := range byRank {
		byRank[i] = i
	}
	slices.SortStableFunc(byRank, func(a, b int) int { return all[a].rank - all[b].rank })
	var kept []int
	used := 0
	for _, i := range byRank {
		if room := width - used - columnGap; all[i].name == probesColumn && room >= narrowestProbes {
			widths[i] = min(widths[i], room)
		}
		if more := tableWidth(widths[i : i+1]); all[i].rank == 0 || used+more <= width {
			kept, used = append(kept, i), used+more
		}
	}
	slices.Sort(kept)

	header, rows := table.Row{}, make([]table.Row, len(list))
	var right []string
	explain := false
	for _, i := range kept {
		header = append(header, all[i].name)
		if all[i].right {
			right = append(right, all[i].name)
		}
		probed := slices.ContainsFunc(list, func(r listedRun) bool { return len(r.scores) > 0 })
		explain = explain || probed && all[i].name == probesColumn
		for k := range rows {
			rows[k] = append(rows[k], cells[i][k])
		}
	}
	writeTable(w, width, header, rows, right...)
	if explain {
		fmt.Fprintln(w, "\n"+paragraph(shortScoresKey, width))
	}
}

// stepOf is how far a run got, "12/100", or "12" where its budget is not known.
func stepOf(r runs.Run) string {
	if total := totalSteps(r); total > 0 {
		return count(r.Step) + "/" + count(total)
	}
	return count(r.Step)
}

// totalSteps is the budget of a run in steps, 0 if it is not known.
func totalSteps(r runs.Run) int64 {
	total, err := strconv.ParseInt(r.Provenance["steps"], 10, 64)
	if err != nil {
		return 0
	}
	return total
}

// shortest is the least that is shown of an id. It holds most of the time in it, so
// that it will hardly become ambiguous with the next run.
const shortest = 10

// shortID is the beginning of an id that no other run has.
func shortID(all []runs.Run, id string) string {
	ids := make([]string, len(all))
	for i, r := range all {
		ids[i] = r.ID
	}
	return unlikeOthers(ids, id)
}

type lsJSON struct {
	runJSON
	Seed            int64       `json:"seed"`
	Seconds         float64     `json:"seconds"`                    // all attempts together
	TokensPerSecond number      `json:"training_tokens_per_second"` // as last recorded; "NaN" if not known
	Scores          []scoreJSON `json:"scores"`                     // of the last step that has any
}

func (r listedRun) json() lsJSON {
	return lsJSON{runJSON: newRunJSON(r.Run, r.validation), Seed: r.Seed, Seconds: wallTime(r.Run).Seconds(),
		TokensPerSecond: number(r.speed), Scores: scoresJSON(r.scores)}
}
