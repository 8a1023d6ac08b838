package reports

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"harness/runs"
)

// mixtureRecord is a run whose mixtures grew as told: each growth at its own step, the
// first with the experts there were before.
func mixtureRecord(layers []int, before int, growths ...runs.Table) record {
	r := smallRecord()
	r.run.Name, r.run.State, r.run.Attempts[1].State = "mixture", runs.Finished, runs.Finished
	r.series[0].Points[9].Value = 4
	last := before
	for _, g := range growths {
		last, _ = strconv.Atoi(g.Rows[0][2])
		r.tables = append(r.tables, g)
		r.events = append(r.events, runs.Event{Step: g.Step, Kind: "growth", Text: fmt.Sprintf("%s: %s experts become %d in every mixture", g.Rows[0][0], g.Rows[0][1], last), Attempt: 1})
	}
	add := func(name, unit string, value func(step int64) float64) {
		s := runs.Series{Name: name, Unit: unit}
		for step := int64(4); step <= 40; step += 4 {
			s.Points = append(s.Points, runs.Point{Step: step, Tokens: step * 1024, Value: value(step)})
		}
		r.series = append(r.series, s)
	}
	router := runs.Table{Step: 40, Name: "router", Columns: []string{"layer", "experts", "effective", "dead", "least load", "median load", "most load"}}
	loads := runs.Table{Step: 40, Name: "expert load", Columns: []string{"layer", "expert", "load"}}
	ablations := runs.Table{Step: 40, Name: "routing ablations", Columns: []string{"layer", "ablation", "cost nats/token", "low", "high", "n"}}
	for k, layer := range layers {
		prefix := fmt.Sprintf("router/%d/", layer)
		now := func(step int64) float64 {
			n := before
			for _, g := range growths {
				if step > g.Step {
					n, _ = strconv.Atoi(g.Rows[0][2])
				}
			}
			return float64(n)
		}
		add(prefix+"entropy", "nats", func(step int64) float64 { return math.Log(now(step)) * (0.9 - 0.1*float64(k)) })
		add(prefix+"effective", "experts", func(step int64) float64 { return now(step) * (0.9 - 0.05*float64(k)) })
		add(prefix+"dead", "experts", func(step int64) float64 { return math.Floor(now(step) / 16 * float64(k)) })
		l := strconv.Itoa(layer)
		router.Rows = append(router.Rows, []string{l, strconv.Itoa(last), "12.1", "1", "0.004", "0.931", "3.320"})
		for e := range last {
			v := math.Exp(1.2 * math.Sin(float64(7*e+3*k)))
			if e%13 == 5 && k > 0 {
				v = 0.004
			}
			loads.Rows = append(loads.Rows, []string{l, strconv.Itoa(e), fmt.Sprintf("%.3f", v)})
		}
		ablations.Rows = append(ablations.Rows, []string{l, "swap", "0.0211", "0.0180", "0.0242", "64"}, []string{l, "permute", "0.0001", "-0.0004", "0.0006", "64"})
	}
	add("router/first_share", "", func(int64) float64 { return 0.22 })
	add("router/balance", "", func(step int64) float64 { return 1.2 })
	r.tables = append(r.tables, router, loads, ablations)
	return r
}

// grown is the table of a growth step. parents are those of the new experts.
func grown(step int64, method string, before int, parents ...string) runs.Table {
	after := len(parents)
	if method == "insert_zero" && !slices.Contains(parents, "0") {
		after += before
	}
	return runs.Table{Step: step, Name: "lineage", Columns: []string{"method", "experts before", "experts after", "jitter", "parents"},
		Rows: [][]string{{method, strconv.Itoa(before), strconv.Itoa(after), "0.01", strings.Join(parents, " ")}}}
}

// split is a growth by split: children 2e and 2e+1.
func split(step int64, before int) runs.Table {
	var parents []string
	for e := range 2 * before {
		parents = append(parents, strconv.Itoa(e/2))
	}
	return grown(step, "split", before, parents...)
}

