package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"harness/reports"
	"harness/runs"
)

func (c *cli) compareCommand() *cobra.Command {
	var sel reports.Selection
	var asJSON, asMarkdown bool
	var page string
	cmd := &cobra.Command{
		Use:   "compare [RUN...]",
		Short: "Compare arms over seeds: one table from the store",
		Long: `Compare runs in one table. An arm is all finished runs of one name, over seeds; of
several runs with the same name and seed the newest counts. A RUN that is a name
means all runs of that name. --tag and --name-prefix choose runs besides, both
together those that satisfy both.

Losses are means over seeds with 95% t intervals. The difference to the baseline (the
arm of the first RUN, if --baseline names none) is taken run by run of the same seed,
and called better or worse only where its interval leaves 0 out. Below the table
stand the things to be minded, such as budgets, corpora or kernels that differ, the
runs behind every row, and those that were left out because they are not finished.`,
		Example: `  harness compare moe-dense moe-window moe-prefix
  harness compare --tag ladder --baseline dense
  harness compare --name-prefix grow- --baseline grow-none --markdown
  harness compare --tag ladder --html ladder.html`,
		Args: arguments(0, -1),
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return c.completeRuns(cmd, nil, toComplete)
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			sel.Runs = args
			toPage := cmd.Flags().Changed("html")
			if err := checkComparison(cmd, sel, page); err != nil {
				return err
			}
			store, err := runs.OpenReadOnly(c.store)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			arms, err := reports.LoadArms(cmd.Context(), store, sel)
			if errors.Is(err, reports.ErrNoBaseline) {
				return usageError("%w", err)
			}
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			switch {
			case toPage:
				path, lies, err := writePageTo(page, w, arms.Render, arms.Write)
				if err == nil && lies {
					fmt.Fprintln(w, visible(path))
				}
				return err
			case asJSON:
				return writeJSON(w, newComparisonJSON(arms))
			case asMarkdown:
				return arms.Markdown(w)
			}
			all, err := store.Runs(cmd.Context())
			if err != nil {
				return err
			}
			writeComparison(w, arms, func(id string) string { return shortID(all, id) }, resultWidth(w))
			return nil
		},
	}
	cmd.Flags().StringVar(&sel.Tag, "tag", "", "compare the runs that have this tag")
	cmd.Flags().StringVar(&sel.Prefix, "name-prefix", "", "compare the runs whose name begins so")
	cmd.Flags().StringVar(&sel.Baseline, "baseline", "", "name of the arm that the others are compared with")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the comparison as JSON")
	cmd.Flags().BoolVar(&asMarkdown, "markdown", false, "print the comparison as Markdown")
	cmd.Flags().StringVar(&page, "html", "", "write a page to this file instead; - is standard output")
	return cmd
}

// checkComparison refuses what chooses no runs, and what cannot be written.
func checkComparison(cmd *cobra.Command, sel reports.Selection, page string) error {
	var forms []string
	for _, name := range []string{"json", "markdown", "html"} {
		if cmd.Flags().Changed(name) {
			forms = append(forms, "--"+name)
		}
	}
	switch {
	case len(forms) > 1:
		return usageError("%s exclude each other", strings.Join(forms, " and "))
	case len(sel.Runs) == 0 && sel.Tag == "" && sel.Prefix == "":
		return usageError("no runs are chosen: name some, or give --tag or --name-prefix; see harness compare --help")
	case !cmd.Flags().Changed("html"):
		return nil
	case page == "":
		return usageError("--html \"\" names no file")
	}
	if info, err := os.Stat(page); err == nil && info.IsDir() || os.IsPathSeparator(page[len(page)-1]) {
		return usageError("--html %s is a directory; name a file in it", page)
	}
	return nil
}

// writeComparison prints the comparison: columns that do not fit beside the others go
// into a further table, which names the arms again.
func writeComparison(w io.Writer, arms reports.ArmsPage, ref func(id string) string, width int) {
	columns := arms.Columns()
	for i := range columns {
		columns[i].Name = visible(columns[i].Name)
		for k, cell := range columns[i].Cells {
			columns[i].Cells[k] = visible(cell)
		}
	}
	for i, part := range fitted(columns, width) {
		if i > 0 {
			fmt.Fprintln(w)
		}
		header, rows := table.Row{}, make([]table.Row, len(arms.Arms))
		var right []string
		for _, c := range part {
			header = append(header, c.Name)
			if c.Right {
				right = append(right, c.Name)
			}
			for k := range rows {
				rows[k] = append(rows[k], c.Cells[k])
			}
		}
		writeTable(w, width, header, rows, right...)
	}
	fmt.Fprintln(w, "\n"+wrapped(arms.Key(), width, ""))
	for _, list := range []struct {
		title string
		items []string
	}{{"to be minded", arms.Notes}, {"runs", arms.RunLines(ref)}, {"left out", arms.LeftOutLines(ref)}} {
		if len(list.items) > 0 {
			fmt.Fprintln(w, "\n"+list.title)
			writeItems(w, width, list.items)
		}
	}
}

// fitted parts columns into tables of at most width, each with the first column.
func fitted(columns []reports.ArmColumn, width int) [][]reports.ArmColumn {
	wide := func(c reports.ArmColumn) int {
		rows := make([]table.Row, len(c.Cells))
		for i, cell := range c.Cells {
			rows[i] = table.Row{cell}
		}
		return tableWidth(columnWidths(table.Row{c.Name}, rows))
	}
	first := columns[0]
	parts := [][]reports.ArmColumn{{first}}
	used := wide(first)
	for _, c := range columns[1:] {
		last := len(parts) - 1
		if used+wide(c) > width && len(parts[last]) > 1 {
			parts, used = append(parts, []reports.ArmColumn{first}), wide(first)
			last++
		}
		parts[last], used = append(parts[last], c), used+wide(c)
	}
	return parts
}
