package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"harness/experiments"
)

func (c *cli) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented spec to start from",
		Long: `Write a small working experiment with every other key, its default and its meaning as a
comment, to FILE (experiment.yaml if none is named). A file that exists is left alone.`,
		Example: "  harness init\n  harness init my.yaml",
		Args:    arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "experiment.yaml"
			if len(args) > 0 {
				path = args[0]
			}
			if err := writeNew(path, experiments.Template()); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is written; run it with: %s run %s\n", visible(path), c.program, visible(path))
			return nil
		},
	}
}

// writeNew writes a file that must not exist yet.
func writeNew(path string, text []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already and is left as it is; name another file", path)
	}
	if err != nil {
		return fmt.Errorf("write spec: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("write spec: %w", err)
	}
	return nil
}

func (c *cli) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of specs, for editors",
		Long: `Print the JSON Schema of specs. An editor that knows it completes keys and marks
mistakes while a spec is written.`,
		Example: "  harness schema > harness.schema.json",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(experiments.Schema())
			return err
		},
	}
}
