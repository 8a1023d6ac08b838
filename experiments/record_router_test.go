package experiments

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"harness/nn"
	"harness/runs"
)

// recording wraps a trainer in an attempt that records to a store of its own; read
// ends it and returns what it recorded.
func recording(t *testing.T, tr *trainer) (a *attempt, read func() (map[string][]runs.Point, map[string][]runs.Table)) {
	t.Helper()
	ctx, dir := context.Background(), t.TempDir()
	s, err := runs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	run, err := s.Create(ctx, runs.NewRun{Name: "by hand", Spec: tr.spec.YAML(), SpecHash: tr.spec.Hash()})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := s.Begin(ctx, run.ID, runs.AttemptInfo{})
	if err != nil {
		t.Fatal(err)
	}
	a = &attempt{workplace: &workplace{spec: tr.spec, store: s, corpus: tr.corpus}, run: run, t: tr, rec: rec, out: &Outcome{}}
	return a, func() (map[string][]runs.Point, map[string][]runs.Table) {
		if err := rec.Finish(ctx, runs.Finished, ""); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return seriesOf(t, dir, run.ID), tablesOf(t, dir, run.ID)
	}
}

// countFirst counts by hand how many tokens of step lie in the first blocks of their
// segments, and how many behind them.
func countFirst(tr *trainer, step int64, block int) (first, routed int) {
	b := tr.sampler.Batch(step)
	for i, lo := range b.Starts {
		hi := len(b.Tokens)
		if i+1 < len(b.Starts) {
			hi = int(b.Starts[i+1])
		}
		first += min(block, hi-int(lo))
		routed += max(0, hi-int(lo)-block)
	}
	return first, routed
}

func about(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }

// A router of zeros calls all 5 experts as likely, and takes the first two.
func TestRouterRecordsByHand(t *testing.T) {
	spec := load(t, tinySpec(t, ""), "model.moe={layers: [1], experts: 5, top_k: 2, d_ff: 8, route_block: 8}", "train.optimizer.lr=1e-9")
	tr := openTrainer(t, spec, 157)
	a, read := recording(t, tr)
	clear(tr.model.Layers[1].Mixture.Routers[0].Data)
	first, routed := countFirst(tr, 0, 8)
	tr.advance()
	if first == 0 || routed == 0 {
		t.Fatalf("%d tokens in first blocks, %d behind them: the test shows nothing", first, routed)
	}
	a.recordRouters(1, 128)
	a.routerTables(1)
	// The running load keeps 0.99 of 1/5 and takes 0.01 of what was routed: half each.
	chosen, other := 0.99/5+0.01/2, 0.99/5
	effective := math.Exp(-2*chosen*math.Log(chosen) - 3*other*math.Log(other))
	series, tables := read()
	for name, want := range map[string]float64{
		"router/1/entropy":   math.Log(5),
		"router/1/effective": effective,
		"router/1/dead":      0,
		"router/balance":     1, // 5 * sum over experts of 1/5 * 1/5
		"router/first_share": float64(first) / float64(first+routed),
	} {
		if p := series[name]; len(p) != 1 || !about(p[0].Value, want) && p[0].Value != want || p[0].Step != 1 || p[0].Tokens != 128 {
			t.Errorf("%s: %+v, by hand %g", name, p, want)
		}
	}
	if len(series) != 5 {
		t.Errorf("metrics %v", series)
	}
	want := map[string][]runs.Table{
		"router": {{Step: 1, Name: "router", Columns: []string{"layer", "experts", "effective", "dead", "least load", "median load", "most load"},
			Rows: [][]string{{"1", "5", "5.0", "0", "0.990", "0.990", "1.015"}}}},
		"expert load": {{Step: 1, Name: "expert load", Columns: []string{"layer", "expert", "load"},
			Rows: [][]string{{"1", "0", "1.015"}, {"1", "1", "1.015"}, {"1", "2", "0.990"}, {"1", "3", "0.990"}, {"1", "4", "0.990"}}}},
	}
	if !reflect.DeepEqual(tables, want) {
		t.Errorf("tables %+v, by hand %+v", tables, want)
	}
}

// A record is the mean over the tokens since the last one, not over steps.
func TestRoutersAreRecordedOverAllTokensSinceTheLastRecord(t *testing.T) {
	spec := load(t, tinySpec(t, ""), "model.moe={layers: [0, 1], experts: 4, top_k: 2, d_ff: 8, route_block: 8}")
	tr := openTrainer(t, spec, 157)
	a, read := recording(t, tr)
	sum, steps, first, routed, balance := [2]float64{}, 3, 0, 0, 0.0
	var shares []float64
	for i := range steps {
		f, r := countFirst(tr, int64(i), 8)
		first, routed = first+f, routed+r
		shares = append(shares, float64(f)/float64(f+r))
		tr.advance()
		for layer := range sum {
			s := tr.acts.RouterStats(layer)
			sum[layer] += s.Entropy
			balance += s.Balance * float64(s.Routed)
		}
	}
	if shares[0] == shares[1] && shares[1] == shares[2] {
		t.Fatal("all steps have the same share: the test shows nothing")
	}
	a.record(0)
	series, _ := read()
	for name, want := range map[string]float64{
		"router/0/entropy":   sum[0] / float64(routed),
		"router/1/entropy":   sum[1] / float64(routed),
		"router/balance":     balance / float64(routed),
		"router/first_share": float64(first) / float64(first+routed),
	} {
		if p := series[name]; len(p) != 1 || !about(p[0].Value, want) {
			t.Errorf("%s: %+v, by hand %g", name, p, want)
		}
	}
	if w := tr.window; w.routed[0] != 0 || w.first[0] != 0 || w.entropy[1] != 0 || w.balance[0] != 0 {
		t.Errorf("after a record the window still holds %+v", w)
	}
}

