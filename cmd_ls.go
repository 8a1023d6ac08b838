package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"harness/runs"
)

func (c *cli) lsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the runs of the store, newest first",
		Long: `List the runs of the store, newest first, with how far they got and their last
validation loss in nats. The shown beginning of an id is enough to name a run.`,
		Example: "  harness ls\n  harness ls --store /data/runs --json",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			store, err := runs.OpenReadOnly(c.store)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			all, err := store.Runs(cmd.Context())
			if err != nil {
				return err
			}
			losses := make([]float64, len(all))
			for i, r := range all {
				if losses[i], err = lastValidation(cmd.Context(), store, r.ID); err != nil {
					return err
				}
			}
			if asJSON {
				list := []runJSON{}
				for i, r := range all {
					list = append(list, newRunJSON(r, losses[i]))
				}
				return writeJSON(cmd.OutOrStdout(), list)
			}
			if len(all) == 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "the store %s has no runs yet\n", visible(store.Dir()))
				return nil
			}
			var rows []table.Row
			for i, r := range all {
				rows = append(rows, lsRow(all, r, losses[i]))
			}
			writeTable(cmd.OutOrStdout(), resultWidth(cmd.OutOrStdout()),
				table.Row{"run", "name", "state", "step", "tokens", "validation", "created", "tags"}, rows, "step", "tokens", "validation")
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the runs as JSON")
	return cmd
}

func lsRow(all []runs.Run, r runs.Run, validation float64) table.Row {
	loss := "-"
	if !math.IsNaN(validation) {
		loss = nats(validation)
	}
	return table.Row{shortID(all, r.ID), shorten(visible(r.Name), 30), string(r.State), stepOf(r), brief(float64(r.Tokens)), loss,
		humanize.Time(r.Created), visible(strings.Join(r.Tags, ","))}
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

// lastValidation is the last validation loss in nats, NaN if there is none.
func lastValidation(ctx context.Context, s *runs.Store, runID string) (float64, error) {
	series, err := s.Series(ctx, runID)
	if err != nil {
		return 0, err
	}
	for _, m := range series {
		if m.Name == "validation/loss" && len(m.Points) > 0 {
			return m.Points[len(m.Points)-1].Value, nil
		}
	}
	return math.NaN(), nil
}

// shortest is the least that is shown of an id. It holds most of the time in it, so
// that it will hardly become ambiguous with the next run.
const shortest = 10

// shortID is the beginning of an id that no other run has.
func shortID(all []runs.Run, id string) string {
	n := min(shortest, len(id))
	for _, r := range all {
		if r.ID == id {
			continue
		}
		for n < len(id) && strings.HasPrefix(r.ID, id[:n]) {
			n++
		}
	}
	return id[:n]
}
