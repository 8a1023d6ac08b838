package reports

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harness/runs"
)

// armRun is a finished run of an arm as it is loaded from a store.
func armRun(name string, seed int64, loss float64) ArmRun {
	start := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC).Add(time.Duration(seed) * time.Hour)
	id := fmt.Sprintf("01K7%s%02d", strings.ToUpper(strings.ReplaceAll(name, "-", "")), seed)
	return ArmRun{
		Run: runs.Run{ID: id, Name: name, Seed: seed, State: runs.Finished, Step: 4000, Tokens: 4_096_000,
			Spec:       fmt.Sprintf("name: %s\nseed: %d\nmodel: {d_model: 128}\ncorpus: {tasks: [{name: shift, kind: shift, min: 6, max: 6}]}\n", name, seed),
			Provenance: map[string]string{"corpus_hash": "c0ffee00c0ffee00", "kernels": "avx512", "code_version": "0123456789abcdef", "cpu": "a test"},
			Attempts: []runs.Attempt{{AttemptInfo: runs.AttemptInfo{Host: "box", Core: 1, Kernels: "avx512"},
				Started: start, Ended: start.Add(9 * time.Minute)}}},
		Loss: runs.Point{Step: 4000, Tokens: 4_096_000, Value: loss}, Speed: 20_000 + 100*float64(seed), Stored: 1_101_234, Active: 607_936, Time: 9 * time.Minute,
		Scores: []runs.Score{{Name: "shift", Value: 0.5 + float64(seed)/20, Low: 0.4 + float64(seed)/20, High: 0.6 + float64(seed)/20, Chance: 1.0 / 14, N: 500}},
	}
}

// fourArms are a baseline, one that is better, one that cannot be told from it, and one
// of another corpus and kernel set.
func fourArms() []ArmRun {
	var all []ArmRun
	for seed := int64(1); seed <= 3; seed++ {
		noise := []float64{0, 0.03, -0.02, 0.01}[seed]
		window := armRun("window-e16", seed, 3.05+noise+0.004*float64(seed))
		window.Stored, window.Shared = 2_400_000, seed == 2
		all = append(all, armRun("dense", seed, 3.2+noise), window, armRun("prefix-e16", seed, 3.19-noise))
	}
	foreign := armRun("other-text", 1, 2.9)
	foreign.Provenance["corpus_hash"], foreign.Tokens, foreign.Scores = "badbeef", 1_024_000, nil
	foreign.Attempts[0].Kernels = "vnni16"
	return append(all, foreign)
}