func TestGoldenMixture(t *testing.T) {
	got := renderPage(t, newRunPage(mixtureRecord([]int{1, 3}, 4, split(12, 4), split(28, 8))), Assets{})
	golden := filepath.Join("testdata", "mixture.html")
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
		t.Errorf("%s differs (-update accepts)", golden)
	}
}

func TestLayersShareTheChartsOfRouters(t *testing.T) {
	page := newRunPage(mixtureRecord([]int{1, 3}, 4, split(12, 4)))
	var got []string
	for _, c := range page.Mixture.Charts {
		var names []string
		for _, curve := range c.Curves {
			names = append(names, curve.Name)
		}
		got = append(got, c.Title+": "+strings.Join(names, ", "))
	}
	want := []string{"router entropy: layer 1, layer 3", "experts in effect: layer 1, layer 3, number of experts",
		"dead experts: layer 1, layer 3", "first-block share: all mixtures", "balance loss: all mixtures"}
	if !slices.Equal(got, want) {
		t.Errorf("charts\n%q, want\n%q", got, want)
	}
	if c := page.Mixture.Charts[3]; c.Scale != ScaleShare {
		t.Errorf("a share is drawn on a %s scale", c.Scale)
	}
	stairs := page.Mixture.Charts[1].Curves[2].Points
	if want := []Point{{4096, 4}, {12288, 4}, {12288, 8}, {40960, 8}}; !slices.Equal(stairs, want) {
		t.Errorf("experts over training %v, want %v", stairs, want)
	}
	for _, c := range append(page.Charts, page.Mixture.Charts...) {
		if c.Axis != page.Charts[0].Axis || c.Left != page.Charts[0].Left || c.Right != page.Charts[0].Right {
			t.Errorf("%s has an axis of its own", c.Title)
		}
		if strings.HasPrefix(c.Title, "router/") {
			t.Errorf("%s stands among the curves", c.Title)
		}
	}
	long := mixtureRecord([]int{1}, 4)
	for i, s := range long.series {
		if strings.HasPrefix(s.Name, "router/") {
			long.series[i].Points = noisySeries(1000).Points
		}
	}
	for _, c := range newRunPage(long).Mixture.Charts {
		if want := c.Title == "first-block share" || c.Title == "balance loss"; (c.Curves[0].Smooth != nil) != want {
			t.Errorf("%s has a running mean: %v, want %v", c.Title, !want, want)
		}
	}
	var twelve []int
	for i := range 12 {
		twelve = append(twelve, i)
	}
	charts := newRunPage(mixtureRecord(twelve, 4)).Mixture.Charts
	if len(charts) != 8 {
		t.Fatalf("12 layers make %d charts, want 2 of each quantity by layer, and 2 of all mixtures", len(charts))
	}
	if a, b := charts[0], charts[1]; len(a.Curves) != 6 || len(b.Curves) != 6 || a.Bottom != b.Bottom || a.Top != b.Top || b.Title != "router entropy, layer 6 to 11" {
		t.Errorf("parts %s (%g to %g) and %s (%g to %g)", a.Title, a.Bottom, a.Top, b.Title, b.Bottom, b.Top)
	}
}

func TestGrowthIsMarkedInEveryChart(t *testing.T) {
	r := mixtureRecord([]int{1}, 4, split(12, 4), split(20, 8))
	r.events = append(r.events, runs.Event{Step: 12, Kind: "growth", Text: "split: 4 experts become 8 in every mixture", Attempt: 2})
	page := newRunPage(r)
	for _, c := range append(page.Charts, page.Mixture.Charts...) {
		marks := c.byKind(MarkGrowth)
		if len(marks) != 2 || marks[0].X != 12*1024 || marks[0].Short != "E 8" || marks[1].Short != "" {
			t.Errorf("%s: growth is marked by %+v", c.Title, marks)
		}
		svg, err := c.SVG()
		if err != nil {
			t.Fatal(err)
		}
		// The second growth falls on the second phase, whose name stands there already.
		if s := string(svg); !strings.Contains(s, ">E 8<") || strings.Contains(s, ">E 16<") || !strings.Contains(s, ">phase 2<") {
			t.Errorf("%s: names of marks overlap or are missing", c.Title)
		}
	}
	if shared := page.SharedMarks(); !slices.ContainsFunc(shared, func(m Mark) bool { return m.Label == "split: 8 experts become 16 in every mixture (after step 20)" }) {
		t.Errorf("marks %+v", shared)
	}
}

