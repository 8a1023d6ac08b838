package experiments

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"harness/runs"
)

func lawSpec(t *testing.T, text string) *Spec {
	t.Helper()
	spec, err := Parse("/specs/law.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func near4(got, want float64) bool { return math.Abs(got-want) <= 1e-4*math.Abs(want) }

// The paper's headline arm, section 6.1: at E=128 the run needed 2.07B tokens and had
// 259M; E = k^2 breaks even.
func TestLawGivesThePapersNumbers(t *testing.T) {
	spec := lawSpec(t, strings.Replace(minimal, "1M", "259M", 1)+"model: {d_model: 384, moe: {layers: [0, 3, 5], experts: 128, top_k: 4, d_ff: 112}}\n")
	l := NewLaw(spec, PaperTau, spec.Budget.Tokens)
	if l.ExpertParams != 129_024 || len(l.Points) != 1 {
		t.Fatalf("%+v", l)
	}
	p := l.Points[0]
	if got := fmt.Sprintf("%.2fB", p.Needs/1e9); got != "2.07B" {
		t.Errorf("E=128 needs %s tokens, the paper says 2.07B", got)
	}
	if p.Tokens != 259e6 || p.StageTokens != 259e6 || p.Own != 259e6*4/128 || p.Lineage != p.Own || !near4(l.PerParameter(p.Own), 62.7302) || !near4(p.Bound, 15.9949) || p.Pace != 16.0/128 {
		t.Errorf("%+v", p)
	}
	if l.Verdict(p) != AboveLaw || !l.Warns(p) {
		t.Errorf("verdict %s", l.Verdict(p))
	}
	// At E = k^2 an expert parameter sees what a dense one does.
	spec.Model.MoE.Experts = 16
	if p := NewLaw(spec, PaperTau, 260e6).Points[0]; p.Pace != 1 || l.Verdict(p) != UnderLaw || !near4(p.Bound, 16.0567) {
		t.Errorf("E=16 at 260M: %s, %+v", l.Verdict(p), p)
	}
	if p := NewLaw(spec, PaperTau, 259e6).Points[0]; l.Verdict(p) != AboveLaw || l.Warns(p) {
		t.Errorf("E=16 at 259M is above the bound, but no warning: %s, %+v", l.Verdict(p), p)
	}
	spec.Model.MoE.Layers = nil
	if NewLaw(spec, PaperTau, 259e6) != nil {
		t.Error("a dense model has a law")
	}
}

// By hand: P_e = 3*10*10 = 300, k = 2, tau = 100, so E needs E*15,000 tokens.
const growing = `name: a
budget: 1M
corpus:
  sources: [{name: go, kind: gotree}]
  tasks: [{name: copy, kind: copy}]
  phases:
    - {until: 10%, weights: {go: 1}}
    - {until: 40%, weights: {go: 1}}
    - {until: 1, weights: {go: 1, copy: 1}}
model: {d_model: 10, moe: {layers: [1], experts: 4, top_k: 2, d_ff: 10, route_block: 64}}
train: {sequence: 250, step_tokens: 1000}
grow:
  - {at: 100k, experts: 8}
  - {at: 200k, experts: 32}
`

func TestLawOverPhasesAndSplits(t *testing.T) {
	l := NewLaw(lawSpec(t, growing), 100, 1e6)
	type row struct {
		what                string
		tokens, stage       int64
		experts             int
		own, lineage, bound float64
		verdict             LawVerdict
	}
	want := []row{
		{"phase 1", 100e3, 100e3, 4, 50e3, 50e3, 100e3 * 2 / 30e3, UnderLaw},
		{"growth to 8", 100e3, 100e3, 4, 50e3, 50e3, 100e3 * 2 / 30e3, UnderLaw},
		{"growth to 32", 200e3, 100e3, 8, 25e3, 75e3, 200e3 * 2 / 30e3, UnderLaw},
		{"phase 2", 400e3, 200e3, 32, 12.5e3, 87.5e3, 400e3 * 2 / 30e3, ByLineage},
		{"end", 1e6, 800e3, 32, 50e3, 125e3, 1e6 * 2 / 30e3, UnderLaw},
	}
	var got []row
	for _, p := range l.Points {
		got = append(got, row{p.What, p.Tokens, p.StageTokens, p.Experts, p.Own, p.Lineage, p.Bound, l.Verdict(p)})
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	var stages []string
	for _, p := range l.Stages() {
		stages = append(stages, p.What)
	}
	if !slices.Equal(stages, []string{"growth to 8", "growth to 32", "end"}) {
		t.Errorf("stages end at %q", stages)
	}
	if grown := []LawGrowth{{100e3, 8, 120e3, 220e3, true}, {200e3, 32, 480e3, 680e3, true}}; !slices.Equal(l.Growth, grown) {
		t.Errorf("growth %+v, want %+v", l.Growth, grown)
	}
	// Growth waits for the end of a step, and there must be one after it.
	late := strings.Replace(growing, "200k", "199001", 1)
	for tokens, happens := range map[int64]bool{199001: false, 199999: false, 200e3: false, 200001: true} {
		if l := NewLaw(lawSpec(t, late), 100, tokens); l.Growth[1].Happens != happens {
			t.Errorf("growth at 199,001 tokens of %d: %v", tokens, !happens)
		}
	}
	if l := NewLaw(lawSpec(t, late), 100, 199e3); l.Growth[1].Happens {
		t.Error("growth after the end")
	}
	if l := NewLaw(lawSpec(t, growing), 100, 200001); !l.Growth[1].Happens {
		t.Error("no growth where one more step is trained")
	}
	// Growth at or past the end never happens.
	if l := NewLaw(lawSpec(t, growing), 100, 200e3); l.Growth[1].Happens || !l.Growth[0].Happens || l.Points[len(l.Points)-1].Experts != 8 {
		t.Errorf("%+v", l)
	}
}

func TestInsertedExpertsInheritNothing(t *testing.T) {
	text := strings.NewReplacer("8}", "8, method: insert_zero}", "32}", "32, method: insert_zero}").Replace(growing)
	l := NewLaw(lawSpec(t, text), 200, 1e6)
	end := l.Points[len(l.Points)-1]
	// 1M tokens would do for 33 experts at tau 200 from the start on; the last came at 200k.
	if end.Lineage != 50e3 || end.Own != 50e3 || !near4(end.Bound, 33.3333) || l.Verdict(end) != AboveLaw || !l.Warns(end) {
		t.Errorf("%s %+v", l.Verdict(end), end)
	}
}

func TestLawWithoutKnownTokens(t *testing.T) {
	l := NewLaw(lawSpec(t, strings.Replace(growing, "1M", "9h", 1)), 100, 0)
	if len(l.Points) != 3 { // phases end at shares of nobody knows what
		t.Fatalf("%+v", l.Points)
	}
	end := l.Points[2]
	if l.Verdict(end) != UnknownLaw || l.Warns(end) || !math.IsNaN(end.Bound) || !math.IsNaN(end.Own) || !math.IsNaN(end.Lineage) || end.Needs != 480e3 || end.Pace != 4.0/32 {
		t.Errorf("%+v", end)
	}
	if l.Points[1].Lineage != 75e3 || !l.Growth[1].Happens {
		t.Errorf("what does not depend on the budget: %+v", l)
	}
}

// shown is what a run's tables of its last probe say of layer 1, the only mixture.
type shown struct{ share, swap, low, high, participation string }

// ranOn stores a run of spec and what its tables show. Earlier tables show the opposite.
func ranOn(t *testing.T, s *runs.Store, spec *Spec, steps int64, last shown) runs.Run {
	t.Helper()
	run, err := s.Create(t.Context(), runs.NewRun{Name: spec.Name, Spec: spec.YAML(), SpecHash: spec.Hash(), Seed: spec.Seed})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := s.Begin(t.Context(), run.ID, runs.AttemptInfo{})
	if err != nil {
		t.Fatal(err)
	}
	experts := spec.Model.MoE.Experts
	if law := NewLaw(spec, PaperTau, steps*int64(spec.Train.StepTokens)); law != nil {
		experts = law.Points[len(law.Points)-1].Experts
	}
	for _, at := range []struct {
		step int64
		shown
	}{{1, shown{"0.5", "0.2", "0.1", "0.3", "9.0"}}, {steps, last}} {
		rec.Table(runs.Table{Step: at.step, Name: "norm gains", Columns: []string{"gain", "participation", "of", "rms"},
			Rows: [][]string{{"layers.1.mix_norm", "7.0", "10", "1.000"}, {"layers.1.ffn_norm", at.participation, "10", "0.002"}, {"layers.0.ffn_norm", "0.1", "11", "1"}}})
		rec.Table(runs.Table{Step: at.step, Name: "branches", Columns: []string{"branch", "share of the stream"},
			Rows: [][]string{{"layers.0.mlp", "0.0001"}, {"layers.1.swa", "0.0002"}, {"layers.1.moe", at.share}, {"layers.0.mlp", "0.0003"}, {"layers.1.swa", "0.0004"}}})
		rec.Table(runs.Table{Step: at.step, Name: "router", Columns: []string{"layer", "experts", "effective", "dead", "least load", "median load", "most load", "entropy", "first-block share"},
			Rows: [][]string{{"1", fmt.Sprint(experts), "30", "2", "0.001", "1", "2", "3", "0.1"}}})
		if at.swap != "" {
			rec.Table(runs.Table{Step: at.step, Name: "routing ablations", Columns: []string{"layer", "ablation", "cost nats/token", "low", "high", "n (windows)"},
				Rows: [][]string{{"0", "swap", "9", "9", "9", "9"}, {"1", "permute", "0", "-1", "1", "64"}, {"1", "swap", at.swap, at.low, at.high, "64"},
					{"1", "permute", "0", "-1", "1", "65"}, {"0", "swap", "9", "9", "9", "9"}}})
		}
	}
	rec.Reached(steps, steps*int64(spec.Train.StepTokens))
	if err := rec.Finish(t.Context(), runs.Finished, ""); err != nil {
		t.Fatal(err)
	}
	if run, err = s.Find(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	return run
}

func openStore(t *testing.T) *runs.Store {
	t.Helper()
	s, err := runs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestLifeOfExpertsIsReadFromTables(t *testing.T) {
	s, spec := openStore(t), lawSpec(t, growing)
	for name, c := range map[string]struct {
		shown
		want      Life
		collapsed bool
	}{
		"alive":                      {shown{"0.0300", "0.0500", "0.0400", "0.0600", "7.5"}, Alive, false},
		"alive, few entries":         {shown{"0.0300", "0.0500", "0.0400", "0.0600", "0.9"}, Alive, true},
		"no branch":                  {shown{"0.0099", "0.0500", "0.0400", "0.0600", "7.5"}, Dead, false},
		"no branch, not ablated":     {shown{"0.0014", "", "", "", "7.5"}, Dead, false},
		"interchangeable":            {shown{"0.3000", "0.0000", "-0.0003", "0.0009", "7.5"}, Dead, false},
		"too wide":                   {shown{"0.3000", "0.0100", "-0.0100", "0.0300", "7.5"}, UnknownLife, false},
		"too wide by a hair":         {shown{"0.3000", "0.0005", "0.0000", "0.0010", "7.5"}, UnknownLife, false},
		"one window":                 {shown{"0.3000", "0.0100", "-Inf", "+Inf", "7.5"}, UnknownLife, false},
		"no branch, too wide":        {shown{"0.0099", "0.0100", "-Inf", "+Inf", "7.5"}, Dead, false},
		"alive by a hair":            {shown{"0.0100", "0.0010", "0.0001", "0.0019", "7.5"}, Alive, false},
		"interchangeable, no branch": {shown{"NaN", "0.0002", "0.0001", "0.0003", "7.5"}, Dead, false},
		"better swapped":             {shown{"0.3000", "-0.0001", "-0.0002", "-0.0001", "7.5"}, Dead, false},
		"below the noise":            {shown{"0.3000", "0.0002", "0.0001", "0.0003", "7.5"}, Dead, false},
		"not ablated":                {shown{"0.3000", "", "", "", "7.5"}, UnknownLife, false},
		"a branch that is no number": {shown{"NaN", "0.0500", "0.0400", "0.0600", "7.5"}, UnknownLife, false},
	} {
		r, err := ReadExperts(t.Context(), s, ranOn(t, s, spec, 1000, c.shown), 100)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.Life != c.want || len(r.Layers) != 1 || r.Layers[0].Collapsed() != c.collapsed || r.Layers[0].Dead != 2 || r.Layers[0].LeastLoad != 0.001 {
			t.Errorf("%s: %s, %+v", name, r.Life, r.Layers)
		}
		if c.swap != "" && r.Layers[0].Windows != "64" {
			t.Errorf("%s: n %q", name, r.Layers[0].Windows)
		}
		if r.Step != 1000 || r.Tokens != 1e6 || r.Experts != 32 || !near4(r.Ratio(), 125e3/300) {
			t.Errorf("%s: step %d, %d tokens, E=%d, %g", name, r.Step, r.Tokens, r.Experts, r.Ratio())
		}
	}
}

// Where all experts act there is none to swap in: whatever is recorded of it says nothing.
func TestLifeWhereAllExpertsActIsThatOfTheBranch(t *testing.T) {
	s := openStore(t)
	spec := lawSpec(t, growing[:strings.Index(growing, "grow:")])
	spec.Model.MoE.Experts = spec.Model.MoE.TopK
	for _, c := range []struct {
		share string
		want  Life
	}{{"0.3000", Alive}, {"0.0100", Alive}, {"0.0099", Dead}, {"NaN", UnknownLife}} {
		for _, swap := range []shown{{}, {swap: "0.0000", low: "0.0000", high: "0.0000"}, {swap: "0.0100", low: "-0.0100", high: "0.0300"}} {
			swap.share, swap.participation = c.share, "7.5"
			r, err := ReadExperts(t.Context(), s, ranOn(t, s, spec, 1000, swap), 100)
			if err != nil || r.Life != c.want || r.Layers[0].Wide() {
				t.Errorf("%+v: %v, %+v", swap, err, r)
			}
		}
	}
}

func TestAnIntervalIsWideIfItHoldsNothingAndSomething(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      bool
	}{{-0.01, 0.03, true}, {0, 0.001, true}, {math.Inf(-1), math.Inf(1), true}, {-0.01, 0.0009, false}, {0.0001, 0.03, false}, {math.NaN(), math.NaN(), false}} {
		if h := (MixtureHealth{Share: 0.3, SwapLow: c.low, SwapHigh: c.high}); h.Wide() != c.want {
			t.Errorf("%g to %g: %v", c.low, c.high, !c.want)
		}
	}
}

// At a step where growth is due, tables come before it or after it.
func TestGrowthAtTheStepOfTheTables(t *testing.T) {
	s, spec := openStore(t), lawSpec(t, growing)
	alive := shown{"0.0300", "0.0500", "0.0400", "0.0600", "7.5"}
	r, err := ReadExperts(t.Context(), s, ranOn(t, s, spec, 200, alive), 100)
	if err != nil || r.Experts != 8 || !near4(r.Ratio(), 75e3/300) {
		t.Errorf("before: %v, %+v", err, r)
	}
	grown := ranOn(t, s, spec, 200, alive)
	rec, err := s.Begin(t.Context(), grown.ID, runs.AttemptInfo{FromStep: 200})
	if err != nil {
		t.Fatal(err)
	}
	rec.Table(runs.Table{Step: 200, Name: "router", Columns: []string{"layer", "experts"}, Rows: [][]string{{"1", "32"}}})
	if err := rec.Finish(t.Context(), runs.Interrupted, ""); err != nil {
		t.Fatal(err)
	}
	if r, err = ReadExperts(t.Context(), s, grown, 100); err != nil || r.Experts != 32 || r.Last().Own != 0 || !near4(r.Ratio(), 75e3/300) {
		t.Errorf("after: %v, %+v", err, r)
	}
	// What the spec cannot have is an error, and a run without tables is none.
	spec.Grow = nil
	other := ranOn(t, s, spec, 300, alive)
	rec, err = s.Begin(t.Context(), other.ID, runs.AttemptInfo{FromStep: 300})
	if err != nil {
		t.Fatal(err)
	}
	rec.Table(runs.Table{Step: 300, Name: "router", Columns: []string{"layer", "experts"}, Rows: [][]string{{"1", "5"}}})
	if err := rec.Finish(t.Context(), runs.Interrupted, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadExperts(t.Context(), s, other, 100); err == nil || !strings.Contains(err.Error(), "router table of step 300 has 5 experts where its spec has 4") {
		t.Errorf("got %v", err)
	}
	fresh, err := s.Create(t.Context(), runs.NewRun{Name: "fresh", Spec: spec.YAML()})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := ReadExperts(t.Context(), s, fresh, 100); err != nil || r.Life != UnknownLife || !math.IsNaN(r.Ratio()) {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestTauIsAnInterval(t *testing.T) {
	s := openStore(t)
	dead, alive := shown{"0.0001", "0", "-1", "1", "1"}, shown{"0.1", "0.1", "0.05", "0.15", "8"}
	spec := func(experts int) *Spec {
		spec := lawSpec(t, growing[:strings.Index(growing, "grow:")])
		spec.Model.MoE.Experts = experts
		return spec
	}
	// 1M tokens, k=2, P_e=300: 6,667/E tokens per parameter.
	read := func(spec *Spec, w shown) *RunExperts {
		r, err := ReadExperts(t.Context(), s, ranOn(t, s, spec, 1000, w), PaperTau)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	d64, d32, a16, a8, a128 := read(spec(64), dead), read(spec(32), dead), read(spec(16), alive), read(spec(8), alive), read(spec(128), alive)
	wide := read(spec(4), shown{"0.1", "0.1", "-0.05", "0.25", "8"})
	unknown, dense := read(spec(4), shown{share: "0.1", participation: "8"}), spec(4)
	dense.Model.MoE.Layers = nil
	denseRun := read(dense, alive)

	b := MeasureTau([]*RunExperts{a8, d64, unknown, a16, denseRun, wide, d32})
	if b.MostDead() != d32 || b.LeastAlive() != a16 || b.Overlap() || !slices.Equal(b.Left, []*RunExperts{unknown, denseRun, wide}) || len(b.Differences()) != 0 || !near4(d32.Ratio(), 208.333) || !near4(a16.Ratio(), 416.667) {
		t.Errorf("%+v", b)
	}
	if b := MeasureTau([]*RunExperts{d32, a128}); !b.Overlap() {
		t.Error("one alive on fewer tokens than a dead one is no overlap")
	}
	tie := read(spec(32), alive)
	if b := MeasureTau([]*RunExperts{d32, tie}); !b.Overlap() {
		t.Error("dead and alive on as many tokens are no overlap")
	}
	if b := MeasureTau([]*RunExperts{a8, a16}); b.MostDead() != nil || b.LeastAlive() != a16 || b.Overlap() {
		t.Errorf("all alive: %+v", b)
	}
	if b := MeasureTau([]*RunExperts{d32, d64}); b.MostDead() != d32 || b.LeastAlive() != nil || b.Overlap() {
		t.Errorf("all dead: %+v", b)
	}
	decayed := spec(64)
	decayed.Train.Optimizer.NormDecay = 4
	if keys := MeasureTau([]*RunExperts{a8, read(decayed, dead), unknown}).Differences(); !slices.Equal(keys, []string{"train.optimizer.norm_decay"}) {
		t.Errorf("differ in %q", keys)
	}
}
