package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"harness/experiments"
	"harness/runs"
)

// lawSpecText is the headline arm of the paper with E experts, growth left out.
func lawSpecText(name, budget string, experts int, more string) string {
	return fmt.Sprintf(`name: %s
budget: %s
corpus:
  sources: [{name: go, kind: gotree}]
  tasks: [{name: copy, kind: copy}]
  phases: [{until: 30%%, weights: {go: 1}}, {until: 1, weights: {go: 1, copy: 1}}]
model: {d_model: 384, moe: {layers: [0, 3, 5], experts: %d, top_k: 4, d_ff: 112}}
%s`, name, budget, experts, more)
}

const lawGrowth = "grow: [{at: 600M, experts: 64}, {at: 1.2B, experts: 128}]\n"

// lawRun stores a run of a spec as if it had been trained, its layer 3 with the
// branch share and the swap cost that are given, and the gain's participation.
func lawRun(t *testing.T, store *runs.Store, spec *experiments.Spec, share, swap, low, high string, gain ...string) string {
	t.Helper()
	run, err := store.Create(t.Context(), runs.NewRun{Name: spec.Name, Spec: spec.YAML(), SpecHash: spec.Hash(), Seed: spec.Seed,
		Provenance: map[string]string{"steps": "63232"}})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := store.Begin(t.Context(), run.ID, runs.AttemptInfo{})
	if err != nil {
		t.Fatal(err)
	}
	const step = 63_232
	gains, branches, router, swaps := [][]string{}, [][]string{}, [][]string{}, [][]string{}
	for _, layer := range []string{"0", "3", "5"} {
		cells := []string{"0.2000", "0.1000", "0.0900", "0.1100", "200.0"}
		if layer == "3" {
			cells = append([]string{share, swap, low, high}, append(gain, "48.0")...)
		}
		gains = append(gains, []string{"layers." + layer + ".ffn_norm", cells[4], "384", "0.045"})
		branches = append(branches, []string{"layers." + layer + ".moe", cells[0]})
		router = append(router, []string{layer, fmt.Sprint(spec.Model.MoE.Experts), "60.0", "3", "0.001", "0.9", "3.0", "4.000", "0.2"})
		swaps = append(swaps, []string{layer, "swap", cells[1], cells[2], cells[3], "64"}, []string{layer, "permute", "0.0000", "-0.0001", "0.0001", "64"})
	}
	rec.Table(runs.Table{Step: step, Name: "norm gains", Columns: []string{"gain", "participation", "of", "rms"}, Rows: gains})
	rec.Table(runs.Table{Step: step, Name: "branches", Columns: []string{"branch", "share of the stream"}, Rows: branches})
	rec.Table(runs.Table{Step: step, Name: "router", Columns: []string{"layer", "experts", "effective", "dead", "least load", "median load", "most load", "entropy", "first-block share"}, Rows: router})
	rec.Table(runs.Table{Step: step, Name: "routing ablations", Columns: []string{"layer", "ablation", "cost nats/token", "low", "high", "n"}, Rows: swaps})
	rec.Reached(step, step*4096)
	if err := rec.Finish(t.Context(), runs.Finished, ""); err != nil {
		t.Fatal(err)
	}
	return run.ID
}

