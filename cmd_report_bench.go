package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"harness/reports"
	"harness/runs"
)

func (c *cli) reportBenchCommand() *cobra.Command {
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "bench [ID]",
		Short: "Write the HTML page of a bench",
		Long: `Write the page of a bench that the store holds (the newest one if none is named) and
print its path. ID is the bench's id or its beginning, as "harness ls --benches" lists it. The page shows the paper's
roofline beside what was measured, or where the time of a training step goes.`,
		Example: `  harness report bench
  harness report bench 01k7 --out roofline.html`,
		Args:              arguments(0, 1),
		ValidArgsFunction: c.completeBenches,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ref := ""
			if len(args) > 0 && args[0] != "latest" {
				ref = args[0]
			}
			chosen := cmd.Flags().Changed("out")
			if chosen {
				if err := checkOut(out, asJSON); err != nil {
					return err
				}
			}
			store, err := runs.OpenReadOnly(c.store)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			bench, err := store.Bench(cmd.Context(), "", ref)
			if err != nil {
				return err
			}
			var path string
			lies := true
			if chosen {
				path, lies, err = writePageTo(out, cmd.OutOrStdout(),
					func(w io.Writer) error { return renderBench(cmd.Context(), store, bench.ID, w) },
					func(path string) error { return reports.WriteBench(cmd.Context(), store, bench.ID, path) })
			} else {
				path, err = writeBenchPage(cmd.Context(), store, bench.ID)
			}
			if err != nil || !lies {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), map[string]string{"bench": bench.ID, "report": path, "url": fileURL(path)})
			}
			fmt.Fprintln(cmd.OutOrStdout(), visible(path))
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file to write, instead of benches/ID.html in the store; - is standard output")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print where the page lies as JSON")
	return cmd
}

// writeBenchPage writes the page of a bench to its place in the store.
func writeBenchPage(ctx context.Context, s *runs.Store, id string) (path string, err error) {
	path = benchPagePath(s, id)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("write the page of bench %s: %w", id, err)
	}
	return path, reports.WriteBench(ctx, s, id, path)
}

func renderBench(ctx context.Context, s *runs.Store, id string, w io.Writer) error {
	page, err := reports.LoadBench(ctx, s, id)
	if err != nil {
		return err
	}
	return page.Render(w, reports.FindAssets())
}

// completeBenches offers the ids of the store's benches to the shell.
func (c *cli) completeBenches(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := runs.OpenReadOnly(c.store)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer s.Close() // opened for reading: there is nothing to lose
	benches, err := s.Benches(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var offers []string
	for _, b := range benches {
		offers = append(offers, b.ID+"\t"+visible(b.Kind))
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}
