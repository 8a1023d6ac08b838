package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"harness/reports"
	"harness/runs"
)

func (c *cli) reportCommand() *cobra.Command {
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "report [RUN]",
		Short: "Write the HTML page of a run",
		Long: `Write one self-contained HTML page about a run (the latest one if none is named) and
print its path. It opens from the file system, offline. Its charts are
interactive where "harness assets" has installed echarts, and static elsewhere.`,
		Example:           "  harness report\n  harness report quickstart --out quickstart.html",
		Args:              arguments(0, 1),
		ValidArgsFunction: c.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ref := "latest"
			if len(args) > 0 {
				ref = args[0]
			}
			store, err := runs.OpenReadOnly(c.store)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			run, err := store.Find(cmd.Context(), ref)
			if err != nil {
				return err
			}
			path := pagePath(store, run.ID)
			if out != "" {
				if path, err = filepath.Abs(out); err != nil {
					return fmt.Errorf("find the place of the report: %w", err)
				}
			}
			if err := writePage(cmd.Context(), store, run.ID, path); err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), map[string]string{"run": run.ID, "report": path, "url": fileURL(path)})
			}
			fmt.Fprintln(cmd.OutOrStdout(), visible(path))
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file to write, instead of report.html in the run's directory")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print where the page lies as JSON")
	return cmd
}

func (c *cli) assetsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "assets",
		Short: "Download echarts, for interactive charts in reports",
		Long: `Download echarts once, check it against a pinned hash and keep it in the user's cache.
Reports written from then on hold it, and their charts are interactive.`,
		Example: "  harness assets",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := reports.InstallAssets(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), visible(path))
			return nil
		},
	}
}

// pagePath is where the page of a run lies.
func pagePath(s *runs.Store, runID string) string {
	return filepath.Join(s.RunDir(runID), "report.html")
}

// writePage writes the page of a run, with what scripts there are.
func writePage(ctx context.Context, s *runs.Store, runID, path string) error {
	return reports.WriteRun(ctx, s, runID, path, reports.FindAssets())
}
