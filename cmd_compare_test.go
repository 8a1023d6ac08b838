package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"

	"harness/reports"
	"harness/runs"
)

// armsStore is a store with three arms of two seeds, and a run that crashed.
func armsStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := runs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	finished := func(name string, seed int64, loss, shift float64, state runs.State) {
		run, err := s.Create(t.Context(), runs.NewRun{Name: name, Seed: seed, Tags: []string{"ladder"}, Spec: "model: {d_model: 128}\n",
			Provenance: map[string]string{"corpus_hash": "c0ffee", "kernels": "portable", "parameters": "1101234", "body_parameters": "607936"}})
		if err != nil {
			t.Fatal(err)
		}
		rec, err := s.Begin(t.Context(), run.ID, runs.AttemptInfo{Host: "box", Kernels: "portable"})
		if err != nil {
			t.Fatal(err)
		}
		rec.Metric("throughput", 10, 10240, 20000+1000*float64(seed))
		rec.Metric("validation/loss", 10, 10240, loss)
		rec.Score(runs.Score{Step: 10, Name: "shift", Value: shift, Low: shift - 0.04, High: min(1, shift+0.04), Chance: 1.0 / 14, N: 500})
		if err := rec.Finish(t.Context(), state, ""); err != nil {
			t.Fatal(err)
		}
	}
	for seed := int64(1); seed <= 2; seed++ {
		noise := float64(seed) / 50
		finished("ladder-dense", seed, 3.2+noise, 0.5+noise, runs.Finished)
		finished("ladder-window-e16", seed, 3.1+noise+float64(seed)/1000, 0.9+noise, runs.Finished)
	}
	finished("ladder-prefix-e16", 1, 3.25, 0.05, runs.Finished)
	finished("ladder-prefix-e16", 2, math.NaN(), 0.05, runs.Diverged)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestComparisonFitsTheTerminal(t *testing.T) {
	s, err := runs.OpenReadOnly(armsStore(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	arms, err := reports.LoadArms(t.Context(), s, reports.Selection{Tag: "ladder", Baseline: "ladder-dense"})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for i := range arms.Arms {
		for k := range arms.Arms[i].Runs {
			r := &arms.Arms[i].Runs[k]
			r.Time = 10 * time.Minute // this test's own time is no constant
			ids[r.ID] = "01ID" + string(rune('A'+len(ids)))
		}
	}
	ids[arms.LeftOut[0].ID] = "01LEFT"
	var b bytes.Buffer
	for _, width := range []int{80, 160, unlimited} {
		var one bytes.Buffer
		writeComparison(&one, arms, func(id string) string { return ids[id] }, width)
		for line := range strings.Lines(one.String()) {
			if got := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); got > width {
				t.Errorf("%d columns in %d: %s", got, width, line)
			}
		}
		b.WriteString(one.String() + "\n")
	}
	golden(t, "compare.golden", b.String())
}

func TestCompareInEveryForm(t *testing.T) {
	store := armsStore(t)
	r := harness(t, store, "compare", "--tag", "ladder", "--baseline", "ladder-dense", "--json")
	var j comparisonJSON
	if r.code != 0 || json.Unmarshal([]byte(strings.ReplaceAll(r.stdout, `"NaN"`, "0")), &j) != nil || len(j.Arms) != 3 {
		t.Fatalf("code %d, %s %s", r.code, r.stdout, r.stderr)
	}
	if d := j.Arms[1].Difference; d == nil || d.Verdict != "better" || d.N != 2 || j.Arms[1].Name != "ladder-window-e16" {
		t.Errorf("second arm %+v", j.Arms[1])
	}
	if len(j.LeftOut) != 1 || j.LeftOut[0].Why != "diverged at step 10" || len(j.Arms[0].Runs) != 2 || len(j.Arms[0].Runs[0].ID) != 26 {
		t.Errorf("left out %+v, runs %+v", j.LeftOut, j.Arms[0].Runs)
	}
	if r := harness(t, store, "compare", "ladder-dense", "ladder-window-e16", "--markdown"); r.code != 0 ||
		!strings.Contains(r.stdout, "| less baseline |") || !strings.Contains(r.stdout, "* ladder-window-e16: seed 1 "+j.Arms[1].Runs[0].ID) {
		t.Errorf("code %d, %s %s", r.code, r.stdout, r.stderr)
	}
	path := filepath.Join(t.TempDir(), "arms.html")
	if r := harness(t, store, "compare", "--name-prefix", "ladder-", "--html", path); r.code != 0 || r.stdout != path+"\n" {
		t.Errorf("code %d, %q %s", r.code, r.stdout, r.stderr)
	}
	if html, err := os.ReadFile(path); err != nil || !isPage(string(html)) || strings.Contains(string(html), "difference</th>") {
		t.Errorf("no page, or differences to no baseline: %v", err)
	}
	if r := harness(t, store, "compare", j.Arms[2].Runs[0].ID, "--html", "-"); r.code != 0 || !isPage(r.stdout) {
		t.Errorf("code %d, %.100q %s", r.code, r.stdout, r.stderr)
	}
}

func TestMistakesInComparing(t *testing.T) {
	store, dir := armsStore(t), t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitUsage, "no runs are chosen"},
		{[]string{"ladder-dnse"}, exitError, "no such run"},
		{[]string{"--tag", "laddr"}, exitError, `none has the tag "laddr"; there are ladder`},
		{[]string{"--name-prefix", "x", "--tag", "ladder"}, exitError, `no run with the tag "ladder" has a name that begins with "x"`},
		{[]string{"--tag", "ladder", "--baseline", "dense"}, exitUsage, `"dense"; there are ladder-dense, ladder-prefix-e16, ladder-window-e16`},
		{[]string{"--tag", "ladder", "--json", "--markdown"}, exitUsage, "--json and --markdown exclude each other"},
		{[]string{"--tag", "ladder", "--html", dir}, exitUsage, "is a directory"},
		{[]string{"--tag", "ladder", "--html", ""}, exitUsage, "names no file"},
		{[]string{"--tag", "ladder", "--html", dir + "/none/a.html"}, exitError, "no such file"},
	} {
		r := harness(t, store, append([]string{"compare"}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.says) || strings.Count(r.stderr, "\n") != 1 || r.stdout != "" {
			t.Errorf("%q: code %d (want %d), %q", c.args, r.code, c.code, r.stderr)
		}
	}
	if r := harness(t, storeOf(t, "a"), "compare", "a"); r.code != exitError || !strings.Contains(r.stderr, "pending") {
		t.Errorf("an unfinished run: code %d, %q", r.code, r.stderr)
	}
	if r := harness(t, t.TempDir(), "compare", "a"); r.code != exitError || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("no store: code %d, %q", r.code, r.stderr)
	}
}