func TestChildrenStandBelowTheirParents(t *testing.T) {
	flat := grown(12, "split_flat", 4, "0", "1", "2", "3", "0", "1", "2", "3") // twins at the end
	listed := grown(20, "insert_zero", 8, "-", "-", "-", "-")                  // only what is new is listed
	full := grown(20, "insert_zero", 8, "0", "1", "2", "3", "4", "5", "6", "7", "-", "-", "-", "-")
	for name, growths := range map[string][]runs.Table{
		"split": {split(12, 4), split(28, 8)}, "flat": {flat, split(28, 8)}, "zero": {flat, listed}, "zero, all listed": {split(12, 4), full},
	} {
		l := newLineage(growths, func(step int64) int64 { return step })
		if l == nil {
			t.Fatalf("%s: no lineage", name)
		}
		last := len(l.Generations) - 1
		if sorted := slices.Sorted(slices.Values(l.Order)); sorted[0] != 0 || sorted[len(sorted)-1] != len(l.Order)-1 || len(slices.Compact(sorted)) != len(l.Generations[last]) {
			t.Errorf("%s: order %v is no permutation", name, l.Order)
		}
		for g, generation := range l.Generations {
			for i, e := range generation {
				at := l.columns[[2]int{g, i}]
				switch {
				case e.Width == 0:
					t.Errorf("%s: expert %d of generation %d is nowhere", name, i, g)
				case e.Parent >= 0:
					parent := l.columns[[2]int{g - 1, e.Parent}]
					if at < parent || at+e.Width > parent+l.Generations[g-1][e.Parent].Width {
						t.Errorf("%s: expert %d of generation %d stands at %d, its parent %d at %d", name, i, g, at, e.Parent, parent)
					}
				case g == last && at < 8:
					t.Errorf("%s: an added expert stands below one that is not its parent", name)
				}
			}
		}
		if l.Added() != strings.HasPrefix(name, "zero") {
			t.Errorf("%s: added without a parent: %v", name, l.Added())
		}
	}
	l := newLineage([]runs.Table{flat, listed}, func(step int64) int64 { return step })
	if got := l.Ancestors(6) + "; " + l.Ancestors(9); got != "2 → 6 → 6; 9" {
		t.Errorf("lines of descent %q", got)
	}
}

func TestBandsHoldEveryExpertOnce(t *testing.T) {
	for _, start := range []int{1, 8, 40} {
		growths := []runs.Table{split(4, start), split(8, 2*start), split(12, 4*start)}
		l := newLineage(growths, func(step int64) int64 { return step })
		for _, most := range []int{lineageWideMost, lineageNarrowMost} {
			next := 0
			for _, b := range l.bands(most) {
				if b[0] != next || b[1] <= b[0] || b[1]-b[0] > most {
					t.Errorf("%d experts, %d a band: %v", len(l.Order), most, l.bands(most))
				}
				next = b[1]
			}
			if next != len(l.Order) {
				t.Errorf("%d of %d experts are drawn", next, len(l.Order))
			}
		}
	}
	l := newLineage([]runs.Table{split(4, 10), split(8, 20)}, func(step int64) int64 { return step })
	if got := fmt.Sprint(l.bands(30)); got != "[[0 28] [28 40]]" {
		t.Errorf("families of 4 are cut: %s", got)
	}
}