func loadLaw(t *testing.T, text string, overrides ...string) *experiments.Spec {
	t.Helper()
	spec, err := experiments.Parse("/specs/law.yaml", []byte(text), overrides)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func openLawStore(t *testing.T) (string, *runs.Store) {
	t.Helper()
	dir := t.TempDir()
	store, err := runs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir, store
}

// words is text with all white space one blank.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }

func expectSays(t *testing.T, what string, r result, says ...string) {
	t.Helper()
	if r.code != 0 || r.stderr != "" {
		t.Errorf("%s: code %d, %s", what, r.code, r.stderr)
	}
	for _, want := range says {
		if !strings.Contains(words(r.stdout), want) {
			t.Errorf("%s does not say %q:\n%s", what, want, r.stdout)
		}
	}
}

func TestPlanOfASpec(t *testing.T) {
	dir, none := t.TempDir(), filepath.Join(t.TempDir(), "none")
	paper := write(t, filepath.Join(dir, "paper.yaml"), lawSpecText("paper", "259M", 128, ""))
	expectSays(t, "the paper's arm", harness(t, none, "plan", paper),
		"3*d_model*d_ff = 3*384*112 = 129,024 parameters", "502 tokens per expert parameter, the paper's",
		"phase 1 77.7M 128 2.43M 18.8 4.8 2.07B 0.125 above", "end 259M 128 8.09M 62.7 16 2.07B 0.125 above",
		"warnings - E=128 at the end (259M tokens) is above the law", "the bound is 16, and E=128 needs 2.07B tokens. k^2/E = 16/128 = 0.125 is below 1/4")
	expectSays(t, "E = k^2", harness(t, none, "plan", paper, "model.moe.experts=16", "budget=250M"),
		"information - E=16 at the end (250M tokens) is above the law", "no warnings")
	expectSays(t, "more tokens", harness(t, none, "plan", paper, "--tokens", "3B"),
		"3.00B by --tokens; the spec's budget is 259M", "- The law is kept", "no warnings")
	expectSays(t, "another tau", harness(t, none, "plan", paper, "--tau", "50"), "tau 50 tokens per expert parameter tokens 259M", "- The law is kept", "no warnings")
	expectSays(t, "wall clock", harness(t, none, "plan", paper, "budget=9h"),
		"unknown: the budget is 9h of wall clock", "end ? 128 ? ? ? 2.07B 0.125 ?", "E=128 would need 2.07B tokens", "no warnings")
	expectSays(t, "wall clock with tokens", harness(t, none, "plan", paper, "budget=9h", "--tokens", "259M"), "259M, for a budget of 9h of wall clock", "end 259M 128 8.09M 62.7")
	expectSays(t, "dense", harness(t, none, "plan", paper, "model.moe.layers=[]"), "paper is a dense model: it has no experts, and there is nothing to plan.")

	grow := write(t, filepath.Join(dir, "grow.yaml"), lawSpecText("grow", "4B", 32, lawGrowth))
	expectSays(t, "growth", harness(t, none, "plan", grow),
		"growth to 64 600M 32 75.0M 581 37.1 518M 0.5 under", "phase 1 1.20B 64 112M 872", "end 4.00B 128 200M 1550 247 2.07B 0.125 under",
		"since their own growth at E in the stage expert per param growth to 64 32 600M 75.0M 581 phase 1 64 600M 37.5M 291",
		"64 600M 1.04B 1.64B 436M too early", "128 1.20B 2.07B 3.27B 873M too early", "Children of a split inherit what their parent saw")
	expectSays(t, "growth that never comes", harness(t, none, "plan", grow, "--tokens", "700M"), "never: training ends first", "Growth to 128 at 1.20B tokens never happens: training ends at 700M tokens, without a step after it.")
	expectSays(t, "lineage", harness(t, none, "plan", grow, "--tokens", "1.3B"), "1.30B 128", "lineage",
		"E=128 at the end (1.30B tokens) is more than the bound of 80.3, but by their lineage an expert has had 116M tokens, 896 per parameter", "no warnings")
	expectSays(t, "insertion", harness(t, none, "plan", grow, "grow[0].method=insert_zero", "grow[1].method=insert_zero"), "Inserted experts begin with nothing")
}

func TestPlanFitsTheTerminal(t *testing.T) {
	spec := loadLaw(t, lawSpecText("grow", "4B", 1024, "grow: [{at: 600M, experts: 2048}, {at: 1.2B, experts: 4096}]\n"))
	v := lawView{spec: spec}
	v.law = experiments.NewLaw(spec, experiments.PaperTau, 4e9)
	v.run = &experiments.RunExperts{Spec: spec, Law: v.law, Step: 100, Tokens: 4e9, Experts: 4096, Life: experiments.Dead, Layers: []experiments.MixtureHealth{
		{Layer: 5, Share: 0.001, Swap: -0.0001, SwapLow: -0.0002, SwapHigh: -0.0001, Windows: "1,024", Participation: 148.1, Of: 384, Dead: 4095}}}
	v.run.Run.ID, v.run.Run.Name = "01JD8Q4M00ABCDEFGHJKMNPQRS", "a-name-of-more-than-sixteen"
	v.judge()
	for _, width := range []int{80, 120} {
		var b strings.Builder
		v.write(&b, width)
		tau := tauView{experiments.MeasureTau([]*experiments.RunExperts{v.run}), []runs.Run{v.run.Run}}
		tau.write(&b, width)
		for line := range strings.Lines(b.String()) {
			if got := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); got > width || strings.HasSuffix(line, " \n") {
				t.Errorf("%d columns in %d: %q", got, width, line)
			}
		}
		if width == 80 {
			golden(t, "plan.golden", b.String())
		}
	}
}

