package experiments

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness/nn"
	"harness/runs"
)

// methods are all that a spec can grow by.
var methods = []nn.GrowthMethod{nn.Split, nn.SplitFlat, nn.InsertZero}

// thatGrows are overrides of tinySpec: both layers are mixtures of 4 experts, which grow
// after steps 20 and 40 of 63 to 8 and 16, or to 6 and 9 by insert_zero.
func thatGrows(method nn.GrowthMethod, more ...string) []string {
	first, second := 8, 16
	if method == nn.InsertZero {
		first, second = 6, 9
	}
	return append([]string{"budget=8k",
		"model.moe={layers: [0, 1], experts: 4, top_k: 2, d_ff: 8, route_block: 8}",
		fmt.Sprintf("grow=[{at: 2500, experts: %d, method: %s}, {at: 5120, experts: %d, method: %s}]", first, method, second, method)}, more...)
}

// inAFile is the spec's resolved form as a file, for a child to run.
func inAFile(t *testing.T, spec *Spec) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "resolved.yaml")
	if err := os.WriteFile(path, []byte(spec.YAML()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// tablesOf reads the tables in view, without what differs between attempts.
func tablesOf(t *testing.T, dir, runID string) map[string][]runs.Table {
	t.Helper()
	s, err := runs.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tables, err := s.Tables(context.Background(), runID)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string][]runs.Table{}
	for _, x := range tables {
		byName[x.Name] = append(byName[x.Name], runs.Table{Step: x.Step, Name: x.Name, Columns: x.Columns, Rows: x.Rows})
	}
	return byName
}

// eventsOf lists the events of a kind as step and text, with the attempts that told them.
func eventsOf(t *testing.T, dir, runID, kind string) (told []string, by map[string][]int) {
	t.Helper()
	s, err := runs.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	events, err := s.Events(context.Background(), runID)
	if err != nil {
		t.Fatal(err)
	}
	by = map[string][]int{}
	for _, e := range events {
		if e.Kind != kind {
			continue
		}
		line := fmt.Sprintf("%d: %s", e.Step, e.Text)
		if by[line] == nil {
			told = append(told, line)
		}
		by[line] = append(by[line], e.Attempt)
	}
	return told, by
}

// lineage is what the lineage tables say, a line for each growth step.
func lineage(t *testing.T, dir, runID string) []string {
	t.Helper()
	var lines []string
	for _, table := range tablesOf(t, dir, runID)["lineage"] {
		if !slices.Equal(table.Columns, []string{"method", "experts before", "experts after", "jitter", "parents"}) {
			t.Errorf("columns %q", table.Columns)
		}
		for _, row := range table.Rows {
			lines = append(lines, fmt.Sprintf("%d: %s", table.Step, strings.Join(row, ", ")))
		}
	}
	return lines
}

// A growth step waits for the end of the training step that reaches it. What is due
// at once happens in order.
func TestGrowthHappensAtTheFirstStepThatReachesIt(t *testing.T) {
	base := thatGrows(nn.InsertZero)[:2]
	for _, c := range []struct {
		method nn.GrowthMethod
		grow   string
		want   []string
	}{
		{nn.InsertZero, "{at: 1, experts: 5, jitter: 0}, {at: 1280, experts: 6}, {at: 1281, experts: 7}, {at: 2500, experts: 8}, {at: 2559, experts: 9}, {at: 2560, experts: 11}, {at: 2561, experts: 12}", []string{
			"1: insert_zero, 4, 5, -, 0 1 2 3 -",
			"10: insert_zero, 5, 6, -, 0 1 2 3 4 -",
			"11: insert_zero, 6, 7, -, 0 1 2 3 4 5 -",
			"20: insert_zero, 7, 8, -, 0 1 2 3 4 5 6 -",
			"20: insert_zero, 8, 9, -, 0 1 2 3 4 5 6 7 -",
			"20: insert_zero, 9, 11, -, 0 1 2 3 4 5 6 7 8 - -",
			"21: insert_zero, 11, 12, -, 0 1 2 3 4 5 6 7 8 9 10 -",
		}},
		{nn.Split, "{at: 2500, experts: 8, jitter: 0.5}, {at: 2501, experts: 32}, {at: 7936, experts: 64}", []string{
			"20: split, 4, 8, 0.5, 0 0 1 1 2 2 3 3",
			"20: split, 8, 32, 0.01, 0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3 4 4 4 4 5 5 5 5 6 6 6 6 7 7 7 7",
			"62: split, 32, 64, 0.01, 0 0 1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8 9 9 10 10 11 11 12 12 13 13 14 14 15 15 " +
				"16 16 17 17 18 18 19 19 20 20 21 21 22 22 23 23 24 24 25 25 26 26 27 27 28 28 29 29 30 30 31 31",
		}},
		{nn.SplitFlat, "{at: 129, experts: 8}", []string{"2: split_flat, 4, 8, 0.01, 0 0 1 1 2 2 3 3"}},
	} {
		dir := t.TempDir()
		grow := "grow=[" + strings.ReplaceAll(c.grow, "}", ", method: "+string(c.method)+"}") + "]"
		out := run(t, load(t, tinySpec(t, ""), append(slices.Clone(base), grow)...), dir)
		if got := lineage(t, dir, out.Run.ID); !slices.Equal(got, c.want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		told, by := eventsOf(t, dir, out.Run.ID, "growth")
		for i, line := range c.want {
			var step, before, after int
			fields := strings.Split(line, ", ")
			fmt.Sscanf(line, "%d:", &step)
			fmt.Sscanf(fields[1]+" "+fields[2], "%d %d", &before, &after)
			want := fmt.Sprintf("%d: %s: %d experts become %d in every mixture", step, c.method, before, after)
			if i >= len(told) || told[i] != want || len(by[want]) != 1 {
				t.Errorf("events %v, want number %d to be %q, once", by, i, want)
			}
		}
		trained, err := LoadTrained(context.Background(), dir, out.Run.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		if n := len(trained.Model.Grown()); n != len(c.want) || out.Steps != 63 {
			t.Errorf("%s: %d growth steps in the model after %d steps, want %d after 63", c.method, n, out.Steps, len(c.want))
		}
	}
}

// Each growth step draws jitter of its own: were it that of the step before, the rows
// of one level would repeat the noise of the level above.
func TestGrowthStepsDrawTheirOwnJitter(t *testing.T) {
	spec := load(t, tinySpec(t, ""), append(thatGrows(nn.Split), "grow[0].jitter=0.5", "grow[1].jitter=0.5")...)
	tr := openTrainer(t, spec, 63)
	for _, g := range spec.Grow {
		tr.grow(g)
	}
	for _, layer := range tr.model.Layers {
		routers, d := layer.Mixture.Routers, tr.model.DModel
		// noise is that of a level's first row, in units of its parent's rms.
		noise := func(level int) []float64 {
			parent, squares := routers[level-1].Data[:d], 0.0
			for _, w := range parent {
				squares += float64(w) * float64(w)
			}
			var drawn []float64
			for j, w := range routers[level].Data[:d] {
				drawn = append(drawn, float64(w-parent[j])/(0.5*math.Sqrt(squares/float64(d))))
			}
			return drawn
		}
		first, second := noise(1), noise(2)
		for j := range first {
			if math.Abs(first[j]-second[j]) < 1e-4 {
				t.Errorf("noise %d is %.6f at both growth steps", j, first[j])
			}
		}
	}
}

// A budget in time may end before a growth step: the run then ends without it.
func TestATimeTooShortForAGrowthStepEndsTheRunWithoutIt(t *testing.T) {
	dir := t.TempDir()
	spec := load(t, tinySpec(t, ""), append(thatGrows(nn.Split)[:2], "budget=2s", "grow=[{at: 1280, experts: 8}, {at: 900B, experts: 16}]",
		"train.validate_every=100%", "probes.every=100%", "probes.n=1", "probes.generations=0")...)
	var notes []string
	out, err := Run(context.Background(), spec, Options{Store: dir, Observe: func(u Update) { notes = append(notes, u.Note) }})
	if err != nil || out.State != runs.Finished || out.Steps < 12 {
		t.Fatalf("%s after %d steps: %s, %v", out.State, out.Steps, out.Message, err)
	}
	said := strings.Join(notes, "\n")
	if !strings.Contains(said, "the budget ends before the growth to 16 experts at 900,000,000,000 tokens") || strings.Contains(said, "growth to 8 experts") {
		t.Errorf("the user was told %q", notes)
	}
	if got := lineage(t, dir, out.Run.ID); len(got) != 1 || !strings.HasPrefix(got[0], "10: split, 4, 8, ") {
		t.Errorf("lineage %q", got)
	}
	trained, err := LoadTrained(context.Background(), dir, out.Run.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	if n := trained.Model.Layers[0].Mixture.Experts(); n != 8 {
		t.Errorf("%d experts", n)
	}
}
