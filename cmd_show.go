package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"harness/experiments"
	"harness/reports"
	"harness/runs"
)

func (c *cli) showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show what is known of a run",
		Long: `Show a run: its state and attempts, where it comes from, the last value of every
metric, its last scores beside chance, what the model wrote then, and its files.`,
		Example:           "  harness show latest\n  harness show quickstart --json",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			store, err := runs.OpenReadOnly(c.store)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			v, err := newRunView(cmd.Context(), store, args[0])
			if err != nil {
				return err
			}
			v.program = c.program
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), v.json())
			}
			v.write(cmd.OutOrStdout(), resultWidth(cmd.OutOrStdout()))
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything as JSON, the spec too")
	return cmd
}

// runView is what show prints.
type runView struct {
	program     string // how this program is called
	run         runs.Run
	latest      []metric
	best        runs.Point           // of the validation loss
	hasBest     bool                 // it is better than the last
	scores      []runs.Score         // of the last step that has any
	samples     []experiments.Sample // likewise
	generations []runs.Generation    // likewise
	weights     string               // SHA-256 of the parameters; "" while it is not known
	artifacts   []runs.Artifact      // with absolute paths
	report      string               // "" if it is not written
}

// metric is the last point of a series.
type metric struct {
	name, unit string
	step       int64
	value      float64
}

func newRunView(ctx context.Context, s *runs.Store, ref string) (v runView, err error) {
	if v.run, err = s.Find(ctx, ref); err != nil {
		return v, err
	}
	series, err := s.Series(ctx, v.run.ID)
	if err != nil {
		return v, err
	}
	for _, m := range series {
		p := m.Points[len(m.Points)-1]
		v.latest = append(v.latest, metric{m.Name, m.Unit, p.Step, p.Value})
	}
	v.best, v.hasBest = reports.BestValidation(series)
	scores, err := s.Scores(ctx, v.run.ID)
	if err != nil {
		return v, err
	}
	v.scores = ofLastStep(scores, func(s runs.Score) int64 { return s.Step })
	generations, err := s.Generations(ctx, v.run.ID)
	if err != nil {
		return v, err
	}
	v.generations = ofLastStep(generations, func(g runs.Generation) int64 { return g.Step })
	tables, err := s.Tables(ctx, v.run.ID)
	if err != nil {
		return v, err
	}
	v.samples = samplesOf(tables)
	events, err := s.Events(ctx, v.run.ID)
	if err != nil {
		return v, err
	}
	for _, e := range events {
		if hash, is := strings.CutPrefix(e.Text, "sha256 "); is && e.Kind == "weights" {
			v.weights, _, _ = strings.Cut(hash, " ")
		}
	}
	if v.artifacts, err = s.Artifacts(ctx, v.run.ID); err != nil {
		return v, err
	}
	for i, a := range v.artifacts {
		if !filepath.IsAbs(a.Path) {
			v.artifacts[i].Path = filepath.Join(s.Dir(), a.Path)
		}
	}
	if page := pagePath(s, v.run.ID); exists(page) {
		v.report = page
	}
	return v, nil
}