func TestPlanReadsARun(t *testing.T) {
	dir, store := openLawStore(t)
	text := lawSpecText("paper", "259M", 128, "")
	path := write(t, filepath.Join(t.TempDir(), "paper.yaml"), text)
	dead := lawRun(t, store, loadLaw(t, text), "0.0012", "-0.0001", "-0.0002", "0.0000")
	expectSays(t, "a run that confirms", harness(t, dir, "plan", path, "--run", dead),
		"run "+dead+" (paper) at step 63,232, 259M tokens", "3 0.0012 -0.0001 -0.0002 to 0.0000 64 48 of 384 3 dead", "5 0.2000 0.1000 0.0900 to 0.1100 64 200 of 384 3 alive",
		"Run "+dead+" confirms it: in layer 3 the branch adds 0.0012 of the stream and swapping experts costs -0.0001 nats (-0.0002 to 0.0000, n=64).")
	expectSays(t, "a run alone", harness(t, dir, "plan", "--run", dead), "warnings - E=128 at the end", "confirms it")

	// What is an information by its numbers becomes a warning by what a run shows.
	small := loadLaw(t, text, "name=small", "model.moe.experts=64")
	expectSays(t, "k^2/E of 1/4", harness(t, dir, "plan", path, "model.moe.experts=64"), "information - E=64 at the end", "no warnings")
	lawRun(t, store, small, "0.0012", "-0.0001", "-0.0002", "0.0000")
	expectSays(t, "confirmed", harness(t, dir, "plan", path, "model.moe.experts=64", "--run", "small"), "warnings - E=64 at the end", "confirms it: in layer 3")
	lawRun(t, store, loadLaw(t, text, "name=alive", "model.moe.experts=64"), "0.3000", "0.1000", "0.0900", "0.1100")
	expectSays(t, "alive", harness(t, dir, "plan", path, "model.moe.experts=64", "--run", "alive"), "does not confirm that experts lack tokens: with 125 tokens per parameter", "no warnings")
	lawRun(t, store, loadLaw(t, text, "name=collapsed", "model.moe.experts=64"), "0.3000", "0.1000", "0.0900", "0.1100", "1.0")
	expectSays(t, "collapsed", harness(t, dir, "plan", path, "model.moe.experts=64", "--run", "collapsed"), "warnings - E=64 at the end", "confirms it: in layer 3 the gain's participation is 1 of 384.")
	expectSays(t, "collapsed though the law is kept", harness(t, dir, "plan", "--run", "collapsed", "--tau", "50"), "has a collapsed gain though the law is kept, with 125 tokens per parameter of its experts")
	expectSays(t, "dead though the law is kept", harness(t, dir, "plan", "--run", "small", "--tau", "50"), "has dead experts though the law is kept, with 125 tokens per parameter of its experts: it is not tokens that they lack")

	lawRun(t, store, loadLaw(t, text, "name=wide", "model.moe.experts=64"), "0.3000", "0.0100", "-0.0100", "0.0300")
	expectSays(t, "an interval that is too wide", harness(t, dir, "plan", path, "model.moe.experts=64", "--run", "wide"),
		"3 0.3000 0.0100 -0.0100 to 0.0300 64 48 of 384 3 unknown",
		"does not say whether its experts live: the interval is too wide of what swapping experts costs, -0.0100 to 0.0300 nats (n=64) in layer 3.", "no warnings")

	expectSays(t, "another shape", harness(t, dir, "plan", path, "model.moe.experts=32", "--run", dead), "trained another shape (E=128, k=4, P_e=129,024, layers 0, 3, 5)")
	expectSays(t, "other experts", harness(t, dir, "plan", path, "model.moe.experts=64", "model.moe.d_ff=56", "--run", "small"), "trained another shape", "no warnings")
	lawRun(t, store, loadLaw(t, text, "name=dense", "model.moe.layers=[]"), "", "", "", "")
	expectSays(t, "a dense run", harness(t, dir, "plan", path, "--run", "dense"), "trained a dense model")
	expectSays(t, "a dense run alone", harness(t, dir, "plan", "--run", "dense"), "dense is a dense model")
	fresh := loadLaw(t, text, "name=fresh")
	if _, err := store.Create(t.Context(), runs.NewRun{Name: "fresh", Spec: fresh.YAML(), SpecHash: fresh.Hash()}); err != nil {
		t.Fatal(err)
	}
	expectSays(t, "no tables", harness(t, dir, "plan", path, "--run", "fresh"), "has no tables yet")

	// A budget of time is as many tokens as the run's calibration found.
	lawRun(t, store, loadLaw(t, text, "name=timed", "budget=9h"), "0.2000", "0.1000", "0.0900", "0.1100")
	expectSays(t, "a calibrated run", harness(t, dir, "plan", path, "budget=9h", "--run", "timed"), "tokens 259M, for a budget of 9h of wall clock")

	var j struct {
		Points   []struct{ Experts_allowed, Tokens_needed, K2_over_e, Tokens_per_parameter float64 }
		Run      struct{ ID, Life string }
		Warnings []string
	}
	r := harness(t, dir, "plan", path, "--run", dead, "--json")
	if err := json.Unmarshal([]byte(r.stdout), &j); err != nil || len(j.Points) != 2 || j.Points[1].K2_over_e != 0.125 || int(j.Points[1].Tokens_needed) != 2_072_641_536 ||
		j.Run.ID != dead || j.Run.Life != "dead" || len(j.Warnings) != 1 {
		t.Errorf("%v, %+v, %s", err, j, r.stdout)
	}
	var unknown struct {
		Points []struct {
			Tokens          *int64
			Experts_allowed string
		}
	}
	r = harness(t, dir, "plan", path, "budget=9h", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &unknown); err != nil || len(unknown.Points) != 1 || unknown.Points[0].Tokens != nil || unknown.Points[0].Experts_allowed != "NaN" {
		t.Errorf("%v, %+v, %s", err, unknown, r.stdout)
	}
	var dense struct {
		Dense    bool
		Warnings []string
	}
	if r := harness(t, dir, "plan", path, "model.moe.layers=[]", "--json"); json.Unmarshal([]byte(r.stdout), &dense) != nil || !dense.Dense || dense.Warnings == nil {
		t.Errorf("%s", r.stdout)
	}
}

