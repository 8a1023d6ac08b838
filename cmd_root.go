package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"harness/experiments"
	"harness/runs"
)

// Exit codes, as the help of the root command states them.
const (
	exitError       = 1
	exitUsage       = 2
	exitDiverged    = 3
	exitInterrupted = 130 // as a shell reports a process that SIGINT ended
)

const rootHelp = `harness trains outrageously small language models on one CPU core, keeps track of
every run and shows what the loss curve does not say.

A YAML spec describes an experiment. "harness init" writes one to start from.
Runs live in a store, one directory: --store, else $HARNESS_STORE, else .harness.
Runs of all users keep off each other's cores by locks in one directory of the
machine, which $HARNESS_CORE_LOCKS replaces.
A RUN is named by its id, the beginning of its id, its name, or "latest".

Exit codes:
  0    success
  1    error: the message says what could not be done
  2    the command line or the spec is wrong; nothing was started
  3    the run diverged: its loss is not finite any more
  130  interrupted by a signal; a run has written a checkpoint and can be resumed`

// cli is what all commands share.
type cli struct {
	args    []string // the command line, for provenance
	program string   // how the program is called, for hints
	store   string   // directory of the store
}

// codedError is an error with its exit code.
type codedError struct {
	code int
	err  error
	said bool // the user has read it already
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &codedError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// output is standard output that remembers that it could not be written: half a
// result in a file on a full disk is an error.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// execute runs a command line, args[0] being the program, and returns its exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &output{Writer: stdout}
	root := newRoot(&cli{args: args, program: thisCommand()})
	root.SetArgs(args[1:])
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if _, explained := err.(*codedError); err != nil && cmd == root && !explained {
		err = unknownCommand(err)
	}
	if err == nil && out.err != nil {
		err = fmt.Errorf("write the result: %w", out.err)
	}
	if err == nil {
		return 0
	}
	code := exitCode(ctx, err)
	if coded, is := err.(*codedError); is && coded.said {
		return code
	}
	for _, line := range errorLines(err, code) {
		fmt.Fprintln(stderr, "harness: "+visible(line))
	}
	return code
}

func exitCode(ctx context.Context, err error) int {
	var coded *codedError
	var problems experiments.Problems
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &problems):
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return exitInterrupted
	}
	return exitError
}

// errorLines is one line per problem of a spec, and one line for any other error.
func errorLines(err error, code int) []string {
	var problems experiments.Problems
	var coded *codedError
	switch {
	case errors.As(err, &problems):
		var lines []string
		for _, p := range problems {
			lines = append(lines, shortenMiddle(shortenQuoted(p.String()), longestError))
		}
		return lines
	case code == exitInterrupted && !errors.As(err, &coded):
		return []string{"interrupted before there was anything to keep"}
	}
	line := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
	return []string{shortenMiddle(line, longestError)}
}

// longestError is the most runes that a line about an error has.
const longestError = 500

// shortenQuoted cuts what a problem quotes: a file that is no spec is not to be
// printed whole. A quoted text keeps 60 characters, an escaped one counting as one.
func shortenQuoted(problem string) string {
	quoted := regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	long := regexp.MustCompile(`^"((?:[^"\\]|\\.){60})(?:[^"\\]|\\.)+"$`)
	return quoted.ReplaceAllStringFunc(problem, func(q string) string { return long.ReplaceAllString(q, `"$1…"`) })
}

// unknownCommand makes one line of cobra's several.
func unknownCommand(err error) error {
	what, hint, _ := strings.Cut(err.Error(), "\n")
	_, names, found := strings.Cut(hint, "?")
	if !found {
		return usageError("%s; harness --help lists the commands", what)
	}
	return usageError("%s; did you mean %s?", what, strings.Join(strings.Fields(names), " or "))
}

func newRoot(c *cli) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:           "harness",
		Short:         "Train tiny language models on one core and keep track of them",
		Long:          rootHelp,
		Example:       "  harness init my.yaml\n  harness run my.yaml\n  harness ls",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				writeVersion(cmd.OutOrStdout())
				return nil
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the program's version and its kernel sets, and stop")
	store := os.Getenv("HARNESS_STORE")
	if store == "" {
		store = ".harness"
	}
	root.PersistentFlags().StringVar(&c.store, "store", store, "directory of the store")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if c.store == "" {
			return usageError("--store \"\" names no directory")
		}
		return nil
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(c.runCommand(), c.resumeCommand(), c.lsCommand(), c.showCommand(), c.reportCommand(), c.compareCommand(),
		c.assetsCommand(), c.generateCommand(), c.initCommand(), c.schemaCommand(),
		c.doctorCommand(), c.benchCommand(), c.planCommand())
	return root
}

// arguments checks how many there are: at least low and at most high, any number
// from low on if high is negative.
func arguments(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= low && (high < 0 || len(args) <= high) {
			return nil
		}
		given := fmt.Sprintf("%d arguments", len(args))
		switch len(args) {
		case 0:
			given = "no argument"
		case 1:
			given = "1 argument"
		}
		return usageError("%s given; usage: %s", given, cmd.UseLine())
	}
}

// completeRuns offers the ids and names of the store to the shell.
func (c *cli) completeRuns(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := runs.OpenReadOnly(c.store)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer s.Close() // opened for reading: there is nothing to lose
	all, err := s.Runs(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	offers := []string{"latest"}
	for _, r := range all {
		if name := visible(r.Name); !slices.Contains(offers, name) {
			offers = append(offers, name)
		}
		offers = append(offers, r.ID+"\t"+visible(r.Name))
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}

func completeSpecs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}