func TestSpreadOfALoad(t *testing.T) {
	for _, c := range []struct {
		load      []float64
		effective float64
		dead      int
	}{
		{[]float64{0.25, 0.25, 0.25, 0.25}, 4, 0},
		{[]float64{1, 0, 0, 0}, 1, 3},
		{[]float64{0.5, 0.5, 0, 0}, 2, 2},
		{[]float64{0.5, 0.25, 0.25}, math.Exp(1.5 * math.Ln2), 0},
		{[]float64{0.9976, 0.0024}, math.Exp(-0.9976*math.Log(0.9976) - 0.0024*math.Log(0.0024)), 1}, // an equal share is 0.5
		{[]float64{0.994, 0.006}, math.Exp(-0.994*math.Log(0.994) - 0.006*math.Log(0.006)), 0},
	} {
		if effective, dead := spread(c.load); !about(effective, c.effective) || dead != c.dead {
			t.Errorf("%v: %g in effect, %d dead; want %g, %d", c.load, effective, dead, c.effective, c.dead)
		}
	}
}

// Where no document is longer than a block, the learned vector routes every token:
// there is nothing to say of the router, and nothing that is not a number.
func TestDocumentsShorterThanABlockNeverUseTheRouter(t *testing.T) {
	dir, path, text := t.TempDir(), tinySpec(t, ""), t.TempDir()
	for i := range 600 { // of at most 50 bytes, and so of as many tokens
		if err := os.WriteFile(filepath.Join(text, fmt.Sprintf("%d.txt", i)), fmt.Appendf(nil, "a model reads %d words and never learns core %d", i, i*i%97), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := run(t, load(t, path, thatGrows(nn.SplitFlat, "corpus.sources=[{name: words, kind: tree, path: "+text+"}]", "model.moe.route_block=63")...), dir)
	series := seriesOf(t, dir, out.Run.ID)
	if len(series["router/first_share"]) != 63 {
		t.Errorf("%d points of the share of first blocks in 63 steps", len(series["router/first_share"]))
	}
	for name, points := range series {
		if strings.HasSuffix(name, "/entropy") {
			t.Errorf("%s has %d points", name, len(points))
		}
		for _, p := range points {
			switch {
			case math.IsNaN(p.Value) || math.IsInf(p.Value, 0):
				t.Errorf("%s is %g at step %d", name, p.Value, p.Step)
			case name == "router/first_share" && p.Value != 1, strings.HasSuffix(name, "/dead") && p.Value != 0:
				t.Errorf("%s is %g at step %d", name, p.Value, p.Step)
			}
		}
	}
	tables := tablesOf(t, dir, out.Run.ID)
	for _, name := range []string{"router", "expert load"} {
		for _, table := range tables[name] {
			for _, row := range table.Rows {
				if text := strings.Join(row, " "); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
					t.Errorf("table %q: %s", name, text)
				}
			}
		}
	}
	if len(tables["router"]) == 0 || len(tables["routing ablations"]) > 0 {
		t.Errorf("%d router tables, %d of ablations, where there is nothing to reroute", len(tables["router"]), len(tables["routing ablations"]))
	}
}

func TestARunOfAMixtureRecordsItsRouters(t *testing.T) {
	dir := t.TempDir()
	spec := load(t, tinySpec(t, ""), thatGrows(nn.InsertZero)...)
	out := run(t, spec, dir)
	tr := openTrainer(t, spec, 63)
	series, tables := seriesOf(t, dir, out.Run.ID), tablesOf(t, dir, out.Run.ID)
	experts := func(step int64) int { // of whose forward a record tells
		switch {
		case step > 40:
			return 9
		case step > 20:
			return 6
		}
		return 4
	}
	for _, name := range []string{"router/0/entropy", "router/1/entropy", "router/0/effective", "router/1/effective", "router/0/dead", "router/1/dead", "router/balance", "router/first_share"} {
		if len(series[name]) != 63 {
			t.Errorf("%s has %d points of 63", name, len(series[name]))
		}
		for i, p := range series[name] {
			e := float64(experts(p.Step))
			switch _, what, _ := strings.Cut(name, "/"); {
			case p.Step != int64(i+1):
				t.Errorf("%s: point %d is of step %d", name, i, p.Step)
			case strings.HasSuffix(what, "entropy") && !(p.Value > 0 && p.Value <= math.Log(e)+1e-9),
				strings.HasSuffix(what, "effective") && !(p.Value >= 2 && p.Value <= e+1e-9),
				what == "balance" && !(p.Value > 0.2 && p.Value < e):
				t.Errorf("%s is %g at step %d, with %g experts", name, p.Value, p.Step, e)
			}
		}
	}
	for i, p := range series["router/first_share"] {
		first, routed := countFirst(tr, int64(i), 8)
		if want := float64(first) / float64(first+routed); p.Value != want {
			t.Errorf("step %d: a share of %g in first blocks, by hand %g", i+1, p.Value, want)
		}
	}
	var stored []string // of all experts at the start and after each growth: 2 layers of experts with 3 * 16 * 8 parameters
	for _, table := range tables["parameters"] {
		for _, row := range table.Rows {
			if row[0] == "experts stored" {
				stored = append(stored, fmt.Sprintf("%d: %s", table.Step, row[1]))
			}
		}
	}
	if want := []string{"0: " + count(4*2*384), "20: " + count(6*2*384), "40: " + count(9*2*384)}; !slices.Equal(stored, want) {
		t.Errorf("parameters of experts %q, want %q", stored, want)
	}
	// Probes are after steps 32 and 63.
	var seen []string
	for i, table := range tables["router"] {
		seen = append(seen, fmt.Sprint(table.Step))
		n := experts(table.Step)
		loads := tables["expert load"][i]
		if len(table.Rows) != 2 || loads.Step != table.Step || len(loads.Rows) != 2*n {
			t.Fatalf("step %d: %d routers, %d loads", table.Step, len(table.Rows), len(loads.Rows))
		}
		for layer, row := range table.Rows {
			sum, least, most := 0.0, math.Inf(1), 0.0
			for e, load := range loads.Rows[layer*n : (layer+1)*n] {
				x, err := strconv.ParseFloat(load[2], 64)
				if err != nil || load[0] != strconv.Itoa(layer) || load[1] != strconv.Itoa(e) {
					t.Errorf("step %d, expert %d of layer %d: %q, %v", table.Step, e, layer, load, err)
				}
				sum, least, most = sum+x, min(least, x), max(most, x)
			}
			if math.Abs(sum-float64(n)) > 0.001*float64(n) {
				t.Errorf("step %d, layer %d: loads add up to %g equal shares of %d", table.Step, layer, sum, n)
			}
			dead := series[fmt.Sprintf("router/%d/dead", layer)][table.Step-1].Value
			effective := series[fmt.Sprintf("router/%d/effective", layer)][table.Step-1].Value
			want := []string{strconv.Itoa(layer), strconv.Itoa(n), fmt.Sprintf("%.1f", effective), fmt.Sprint(dead), fmt.Sprintf("%.3f", least), row[5], fmt.Sprintf("%.3f", most)}
			if !slices.Equal(row, want) {
				t.Errorf("step %d: %q, by metrics and loads %q", table.Step, row, want)
			}
		}
	}
	if !slices.Equal(seen, []string{"32", "63"}) {
		t.Errorf("router tables of steps %v", seen)
	}
	ablations := tables["routing ablations"]
	if len(ablations) != 1 || ablations[0].Step != 63 || len(ablations[0].Rows) != 4 ||
		!slices.Equal(ablations[0].Columns, []string{"layer", "ablation", "cost nats/token", "low", "high", "n"}) {
		t.Fatalf("ablations %+v", ablations)
	}
	e, err := newEvaluator(tr)
	if err != nil {
		t.Fatal(err)
	}
	windows := 0 // of validation text that have a target
	for _, v := range e.validation {
		for _, b := range v.batches {
			for at := 0; at < len(b.Targets); at += spec.Train.Sequence {
				if slices.Max(b.Targets[at:at+spec.Train.Sequence]) >= 0 {
					windows++
				}
			}
		}
	}
	for i, row := range ablations[0].Rows {
		var x [3]float64
		for j := range x {
			if x[j], err = strconv.ParseFloat(row[2+j], 64); err != nil {
				t.Error(err)
			}
		}
		if row[0] != []string{"0", "0", "1", "1"}[i] || row[1] != []string{"swap", "permute", "swap", "permute"}[i] || row[5] != strconv.Itoa(windows) ||
			!(x[1] <= x[0] && x[0] <= x[2] && x[1] < x[2]) {
			t.Errorf("ablation %q of %d windows", row, windows)
		}
	}
}

func TestADenseRunRecordsNoRouter(t *testing.T) {
	dir := t.TempDir()
	out := run(t, load(t, tinySpec(t, ""), "budget=1k"), dir)
	for name := range seriesOf(t, dir, out.Run.ID) {
		if strings.HasPrefix(name, "router") {
			t.Errorf("metric %s", name)
		}
	}
	tables := tablesOf(t, dir, out.Run.ID)
	for _, name := range []string{"router", "expert load", "lineage", "routing ablations"} {
		if len(tables[name]) > 0 {
			t.Errorf("table %q", name)
		}
	}
}