func TestTauIsMeasuredFromRuns(t *testing.T) {
	dir, store := openLawStore(t)
	text := lawSpecText("a", "259M", 128, "")
	add := func(name string, experts int, dead bool, overrides ...string) string {
		spec := loadLaw(t, text, append(overrides, "name="+name, fmt.Sprintf("model.moe.experts=%d", experts))...)
		if dead {
			return lawRun(t, store, spec, "0.0012", "-0.0001", "-0.0002", "0.0000")
		}
		return lawRun(t, store, spec, "0.2000", "0.1000", "0.0900", "0.1100")
	}
	d128, d64, a32, a16 := add("d128", 128, true), add("d64", 64, true, "seed=2"), add("a32", 32, false), add("a16", 16, false)
	late, odd := add("a256", 256, false), add("odd", 64, true, "train.optimizer.norm_decay=4")
	add("dense", 64, false, "model.moe.layers=[]")
	lawRun(t, store, loadLaw(t, text, "name=wide"), "0.2000", "0.1000", "-Inf", "+Inf")

	all := harness(t, dir, "plan", "--measure-tau", "a16", "d128", "dense", "wide", "d64", "a32")
	expectSays(t, "a bracket", all, "d128 1 128 4 129k 259M 62.7 dead", "a16 1 16 4 129k 259M 502 alive", "- tau lies between 125 (run ", "and 251 (run ", "n=4, 2 dead and 2 alive, 2 seeds", "The paper's 502 is more than these need.", "is left out: its model is dense",
		"(wide) is left out: the interval is too wide of what swapping experts costs, -Inf to +Inf nats (n=64) in layer 3.")
	if strings.Index(all.stdout, "d128") > strings.Index(all.stdout, "d64") || strings.Contains(all.stdout, "differ in") {
		t.Errorf("order or differences: %s", all.stdout)
	}
	expectSays(t, "an overlap", harness(t, dir, "plan", "--measure-tau", "d128", "a256", "a32"), "No threshold separates them: experts are dead at 62.7 (run ", "alive at 31.4 (run ")
	expectSays(t, "all alive", harness(t, dir, "plan", "--measure-tau", "a16", "a32"), "All are alive: tau is at most 251 (run ", "there is no lower bound; n=2, 0 dead and 2 alive, 1 seed.")
	expectSays(t, "all dead", harness(t, dir, "plan", "--measure-tau", "d128", "d64"), "All are dead: tau is more than 125 (run ", "there is no upper bound", "The paper's 502 is not ruled out.")
	expectSays(t, "a difference", harness(t, dir, "plan", "--measure-tau", "odd", "a32"), "The runs differ in train.optimizer.norm_decay too")
	expectSays(t, "nothing to measure", harness(t, dir, "plan", "--measure-tau", "dense"), "No run says anything about tau.")

	type measured struct {
		N         int
		More_than *struct {
			Run                  string
			Tokens_per_parameter float64
		} `json:"tau_more_than"`
		At_most  *struct{ Run string } `json:"tau_at_most"`
		Overlap  bool
		Runs     []struct{ ID string }
		Left_out []string
	}
	var j measured
	r := harness(t, dir, "plan", "--measure-tau", "--json", d128, d64, a32, a16, "dense")
	if err := json.Unmarshal([]byte(r.stdout), &j); err != nil || j.N != 4 || j.More_than == nil || j.More_than.Run != d64 || int(j.More_than.Tokens_per_parameter) != 125 ||
		j.At_most == nil || j.At_most.Run != a32 || j.Overlap || len(j.Runs) != 4 || len(j.Left_out) != 1 {
		t.Errorf("%v, %+v, %s", err, j, r.stdout)
	}
	j = measured{}
	r = harness(t, dir, "plan", "--measure-tau", "--json", late, odd)
	if err := json.Unmarshal([]byte(r.stdout), &j); err != nil || !j.Overlap || j.More_than != nil || j.At_most != nil {
		t.Errorf("%v, %+v, %s", err, j, r.stdout)
	}
}

