package reports

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"harness/runs"
)

func renderBench(t *testing.T, b runs.Bench, assets Assets) string {
	t.Helper()
	var out bytes.Buffer
	if err := newBenchPage(b).Render(&out, assets); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// benches are the two kinds of bench.
func benches() map[string]runs.Bench {
	return map[string]runs.Bench{"machine": machineBench(), "train": trainBench()}
}

func TestGoldenBenchPages(t *testing.T) {
	for name, b := range benches() {
		got := renderBench(t, b, Assets{})
		golden := filepath.Join("testdata", "bench-"+name+".html")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for i := range max(len(gotLines), len(wantLines)) {
			if i >= len(gotLines) || i >= len(wantLines) {
				t.Errorf("%s: page has %d lines, want %d (-update accepts)", name, len(gotLines), len(wantLines))
			} else if gotLines[i] != wantLines[i] {
				t.Errorf("%s: line %d differs (-update accepts):\n got %s\nwant %s", name, i+1, gotLines[i], wantLines[i])
			} else {
				continue
			}
			break
		}
	}
}

// As of a run's page: see TestPageLoadsNothing and TestIdsAreUnique.
func TestBenchPageLoadsNothingAndNamesEachThingOnce(t *testing.T) {
	for name, b := range benches() {
		for _, assets := range []Assets{{}, fakeECharts()} {
			page := renderBench(t, b, assets)
			if at := regexp.MustCompile(`(?i)https?://|url\(|@import`).FindStringIndex(page); at != nil {
				t.Errorf("%s refers to the outside: %q", name, page[at[0]:min(at[1]+60, len(page))])
			}
			root := parsePage(t, page)
			seen := map[string]bool{}
			for n := range root.Descendants() {
				for _, key := range []string{"src", "srcset", "action", "xlink:href", "href"} {
					if v := attribute(n, key); v != "" && !strings.HasPrefix(v, "#") {
						t.Errorf("%s: <%s %s=%q>", name, n.Data, key, v)
					}
				}
				if id := attribute(n, "id"); id != "" {
					if seen[id] {
						t.Errorf("%s: id %q occurs twice", name, id)
					}
					seen[id] = true
				}
			}
			for n := range root.Descendants() {
				if by := attribute(n, "aria-labelledby"); by != "" && !seen[by] {
					t.Errorf("%s: %q labels something and is not there", name, by)
				}
				if to, is := strings.CutPrefix(attribute(n, "href"), "#"); is && !seen[to] {
					t.Errorf("%s: a link leads to %q, which is not there", name, to)
				}
			}
			if policy := attribute(elements(root, "meta")[1], "content"); !strings.HasPrefix(policy, "default-src 'none';") ||
				strings.Count(policy, "'sha256-") != min(2, 2*len(assets.ECharts)) {
				t.Errorf("%s: policy %q", name, policy)
			}
		}
	}
}

// cells are the texts of a table's row whose first cell begins so.
func cells(t *testing.T, page, section, row string) []string {
	t.Helper()
	for _, s := range elements(parsePage(t, page), "section") {
		if attribute(s, "id") != section {
			continue
		}
		for _, tr := range elements(s, "tr") {
			var texts []string
			for n := range tr.Descendants() {
				if n.Data == "td" || n.Data == "th" {
					texts = append(texts, textOf(n))
				}
			}
			if strings.HasPrefix(texts[0], row) {
				return texts
			}
		}
	}
	t.Fatalf("section %s has no row %q", section, row)
	return nil
}

func TestPapersRooflineStandsBesideOurs(t *testing.T) {
	without, with := machineBench(), machineBench()
	with.Provenance["amx"] = "usable"
	with.Results = append(with.Results, gemmOf("amx", "bf16", "NN", [3]int{2048, 256, 1280}, 1800, 2000))
	bare := runs.Bench{Kind: runs.BenchMachine, Results: []runs.Measurement{spread(runs.GroupPeak, "fp32", 118, "GFLOP/s", 3, nil)}}
	for _, c := range []struct {
		name string
		b    runs.Bench
		row  string
		want []string
	}{
		{"no AMX", without, "bf16 GEMM, M 2,048", []string{"2,231 GFLOP/s §1", "212 GOP/s 208–214, median\u00a0211,\u00a0n\u00a05", "0.095×", "AMX: not in this CPU; instead vnni16 (int16), the fastest here"}},
		{"AMX", with, "bf16 GEMM, M 2,048", []string{"2,231 GFLOP/s §1", "1,800 GFLOP/s 1,764–1,818, median\u00a01,791,\u00a0n\u00a05", "0.81×", "kernel set amx"}},
		{"nothing", bare, "bf16 GEMM, M 2,048", []string{"2,231 GFLOP/s §1", "–", "", "not measured at this shape"}},
		{"no AMX", without, "bf16 GEMM, 1,024³", []string{"976–1,074 GFLOP/s §1", "205 GOP/s 201–207, median\u00a0204,\u00a0n\u00a05", "0.19–0.21×", "AMX: not in this CPU; instead vnni16 (int16), the fastest here"}},
		{"no AMX", without, "fp32 GEMM", []string{"121 GFLOP/s §1", "107 GFLOP/s 105–108, median\u00a0107,\u00a0n\u00a05", "0.89×", "kernel set avx512"}},
		{"no AMX", without, "AMX over", []string{"about 9× §1", "1.91× 1.91–1.91 over shapes, n\u00a08", "0.21×", "AMX: not in this CPU; instead vnni16 over fp32, shapes of 70 MFLOP and more"}},
		{"AMX", with, "AMX over", []string{"about 9× §1", "16.2× 16.2–16.2 over shapes, n\u00a01", "1.8×", "amx over fp32, shapes of 70 MFLOP and more"}},
		{"no AMX", without, "smallest GEMM", []string{"about 70 MFLOP §1", "≤ 1,342 MFLOP of 9 shapes measured", "", "kernel set vnni16"}},
		{"no AMX", without, "dispatch floor", []string{"1.4–1.5 µs §1", "0.21 µs 0.206–0.212, n\u00a0200", "0.14–0.15×", "smallest GEMM"}},
		{"no AMX", without, "L2", []string{"2 MiB §1", "1.0 MiB as stated", "0.5×", "read at 112 GB/s"}},
		{"nothing", bare, "L3", []string{"30 MiB §1", "–", "", "its size is not known; its bandwidth was not measured"}},
	} {
		if got := cells(t, renderBench(t, c.b, Assets{}), "paper", c.row)[1:]; !slices.Equal(got, c.want) {
			t.Errorf("%s, %s:\n got %q\nwant %q", c.name, c.row, got, c.want)
		}
	}
}

func TestAnotherShapesSpeedIsNotThePapers(t *testing.T) {
	page := renderBench(t, trainBench(), Assets{})
	for _, c := range [][]string{
		{"window MoE, E 128, k 4, d_model 384", "6,616 tokens/s §3", "–", "another shape than measured here"},
		{"compute-matched dense, d_model 384", "14,572 tokens/s §3", "–", "another shape than measured here"},
		{"release-dense", "not published ", "5,210 tokens/s 5,106–5,262, n\u00a05", "27.6 MFLOP per token"},
	} {
		if got := cells(t, page, "paper", c[0]); !slices.Equal(got, c) {
			t.Errorf("got %q, want %q", got, c)
		}
	}
	for _, s := range elements(parsePage(t, page), "section") {
		if attribute(s, "id") == "paper" && strings.Contains(textOf(s), "×") {
			t.Error("a ratio to the paper is given")
		}
	}
}

func TestStepAddsUpToTheWhole(t *testing.T) {
	b := trainBench()
	step := newStep(newBenchData(b))
	end := 0.0
	for _, p := range step.Bar {
		if math.Abs(p.Start-end) > 1e-9 {
			t.Errorf("%s starts at %g, what comes before it ends at %g", p.Name, p.Start, end)
		}
		end = p.Start + p.Size
	}
	if math.Abs(end-1) > 2e-3 || len(step.Bar) != colouredParts+1 || step.Bar[colouredParts].Colour != 0 {
		t.Errorf("the bar ends at %g: %+v", end, step.Bar)
	}
	if !slices.IsSortedFunc(step.Ops, func(a, b StepOp) int { return int(1e6 * (b.Share - a.Share)) }) {
		t.Errorf("the dearest do not come first: %+v", step.Ops)
	}
	want := []string{"AMLP dW", "17.1%", "134 ms 131–135, n\u00a05", "24", "24.2", "0.42", "compute", "76.5%", ""}
	if got := cells(t, renderBench(t, b, Assets{}), "step", "AMLP"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := cells(t, renderBench(t, b, Assets{}), "step", "Hsoftmax")[6]; got != "bandwidth of DRAM" {
		t.Errorf("softmax is bound by %q", got)
	}
	b.Results = slices.DeleteFunc(b.Results, func(m runs.Measurement) bool { return m.Name == "Go and other" })
	bar := newStep(newBenchData(b)).Bar
	if last := bar[len(bar)-1]; last.Name != "in no operation" || math.Abs(last.Size-0.103) > 1e-3 {
		t.Errorf("what no operation accounts for is %+v", last)
	}
}

// A letter in the plot is the row of the same letter in the table.
func TestLettersOfThePlotAreThoseOfTheTables(t *testing.T) {
	b := machineBench()
	page := newBenchPage(b)
	for _, set := range page.Plot.Sets {
		for _, d := range set.Dots {
			found := false
			for _, g := range page.Gemms.Groups {
				for _, row := range g.Rows {
					found = found || row.Key == d.Key && strings.Contains(d.Text, row.Shape) && strings.Contains(d.Text, g.Title[:2])
				}
			}
			if !found {
				t.Errorf("%s %s is in no row", d.Key, d.Text)
			}
		}
	}
	if d := page.Plot.Sets[0].Dots[0]; math.Abs(d.X-96.60) > 0.01 || d.Y != 111 {
		t.Errorf("2048×256×1280 stands at %+v", d)
	}
	train := newBenchPage(trainBench())
	mlp := train.Plot.Sets[0].Dots[0]
	if mlp.Key != "A" || mlp.Text != "MLP dW: 181 GFLOP/s" || math.Abs(mlp.Low-24.2e3/(134*1.01)) > 0.1 || mlp.Low > mlp.Y || mlp.Y > mlp.High {
		t.Errorf("the dearest operation stands at %+v", mlp)
	}
	if n := len(train.Plot.Sets[0].Dots) + len(train.Plot.Sets[1].Dots); n != 11 {
		t.Errorf("%d operations are drawn, want all but the one without work", n)
	}
	for in, want := range map[string]string{"A B C F": "A–C F", "A C": "A C", "B A": "A B", "Z A2 Y": "Y–A2", "A": "A"} {
		if got := ranges(strings.Fields(in)); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestRooflineStaysInItsFrame(t *testing.T) {
	slow := machineBench()
	slow.Results = append(slow.Results, gemmOf("reference", "fp32", "NN", [3]int{1, 1, 1}, 0.0001, 118))
	for name, b := range map[string]runs.Bench{"machine": machineBench(), "train": trainBench(), "slow": slow} {
		for _, d := range []RooflineDrawing{newBenchPage(b).Plot.draw("wide", wideWidth, wideHeight), newBenchPage(b).Plot.draw("narrow", 370, 340)} {
			inside := func(x, y float64) bool { return x >= 0 && x <= d.Width && y >= 0 && y <= d.Height }
			for _, l := range d.Lines {
				if !inside(l.X1, l.Y1) || !inside(l.X2, l.Y2) {
					t.Errorf("%s %s: line %+v", name, d.Size, l)
				}
			}
			for _, text := range d.Texts {
				if !inside(text.X, text.Y) {
					t.Errorf("%s %s: text %+v", name, d.Size, text)
				}
			}
			// What is slower than a hundred-thousandth would flatten the rest, and is left out.
			if want := map[string]int{"machine": 29, "train": 11, "slow": 29}[name]; len(d.Dots) != want || len(d.Lines) < 10 {
				t.Errorf("%s %s: %d dots, want %d, and %d lines", name, d.Size, len(d.Dots), want, len(d.Lines))
			}
			if slices.ContainsFunc(d.Texts, func(text DrawnText) bool { return text.Text == "J" && name == "slow" }) {
				t.Errorf("%s: a dot that is left out is named", d.Size)
			}
		}
	}
}

// The slope of a level meets the height of a roof where their quotient says.
func TestSlopesAndRoofsMeet(t *testing.T) {
	r := newBenchPage(machineBench()).Plot
	f := r.frame(wideWidth, wideHeight)
	var slopes, roofs []DrawnLine
	for _, l := range r.draw("wide", wideWidth, wideHeight).Lines {
		switch l.Class {
		case "slope":
			slopes = append(slopes, l)
		case "roof":
			roofs = append(roofs, l)
		}
	}
	if len(slopes) != 4 || len(roofs) != 4 {
		t.Fatalf("%d slopes, %d roofs", len(slopes), len(roofs))
	}
	if dram := slopes[3]; dram.X2 != f.x(473.0/28) || dram.Y2 != f.y(473) {
		t.Errorf("DRAM ends at %+v", dram)
	}
	if int8 := roofs[0]; int8.X1 != f.x(473.0/224) || int8.Y1 != f.y(473) || int8.X2 != f.right {
		t.Errorf("int8 is %+v", int8)
	}
	if x := f.atX(f.x(20)); math.Abs(x-20) > 0.1 {
		t.Errorf("20 FLOP per byte come back as %g", x)
	}
}

func TestBenchWithoutLimitsHasNoPlot(t *testing.T) {
	b := trainBench()
	b.Results = slices.DeleteFunc(b.Results, func(m runs.Measurement) bool { return m.Group != runs.GroupTrain })
	page := renderBench(t, b, fakeECharts())
	if strings.Contains(page, `id="roofline"`) || strings.Contains(page, "<script") || strings.Contains(page, "those of the roofline") {
		t.Error("the page speaks of a plot that it lacks")
	}
}

func TestRooflineOption(t *testing.T) {
	raw, err := newBenchPage(machineBench()).Plot.option()
	if err != nil {
		t.Fatal(err)
	}
	var option struct {
		XAxis  []struct{ LogBase int }
		Series []struct {
			Name, Type  string
			LabelLayout map[string]bool
			Data        []struct{ Value []float64 }
		}
	}
	if err := json.Unmarshal(raw, &option); err != nil {
		t.Fatal(err)
	}
	dots := 0
	for _, s := range option.Series {
		if s.Type == "scatter" && s.Name != lettersName {
			dots += len(s.Data)
		}
		if (s.Name == lettersName) != s.LabelLayout["hideOverlap"] {
			t.Errorf("series %s has the layout %v", s.Name, s.LabelLayout)
		}
	}
	if dots != 29 || option.XAxis[0].LogBase != 4 {
		t.Errorf("%d dots, base %d", dots, option.XAxis[0].LogBase)
	}
}

func TestHostileBenchStaysText(t *testing.T) {
	for name, b := range benches() {
		b.ID = hostile
		for key := range b.Provenance {
			b.Provenance[key] = hostile
		}
		b.Provenance[hostile] = hostile
		for i := range b.Results {
			m := &b.Results[i]
			m.Unit += hostile
			if m.Group != runs.GroupTrain {
				m.Name += hostile
			}
			for key := range m.Detail {
				if key == "op" || key == "set" || key == "trans" || key == "arithmetic" || key == "formula" || key == "bound" {
					m.Detail[key] += hostile
				}
			}
		}
		root := parsePage(t, renderBench(t, b, fakeECharts()))
		if n := len(elements(root, "img")); n != 0 {
			t.Errorf("%s: %d img elements were injected", name, n)
		}
		if n := len(elements(root, "script")); n != 3 {
			t.Errorf("%s: %d script elements, want 3", name, n)
		}
		survived := visible(strings.ReplaceAll(hostile, "\x00", "\ufffd"))
		if got := textOf(root); strings.Count(got, survived) < 20 {
			t.Errorf("%s: the text survives %d times", name, strings.Count(got, survived))
		}
	}
}

func TestWriteBench(t *testing.T) {
	store, err := runs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	path := filepath.Join(t.TempDir(), "bench.html")
	if err := WriteBench(t.Context(), store, "", path); !errors.Is(err, runs.ErrNoBench) {
		t.Errorf("no bench: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a page of no bench was written")
	}
	id, err := store.SaveBench(t.Context(), machineBench())
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteBench(t.Context(), store, id[:6], path); err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(html), id) || !strings.Contains(string(html), "AMD EPYC 9R14") {
		t.Errorf("%.200q %v", html, err)
	}
}