// samplesOf reads the last table of probe samples.
func samplesOf(tables []runs.Table) (samples []experiments.Sample) {
	for _, t := range slices.Backward(tables) {
		if t.Name != "probe samples" {
			continue
		}
		for _, row := range t.Rows {
			if len(row) == 5 {
				samples = append(samples, experiments.Sample{Task: row[0], Prompt: row[1], Answer: row[2], Expected: row[3], Right: row[4] == "✓"})
			}
		}
		return samples
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ofLastStep keeps the entries of the last step; they are sorted by step.
func ofLastStep[T any](all []T, step func(T) int64) []T {
	if len(all) == 0 {
		return nil
	}
	last := step(all[len(all)-1])
	return slices.DeleteFunc(all, func(v T) bool { return step(v) != last })
}

func (v runView) validation() float64 {
	for _, m := range v.latest {
		if m.name == "validation/loss" {
			return m.value
		}
	}
	return math.NaN()
}

func (v runView) write(w io.Writer, width int) {
	r := v.run
	fmt.Fprintf(w, "%s  %s  %s\n", visible(r.Name), r.ID, strings.ToUpper(string(r.State)))
	if r.Notes != "" {
		fmt.Fprintln(w, visible(r.Notes))
	}
	fmt.Fprintln(w)
	writeFacts(w, v.facts())

	fmt.Fprintln(w, "\nattempts")
	v.writeAttempts(w, width)
	if len(v.latest) > 0 {
		fmt.Fprintln(w, "\nlast values")
		v.writeLatest(w, width)
	}
	if len(v.scores) > 0 {
		fmt.Fprintf(w, "\nscores at step %s\n", count(v.scores[0].Step))
		writeScores(w, v.scores, width)
	}
	if len(v.samples) > 0 {
		fmt.Fprintln(w, "\nprobe samples")
		writeSamples(w, v.samples, width)
	}
	if len(v.generations) > 0 {
		fmt.Fprintf(w, "\ngenerations at step %s, greedy\n", count(v.generations[0].Step))
		if key := reports.GenerationKey(v.generations); key != "" {
			fmt.Fprintln(w, "  "+strings.ReplaceAll(paragraph(key, width-2), "\n", "\n  "))
		}
		writeGenerations(w, v.generations, width)
	}
	if len(v.artifacts) > 0 {
		fmt.Fprintln(w, "\nfiles")
		v.writeArtifacts(w)
	}
	fmt.Fprintln(w, "\nprovenance")
	writeFacts(w, v.provenance(width))
}

func (v runView) facts() [][2]string {
	r := v.run
	facts := [][2]string{
		{"created", r.Created.UTC().Format("2006-01-02 15:04:05 UTC") + ", " + humanize.Time(r.Created)},
		{"step", stepOf(r) + ", " + count(r.Tokens) + " tokens"},
	}
	if v.hasBest {
		facts = append(facts, [2]string{"validation loss", fmt.Sprintf("%s nats; best %.4g at %s tokens", nats(v.validation()), v.best.Value, brief(float64(v.best.Tokens)))})
	}
	facts = append(facts, [][2]string{
		{"time", duration(wallTime(r))},
		{"seed", strconv.FormatInt(r.Seed, 10)},
		{"spec", "sha256 " + r.SpecHash},
	}...)
	if all, active := parameters(r); all > 0 {
		facts = append(facts, [2]string{"model", fmt.Sprintf("%s parameters, %s active without the embedding", count(all), count(active))})
	}
	if v.weights != "" {
		facts = append(facts, [2]string{"weights", "sha256 " + v.weights})
	}
	if len(r.Tags) > 0 {
		facts = append(facts, [2]string{"tags", strings.Join(r.Tags, ", ")})
	}
	if v.report != "" {
		return append(facts, [2]string{"report", v.report})
	}
	return append(facts, [2]string{"report", "not written: " + v.program + " report " + r.ID})
}

// provenance leaves out the versions of libraries, which the JSON has.
func (v runView) provenance(width int) [][2]string {
	var facts [][2]string
	for _, key := range slices.Sorted(maps.Keys(v.run.Provenance)) {
		if !strings.HasPrefix(key, "module:") {
			facts = append(facts, [2]string{key, shorten(visible(v.run.Provenance[key]), max(20, width-20))})
		}
	}
	return facts
}

func (v runView) writeAttempts(w io.Writer, width int) {
	var rows []table.Row
	for _, a := range v.run.Attempts {
		core := "any"
		if a.Core >= 0 {
			core = strconv.Itoa(a.Core)
		}
		rows = append(rows, table.Row{a.Number, string(a.State), count(a.FromStep), count(a.Step), duration(attemptTime(a)),
			visible(a.Host), core, visible(a.Kernels), visible(a.Message)})
	}
	writeTable(w, width, table.Row{"no", "state", "from step", "to step", "time", "host", "core", "kernels", "message"}, rows,
		"no", "from step", "to step", "time", "core")
}

func (v runView) writeLatest(w io.Writer, width int) {
	var rows []table.Row
	for _, m := range v.latest {
		rows = append(rows, table.Row{visible(m.name), strconv.FormatFloat(m.value, 'g', 6, 64), visible(m.unit), count(m.step)})
	}
	writeTable(w, width, table.Row{"metric", "value", "unit", "step"}, rows, "value", "step")
}

// writeArtifacts prints paths whole, whatever the width: they are there to be copied.
func (v runView) writeArtifacts(w io.Writer) {
	gone := 0
	for _, a := range v.artifacts {
		if !exists(a.Path) {
			gone++
			continue
		}
		fmt.Fprintf(w, "  %s of step %s, %s\n    %s\n", visible(a.Kind), count(a.Step), humanize.IBytes(uint64(max(0, a.Bytes))), visible(a.Path))
	}
	if gone > 0 {
		fmt.Fprintf(w, "  %d more are not kept any longer; --json lists them\n", gone)
	}
}

type showJSON struct {
	runJSON
	Notes       string                `json:"notes,omitempty"`
	Seed        int64                 `json:"seed"`
	SpecHash    string                `json:"spec_sha256"`
	Spec        string                `json:"spec"`
	Attempts    []attemptJSON         `json:"attempts"`
	Latest      map[string]latestJSON `json:"latest"`
	Scores      []scoreJSON           `json:"scores"`
	Samples     []sampleJSON          `json:"probe_samples"`
	Generations []generationJSON      `json:"generations"`
	Weights     string                `json:"weights_sha256,omitempty"`
	Artifacts   []artifactJSON        `json:"artifacts"`
	Provenance  map[string]string     `json:"provenance"`
	Report      string                `json:"report,omitempty"`
}

type latestJSON struct {
	Step  int64  `json:"step"`
	Value number `json:"value"`
	Unit  string `json:"unit,omitempty"`
}

type artifactJSON struct {
	Step   int64  `json:"step"`
	Kind   string `json:"kind"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

func (v runView) json() showJSON {
	j := showJSON{runJSON: newRunJSON(v.run, v.validation()), Notes: v.run.Notes, Seed: v.run.Seed, SpecHash: v.run.SpecHash,
		Spec: v.run.Spec, Attempts: []attemptJSON{}, Latest: map[string]latestJSON{}, Scores: scoresJSON(v.scores),
		Samples: samplesJSON(v.samples), Generations: generationsJSON(v.generations), Weights: v.weights, Artifacts: []artifactJSON{}, Provenance: v.run.Provenance, Report: v.report}
	for _, a := range v.run.Attempts {
		j.Attempts = append(j.Attempts, attemptJSON{Number: a.Number, State: string(a.State), Message: a.Message, FromStep: a.FromStep,
			Step: a.Step, Started: a.Started, Ended: timeOrNone(a.Ended), Host: a.Host, PID: a.PID, Core: a.Core, Kernels: a.Kernels, Command: a.Command})
	}
	for _, m := range v.latest {
		j.Latest[m.name] = latestJSON{m.step, number(m.value), m.unit}
	}
	for _, a := range v.artifacts {
		j.Artifacts = append(j.Artifacts, artifactJSON{a.Step, a.Kind, a.Path, a.SHA256, a.Bytes})
	}
	return j
}