func TestMistakesOfPlan(t *testing.T) {
	dir, store := openLawStore(t)
	path := write(t, filepath.Join(t.TempDir(), "a.yaml"), lawSpecText("a", "259M", 128, ""))
	id := lawRun(t, store, loadLaw(t, lawSpecText("a", "259M", 128, "")), "0.2", "0.1", "0.09", "0.11")
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no spec", nil, exitUsage, "usage: harness plan SPEC"},
		{"no run", []string{"--measure-tau"}, exitUsage, "usage: harness plan --measure-tau RUN ..."},
		{"a run and tau", []string{"--measure-tau", "a", "--tau", "5"}, exitUsage, "--measure-tau takes runs alone"},
		{"a run twice", []string{"--measure-tau", "a", id}, exitUsage, "a and " + id + " are one run"},
		{"no such run", []string{path, "--run", "b"}, exitError, "no such run"},
		{"tau of nothing", []string{path, "--tau", "0"}, exitUsage, "--tau 0: want tokens per parameter, 0.001 to 1e+09"},
		{"no tokens", []string{path, "--tokens", "9h"}, exitUsage, "--tokens 9h: want a number of tokens"},
		{"misspelt key", []string{path, "model.moe.expert=8"}, exitUsage, `did you mean "experts"?`},
		{"an unused router", []string{path, "train.sequence=256"}, exitUsage, "the router would never be used"},
		{"contradiction", []string{path, "model.moe.top_k=64", "model.moe.experts=8"}, exitUsage, "top_k 64 is more than experts, which is 8"},
	} {
		r := harness(t, dir, append([]string{"plan"}, c.args...)...)
		if r.code != c.code || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%s: code %d, %q, %q", c.name, r.code, r.stdout, r.stderr)
		}
	}
}