func mustArms(t *testing.T, loaded []ArmRun, baseline string) ArmsPage {
	t.Helper()
	page, err := newArmsPage(loaded, []LeftOut{{"prefix-e16", "01K7LEFT", "crashed at step 1,200", 4}}, Selection{Tag: "ladder", Baseline: baseline})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func renderArms(t *testing.T, page ArmsPage) string {
	t.Helper()
	var out bytes.Buffer
	if err := page.Render(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestGoldenArms(t *testing.T) {
	page := mustArms(t, fourArms(), "dense")
	var markdown bytes.Buffer
	if err := page.Markdown(&markdown); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"arms.html": renderArms(t, page), "arms.md": markdown.String()} {
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs (-update accepts):\n%s", golden, got)
		}
	}
}

// The t interval of 1, 2, 4: mean 7/3, deviation sqrt(7/3), and 4.303 from any table.
func TestEstimateIsStudents(t *testing.T) {
	e := estimate([]float64{1, 2, 4})
	if want := 4.302653 * math.Sqrt(7.0/3) / math.Sqrt(3); math.Abs(e.Half-want) > 1e-5 || math.Abs(e.Mean-7.0/3) > 1e-12 || e.N != 3 {
		t.Errorf("%+v, want half %g", e, want)
	}
	if e := estimate([]float64{5}); e.Mean != 5 || !math.IsNaN(e.Half) {
		t.Errorf("one value: %+v", e)
	}
	if e := estimate(nil); !math.IsNaN(e.Mean) || e.N != 0 {
		t.Errorf("no value: %+v", e)
	}
}

func TestArmsArePairedBySeed(t *testing.T) {
	page := mustArms(t, fourArms(), "dense")
	var order []string
	for _, a := range page.Arms {
		order = append(order, a.Name+" "+a.Difference.Verdict()+a.Difference.Why)
	}
	want := []string{"dense ", "other-text another corpus", "window-e16 better", "prefix-e16 no difference shown"}
	if strings.Join(order, "; ") != strings.Join(want, "; ") {
		t.Errorf("arms %q, want %q", order, want)
	}
	// The seeds' noise is far wider than the difference between runs of one seed.
	if d := page.Arms[2].Difference; d.N != 3 || d.Half > 0.02 || page.Arms[2].Loss.Half < 0.05 {
		t.Errorf("difference %+v beside loss %+v", d, page.Arms[2].Loss)
	}
	worse := mustArms(t, fourArms(), "window-e16")
	if v := worse.Arms[2].Difference.Verdict(); worse.Arms[2].Name != "prefix-e16" || v != "worse" && v != "no difference shown" {
		t.Errorf("%s is %s", worse.Arms[2].Name, v)
	}
	for _, a := range worse.Arms {
		if a.Name == "dense" && a.Difference.Verdict() != "worse" {
			t.Errorf("the other way around: %+v", a.Difference)
		}
	}
	longer := []ArmRun{armRun("a", 1, 3), armRun("b", 1, 2)}
	longer[1].Tokens *= 2
	if d := mustArms(t, longer, "a").Arms[1].Difference; d.Reading() != "no difference shown, another budget" {
		t.Errorf("twice the budget reads %q", d.Reading())
	}
	lone := mustArms(t, []ArmRun{armRun("a", 1, 3), armRun("b", 2, 2), armRun("c", 1, 2)}, "a")
	for _, a := range lone.Arms {
		want := map[string]string{"a": "", "b": "no seed in common", "c": "no difference shown"}[a.Name]
		if got := a.Difference.Verdict() + a.Difference.Why; got != want {
			t.Errorf("%s: %q, want %q: one pair has no interval", a.Name, got, want)
		}
	}
}

func TestWhatIsToBeMinded(t *testing.T) {
	loaded := fourArms()
	loaded[3].Spec = strings.Replace(loaded[3].Spec, "d_model: 128", "d_model: 256", 1)
	loaded[4].Loss.Step = 3000
	loaded[2].Grown = true
	notes := strings.Join(mustArms(t, loaded, "dense").Notes, "\n")
	for _, want := range []string{
		"Corpora or tokenizers differ", "c0ffee00c0ff (dense, window-e16, prefix-e16)", "badbeef (other-text)",
		"4,096,000 tokens (dense,", "1,024,000 tokens (other-text)", "vnni16 (other-text)",
		"The runs of dense have different specs, besides the seed: model.d_model.",
		"The mixtures of prefix-e16 grew", "The last validation of window-e16, seed 2, is of step 3,000", "†: runs of the arm shared",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
	if notes := mustArms(t, []ArmRun{armRun("a", 1, 3), armRun("a", 2, 3), armRun("b", 1, 2)}, "a").Notes; len(notes) != 0 {
		t.Errorf("nothing is to be minded, and yet %q", notes)
	}
}

func TestScoresOfArms(t *testing.T) {
	page := mustArms(t, fourArms(), "")
	cells := map[string]string{}
	for _, c := range page.Columns() {
		for i, a := range page.Arms {
			cells[a.Name+" "+c.Name] = c.Cells[i]
		}
		if c.Name == "less baseline" || c.Name == "verdict" {
			t.Errorf("column %s without a baseline", c.Name)
		}
	}
	for of, want := range map[string]string{
		"dense shift (chance 7.1%, n 500)": "60.0% 47.6–72.4% +", "other-text shift (chance 7.1%, n 500)": "",
		"window-e16 tokens/s": "20,200†", "dense tokens/s": "20,200", "window-e16 stored": "2.4M", "dense active body": "608k", "dense time": "9m0s",
	} {
		if cells[of] != want {
			t.Errorf("%s: %q, want %q", of, cells[of], want)
		}
	}
	two := []ArmRun{armRun("a", 1, 3), armRun("a", 2, 3), armRun("b", 1, 3), armRun("b", 2, 3)}
	for i := range two {
		two[i].Scores[0].Chance = 0.1 + 0.1*float64(i%2) // by seed
	}
	if columns := mustArms(t, two, "").Columns(); columns[len(columns)-1].Name != "shift (chance 15.0%, n 500)" {
		t.Errorf("where chance differs between seeds alone: %s", columns[len(columns)-1].Name)
	}
	one := armRun("a", 1, 3)
	b := armRun("b", 1, 3)
	b.Scores[0].Chance, b.Scores[0].N = 0.23, 200
	own := mustArms(t, []ArmRun{one, b}, "")
	columns := own.Columns()
	if got := columns[len(columns)-1]; got.Name != "shift" || got.Cells[1] != "55.0% 45.0–65.0% + (chance 23.0%, n 200)" {
		t.Errorf("where chance differs: %+v", got)
	}
}

func TestHostileArmsStayText(t *testing.T) {
	const name = hostile + "|a|"
	loaded := fourArms()
	for i := range loaded {
		if loaded[i].Name == "dense" {
			loaded[i].Name = name
			loaded[i].Scores[0].Name += hostile
			loaded[i].Provenance["corpus_hash"] = "c0ffee00c0ffee00"
		}
	}
	page := mustArms(t, loaded, name)
	root := parsePage(t, renderArms(t, page))
	if n := len(elements(root, "img")) + len(elements(root, "script")); n != 0 {
		t.Errorf("%d elements were injected", n)
	}
	var md bytes.Buffer
	if err := page.Markdown(&md); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(md.String(), "<") || strings.ContainsAny(md.String(), "\x00\x1b") {
		t.Error("Markdown holds markup of a run's")
	}
	lines := strings.Split(md.String(), "\n")
	for i, line := range lines[:2+len(page.Arms)] {
		bars := strings.Count(line, "|") - strings.Count(line, `\|`)
		if bars != len(page.Columns())+1 {
			t.Errorf("row %d has %d bars: %s", i, bars, line)
		}
	}
}

func TestArmsPageLoadsNothing(t *testing.T) {
	root := parsePage(t, renderArms(t, mustArms(t, fourArms(), "dense")))
	for n := range root.Descendants() {
		for _, key := range []string{"src", "href"} {
			if v := attribute(n, key); v != "" && !strings.HasPrefix(v, "#") {
				t.Errorf("<%s %s=%q>", n.Data, key, v)
			}
		}
	}
	if policy := attribute(elements(root, "meta")[1], "content"); !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "script") {
		t.Errorf("policy %q", policy)
	}
}

// From a store: which runs count, and what is read of them.
func TestLoadArms(t *testing.T) {
	ctx := t.Context()
	store, err := runs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	begin := func(name string, seed int64, tags ...string) (string, *runs.Recorder) {
		run, err := store.Create(ctx, runs.NewRun{Name: name, Seed: seed, Tags: tags, Provenance: map[string]string{"corpus_hash": "c", "parameters": "7", "body_parameters": "5"}})
		if err != nil {
			t.Fatal(err)
		}
		rec, err := store.Begin(ctx, run.ID, runs.AttemptInfo{Host: "box"})
		if err != nil {
			t.Fatal(err)
		}
		return run.ID, rec
	}
	finish := func(rec *runs.Recorder, state runs.State, loss float64) {
		rec.Metric("throughput", 1, 10, 100)
		rec.Metric("throughput", 2, 20, 300)
		rec.Metric("throughput", 3, 30, 200)
		rec.Score(runs.Score{Step: 2, Name: "shift", Value: 0.1, Low: 0, High: 0.2, N: 10})
		rec.Score(runs.Score{Step: 3, Name: "shift", Value: 0.9, Low: 0.8, High: 1, N: 10})
		if !math.IsInf(loss, 0) {
			rec.Metric("validation/loss", 2, 20, loss+1)
			rec.Metric("validation/loss", 3, 30, loss)
		}
		if err := rec.Finish(ctx, state, ""); err != nil {
			t.Fatal(err)
		}
	}
	older, rec := begin("dense", 1, "ladder")
	finish(rec, runs.Finished, 9)
	newer, rec := begin("dense", 1, "ladder")
	rec.Table(runs.Table{Name: "parameters", Columns: []string{"part", "parameters"}, Rows: [][]string{{"body", "3,000"}, {"shared experts", "500"}, {"experts active", "1,000"}, {"stored", "9,000"}}})
	rec.Table(split(2, 4))
	finish(rec, runs.Finished, 3)
	_, one := begin("moe", 1, "ladder") // these two at once
	_, two := begin("moe", 2)
	finish(one, runs.Finished, 2)
	finish(two, runs.Finished, 2.5)
	stopped, rec := begin("moe", 3, "ladder")
	finish(rec, runs.Interrupted, 2)
	blind, rec := begin("moe", 4, "ladder")
	finish(rec, runs.Finished, math.Inf(1))

	load := func(sel Selection) ArmsPage {
		t.Helper()
		page, err := LoadArms(ctx, store, sel)
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	page := load(Selection{Runs: []string{"dense", "moe"}})
	if page.Baseline != "dense" || len(page.Arms) != 2 || len(page.Arms[1].Runs) != 2 {
		t.Fatalf("%+v", page)
	}
	dense := page.Arms[0].Runs[0]
	if dense.ID != newer || dense.Loss.Value != 3 || dense.Speed != 200 || dense.Shared || dense.Stored != 9000 || dense.Active != 4500 || !dense.Grown || len(dense.Scores) != 1 || dense.Scores[0].Value != 0.9 {
		t.Errorf("dense: %+v", dense)
	}
	if moe := page.Arms[1].Runs; !moe[0].Shared || !moe[1].Shared || moe[0].Grown || moe[0].Stored != 7 || moe[0].Active != 5 {
		t.Errorf("moe: %+v", moe)
	}
	why := map[string]string{older: "the newer run " + newer + " has the same name and seed", stopped: "interrupted at step 3", blind: "it has no validation loss"}
	for _, l := range page.LeftOut {
		if why[l.ID] != l.Why {
			t.Errorf("%s is left out: %s, want %q", l.ID, l.Why, why[l.ID])
		}
	}
	if len(page.LeftOut) != len(why) {
		t.Errorf("left out: %+v", page.LeftOut)
	}
	if page := load(Selection{Tag: "ladder", Prefix: "mo"}); len(page.Arms) != 1 || len(page.Arms[0].Runs) != 1 || page.Baseline != "" {
		t.Errorf("tag and prefix: %+v", page.Arms)
	}
	if page := load(Selection{Runs: []string{older}, Prefix: "moe"}); page.Baseline != "dense" || page.Arms[0].Runs[0].ID != older {
		t.Errorf("an id is one run: %+v", page.Arms[0].Runs)
	}
	for want, sel := range map[error]Selection{runs.ErrNotFound: {Tag: "none"}, ErrNoBaseline: {Tag: "ladder", Baseline: "none"}} {
		if _, err := LoadArms(ctx, store, sel); !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", sel, err, want)
		}
	}
	if _, err := LoadArms(ctx, store, Selection{Runs: []string{stopped}}); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("nothing but an unfinished run: %v", err)
	}
}
