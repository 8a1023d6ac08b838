package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
interactive where "harness assets" has installed echarts, and static elsewhere.

A file that exists is replaced as a whole, one that a link leads to as well. A pipe
or a device is written to, and no path is printed then, nor with --out -.`,
		Example: `  harness report
  harness report quickstart --out quickstart.html
  harness report latest --out - | gzip > page.html.gz`,
		Args:              arguments(0, 1),
		ValidArgsFunction: c.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ref := "latest"
			if len(args) > 0 {
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
			run, err := store.Find(cmd.Context(), ref)
			if err != nil {
				return err
			}
			path, lies := pagePath(store, run.ID), true
			if chosen {
				path, lies, err = writePageTo(out, cmd.OutOrStdout(),
					func(w io.Writer) error { return renderPage(cmd.Context(), store, run.ID, w) },
					func(path string) error { return writePage(cmd.Context(), store, run.ID, path) })
			} else {
				err = writePage(cmd.Context(), store, run.ID, path)
			}
			if err != nil || !lies {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), map[string]string{"run": run.ID, "report": path, "url": fileURL(path)})
			}
			fmt.Fprintln(cmd.OutOrStdout(), visible(path))
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file to write, instead of report.html in the run's directory; - is standard output")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print where the page lies as JSON")
	cmd.AddCommand(c.reportBenchCommand())
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

// checkOut refuses what no page can be written to.
func checkOut(out string, asJSON bool) error {
	if out == "" {
		return usageError("--out \"\" names no file")
	}
	if out == "-" {
		if asJSON {
			return usageError("--json prints where the page lies; with --out - it lies nowhere")
		}
		return nil
	}
	info, err := os.Stat(out)
	if err == nil && info.IsDir() || os.IsPathSeparator(out[len(out)-1]) {
		return usageError("--out %s is a directory; name a file in it", out)
	}
	return nil
}

// writePageTo writes a page to out as a shell would: "-" is stdout, a link is
// followed, and a pipe or device that exists is written to, by render. A regular file
// is replaced atomically, by replace. lies says that the page lies at path from now on.
func writePageTo(out string, stdout io.Writer, render func(io.Writer) error, replace func(path string) error) (path string, lies bool, err error) {
	if out == "-" {
		return "", false, render(stdout)
	}
	info, err := os.Stat(out)
	if err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(out, os.O_WRONLY, 0)
		if err != nil {
			return "", false, fmt.Errorf("write the report: %w", err)
		}
		return "", false, errors.Join(render(f), f.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("find the place of the report: %w", err)
	}
	if path, err = followLinks(out); err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", false, fmt.Errorf("find the place of the report: %w", err)
	}
	return path, true, replace(path)
}

func renderPage(ctx context.Context, s *runs.Store, runID string, w io.Writer) error {
	page, err := reports.LoadRun(ctx, s, runID)
	if err != nil {
		return err
	}
	return page.Render(w, reports.FindAssets())
}

// followLinks is where the last links of a path lead, be anything there or not.
func followLinks(path string) (string, error) {
	const most = 40 // as Linux has it
	for range most {
		link, err := os.Readlink(path)
		if err != nil {
			return path, nil // no link
		}
		if !filepath.IsAbs(link) {
			dir, err := filepath.EvalSymlinks(filepath.Dir(path)) // .. in the link counts from there
			if err != nil {
				return "", err
			}
			link = filepath.Join(dir, link)
		}
		path = link
	}
	return "", fmt.Errorf("%s: too many links", path)
}

// writePage writes the page of a run, with what scripts there are.
func writePage(ctx context.Context, s *runs.Store, runID, path string) error {
	return reports.WriteRun(ctx, s, runID, path, reports.FindAssets())
}