func TestLoadsOfAnotherGenerationAreNotDrawn(t *testing.T) {
	r := mixtureRecord([]int{1}, 4)
	r.tables = append([]runs.Table{split(60, 4)}, r.tables...)
	page := newRunPage(r)
	if l := page.Mixture.Lineage; len(l.Loads) != 0 || len(l.Order) != 8 {
		t.Errorf("loads of 4 experts for 8: %+v", l)
	}
	if text := renderPage(t, page, Assets{}); !strings.Contains(text, "The load of these experts was not recorded.") {
		t.Error("the page does not say that there are no loads")
	}
	for v, want := range map[float64]int{0: 0, 0.0099: 0, 0.01: 1, 0.3: 2, 0.99: 3, 1: 4, 2: 5, 4: 6, 100: 6} {
		if got := loadClass(v); got != want {
			t.Errorf("load %g is of class %d, want %d", v, got, want)
		}
	}
}

func TestTablesThatMakeNoSenseAreShownAsTheyAre(t *testing.T) {
	short := split(12, 2)
	short.Rows[0][2] = "7"
	for name, g := range map[string]runs.Table{
		"no such parent": grown(12, "split", 2, "0", "0", "1", "9"), "another number": short,
		"not a number": grown(12, "split", 2, "0", "x", "1", "1"), "other columns": {Step: 12, Name: "lineage", Columns: []string{"mine"}, Rows: [][]string{{"1"}}},
		"hostile": {Step: 12, Name: "lineage", Columns: []string{"method", "experts before", "experts after", "parents"}, Rows: [][]string{{hostile, "99999999999", "-4", hostile}}},
	} {
		r := mixtureRecord([]int{1}, 4)
		r.tables = append(r.tables, g)
		page := newRunPage(r)
		if page.Mixture.Lineage != nil {
			t.Errorf("%s: %+v", name, page.Mixture.Lineage)
		}
		root := parsePage(t, renderPage(t, page, Assets{}))
		if text := textOf(byID(root, "mixture")); !strings.Contains(text, "lineage") || !strings.Contains(text, "expert load") || len(elements(root, "img")) > 0 {
			t.Errorf("%s: the tables are not shown", name)
		}
	}
}

func TestDenseRunsHaveNoMixture(t *testing.T) {
	page := renderPage(t, newRunPage(smallRecord()), fakeECharts())
	for _, trace := range []string{"ixture", "lineage", "xperts"} {
		if strings.Contains(page, trace) {
			t.Errorf("a dense run's page holds %q", trace)
		}
	}
	r := mixtureRecord([]int{1}, 4)
	if tables := newRunPage(r).Tables; slices.ContainsFunc(tables, func(x Table) bool { return x.Title != "participation" }) {
		t.Errorf("tables of the mixture stand among the others: %+v", tables)
	}
}

// 256 experts in 12 layers, five generations: the page stays small, and what is drawn
// is also there as a table.
func TestManyExperts(t *testing.T) {
	var layers []int
	for i := range 12 {
		layers = append(layers, i)
	}
	r := mixtureRecord(layers, 16, split(8, 16), split(16, 32), split(24, 64), split(32, 128))
	page := renderPage(t, newRunPage(r), Assets{})
	if limit := 1 << 20; len(page) > limit {
		t.Errorf("%d bytes, limit %d", len(page), limit)
	} else {
		t.Logf("%d bytes", len(page))
	}
	root := parsePage(t, page)
	drawings := 0
	for _, svg := range elements(root, "svg") {
		if strings.HasPrefix(attribute(svg, "class"), "lineage ") {
			drawings++
			if title := textOf(elements(svg, "title")[0]); !strings.HasPrefix(title, "16 experts at the start; 32 after split at step 8; ") || !strings.Contains(title, "load in layer 11: ") {
				t.Errorf("title %.200q", title)
			}
		}
	}
	if rows := strings.Count(page, " → "); drawings != 2 || rows != 4*256 {
		t.Errorf("%d drawings, %d steps of descent in the table; want 2 and %d", drawings, rows, 4*256)
	}
}
