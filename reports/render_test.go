package reports

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"harness/runs"
)

var update = flag.Bool("update", false, "rewrite the golden page")

func TestGoldenPage(t *testing.T) {
	got := renderPage(t, newRunPage(smallRecord()), Assets{})
	golden := filepath.Join("testdata", "run.html")
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
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Fatalf("line %d differs (-update accepts):\n got %s\nwant %s", i+1, gotLines[i], wantLines[i])
		}
	}
	if len(gotLines) != len(wantLines) {
		t.Fatalf("page has %d lines, want %d (-update accepts)", len(gotLines), len(wantLines))
	}
}

// A page may not cause a request: no element that loads, no URL in its styles, and
// a policy that forbids what was overlooked.
func TestPageLoadsNothing(t *testing.T) {
	for name, assets := range map[string]Assets{"static": {}, "interactive": fakeECharts()} {
		t.Run(name, func(t *testing.T) {
			page := renderPage(t, newRunPage(smallRecord()), assets)
			if at := regexp.MustCompile(`(?i)https?://|url\(|@import`).FindStringIndex(page); at != nil {
				t.Errorf("page refers to the outside: %q", page[at[0]:min(at[1]+60, len(page))])
			}
			root := parsePage(t, page)
			for n := range root.Descendants() {
				for _, key := range []string{"src", "srcset", "action", "xlink:href", "href"} {
					if v := attribute(n, key); v != "" && !strings.HasPrefix(v, "#") {
						t.Errorf("<%s %s=%q>", n.Data, key, v)
					}
				}
			}
			if policy := attribute(elements(root, "meta")[1], "content"); !strings.HasPrefix(policy, "default-src 'none';") {
				t.Errorf("policy %q", policy)
			}
		})
	}
}

// The browser runs only scripts whose hash the policy names, so the hashes must be
// those of the text as it stands in the page.
func TestPolicyAllowsExactlyTheInlinedScripts(t *testing.T) {
	root := parsePage(t, renderPage(t, newRunPage(smallRecord()), fakeECharts()))
	policy := attribute(elements(root, "meta")[1], "content")
	executable := 0
	for _, script := range elements(root, "script") {
		if attribute(script, "type") == "application/json" {
			continue
		}
		executable++
		sum := sha256.Sum256([]byte(textOf(script)))
		if hash := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, hash) {
			t.Errorf("policy %q lacks %s", policy, hash)
		}
	}
	if executable != 2 || strings.Count(policy, "'sha256-") != 2 {
		t.Errorf("%d scripts, policy %q; want echarts and our own", executable, policy)
	}
	static := renderPage(t, newRunPage(smallRecord()), Assets{})
	if strings.Contains(static, "<script") || strings.Contains(static, "script-src") {
		t.Error("a page without echarts should hold no script")
	}
}

const hostile = "</script><script>alert(1)</script><!--<script> ]]> </title></style>\"'`{{.}}\u2028\u2029\x00\xff\xfe\u202e <img src=x onerror=alert(1)>"

// Whatever a run records is text: it survives, and adds no element to the page.
func TestHostileTextStaysText(t *testing.T) {
	r := smallRecord()
	r.run.Name, r.run.Notes, r.run.Spec, r.run.Tags = hostile, hostile, "\n"+hostile, []string{hostile}
	r.run.Provenance = map[string]string{hostile: hostile}
	r.run.Attempts[1].Message = hostile
	for i := range r.series {
		r.series[i].Name += "/" + hostile
		r.series[i].Unit += hostile
	}
	for i := range r.scores {
		r.scores[i].Name += hostile
	}
	for i := range r.generations {
		g := &r.generations[i]
		g.Prompt, g.Text, g.Reference = "\n"+hostile, hostile+"\r\n", hostile
		g.Scores = map[string]float64{hostile: 1}
	}
	r.tables = []runs.Table{{Name: hostile, Columns: []string{hostile}, Rows: [][]string{{hostile}}}}
	r.events[0].Kind, r.events[0].Text = hostile, hostile
	r.artifacts[0].Path = hostile

	// html/template writes NUL as U+FFFD, which is also what invalid bytes become.
	survived := visible(strings.ReplaceAll(hostile, "\x00", "\ufffd"))
	root := parsePage(t, renderPage(t, newRunPage(r), fakeECharts()))
	if n := len(elements(root, "img")); n != 0 {
		t.Errorf("%d img elements were injected", n)
	}
	charts := byClass(root, "figure", "chart")
	if got, want := len(elements(root, "script")), len(charts)+2; got != want {
		t.Errorf("%d script elements, want %d", got, want)
	}
	if got := textOf(elements(root, "h1")[0]); !strings.HasPrefix(got, survived) {
		t.Errorf("name became %q", got)
	}
	if got := textOf(byClass(root, "bdi", "prompt")[0]); got != "\n"+survived {
		t.Errorf("prompt became %q", got)
	}
	if got := textOf(byClass(root, "bdi", "written")[0]); got != survived+"\n" {
		t.Errorf("generation became %q", got)
	}
	if got := textOf(elements(root, "pre")[0]); got != "\n"+survived {
		t.Errorf("spec became %q", got)
	}
	for _, chart := range charts {
		var option struct {
			Series []struct{ Name string } `json:"series"`
		}
		if err := json.Unmarshal([]byte(textOf(elements(chart, "script")[0])), &option); err != nil {
			t.Errorf("chart option is not JSON: %v", err)
		}
		if !strings.Contains(option.Series[0].Name, "</script><script>alert(1)") {
			t.Errorf("series name became %q", option.Series[0].Name)
		}
	}
}

func TestIdsAreUnique(t *testing.T) {
	root := parsePage(t, renderPage(t, newRunPage(smallRecord()), fakeECharts()))
	seen := map[string]bool{}
	for n := range root.Descendants() {
		if id := attribute(n, "id"); id != "" {
			if seen[id] {
				t.Errorf("id %q occurs twice", id)
			}
			seen[id] = true
		}
	}
	for _, svg := range byClass(root, "svg", "plot") {
		if !seen[attribute(svg, "aria-labelledby")] {
			t.Errorf("drawing labelled by %q, which is not there", attribute(svg, "aria-labelledby"))
		}
	}
}

func TestNewestGenerationsAreOpenAndStandBesideScores(t *testing.T) {
	root := parsePage(t, renderPage(t, newRunPage(smallRecord()), Assets{}))
	steps := byClass(root, "details", "step")
	if len(steps) != 2 {
		t.Fatalf("%d steps of generations, want 2", len(steps))
	}
	for i, want := range []string{"step 40", "step 20"} {
		summary := textOf(elements(steps[i], "summary")[0])
		if !strings.HasPrefix(summary, want) || !strings.Contains(summary, "shift") || !strings.Contains(summary, "chance 7.1%") {
			t.Errorf("summary %d is %q", i, summary)
		}
		open := false
		for _, a := range steps[i].Attr {
			open = open || a.Key == "open"
		}
		if open != (i == 0) {
			t.Errorf("%s: open is %v", want, open)
		}
	}
	if sample := textOf(byClass(root, "figure", "sample")[0]); !strings.Contains(sample, "NaN") {
		t.Errorf("sample hides its NaN score: %q", sample)
	}
}

func TestEmptyRun(t *testing.T) {
	root := parsePage(t, renderPage(t, newRunPage(record{run: runs.Run{ID: "01K7", State: runs.Pending}}), fakeECharts()))
	if got := textOf(elements(root, "h1")[0]); got != "01K7 pending" {
		t.Errorf("title %q", got)
	}
	text := textOf(root)
	if nav := textOf(elements(root, "nav")[0]); nav != "Record" || len(elements(root, "section")) != 1 {
		t.Errorf("empty sections are shown: %q", nav)
	}
	for _, want := range []string{"No attempt has begun", "Nothing was recorded"} {
		if !strings.Contains(text, want) {
			t.Errorf("page of an empty run does not say %q", want)
		}
	}
}

func TestRunThatEndedBeforeItsFirstStep(t *testing.T) {
	run := runs.Run{ID: "01K7", State: runs.Crashed, Provenance: map[string]string{"steps": "1758"}}
	said := func(run runs.Run) string {
		return textOf(elements(parsePage(t, renderPage(t, newRunPage(record{run: run}), Assets{})), "header")[0])
	}
	for _, want := range []string{"before its first step", "harness resume 01K7", "0 of 1,758 steps"} {
		if !strings.Contains(said(run), want) {
			t.Errorf("the header lacks %q: %s", want, said(run))
		}
	}
	for state, step := range map[runs.State]int64{runs.Crashed: 1, runs.Running: 0, runs.Diverged: 0} {
		run.State, run.Step = state, step
		if strings.Contains(said(run), "resume") {
			t.Errorf("%s at step %d: %s", state, step, said(run))
		}
	}
}

func TestPageOfARunWithoutTasks(t *testing.T) {
	const line = "The spec has no tasks, so nothing was probed."
	for spec, want := range map[string]bool{
		"corpus: {tasks: []}": true, "corpus: {sources: [{kind: gotree}]}": true,
		"": false, "tasks: none": false, "corpus: {tasks: [{name: copy}]}": false, "corpus: [": false,
	} {
		r := smallRecord()
		r.run.Spec, r.scores = spec, nil
		r.tables = nil
		root := parsePage(t, renderPage(t, newRunPage(r), Assets{}))
		for _, s := range elements(root, "section") {
			switch attribute(s, "id") {
			case "scores":
				t.Errorf("spec %q: scores of nothing", spec)
			case "curves":
				if strings.HasSuffix(strings.TrimSpace(textOf(s)), line) != want {
					t.Errorf("spec %q: want the line at the end: %v", spec, want)
				}
			}
		}
		if nav := textOf(elements(root, "nav")[0]); strings.Contains(nav, "Scores") || !strings.Contains(nav, "Curves Generations") {
			t.Errorf("spec %q: sections %q", spec, nav)
		}
	}
	scored := smallRecord()
	scored.run.Spec = "corpus: {}"
	if page := renderPage(t, newRunPage(scored), Assets{}); strings.Contains(page, line) {
		t.Error("a run with scores is said to be not probed")
	}
}

func TestScoresOfGenerationsAreExplained(t *testing.T) {
	for want, names := range map[string][]string{
		"": {"mine"},
		"distinct: distinct tokens / tokens generated (near 0: a loop)":                              {"distinct", "mine"},
		"reference nats/token and top-1: loss and accuracy on the true continuation, teacher-forced": {"reference top-1"},
	} {
		scores := map[string]float64{}
		for _, name := range names {
			scores[name] = 1
		}
		if got := GenerationKey([]runs.Generation{{}, {Scores: scores}}); got != want {
			t.Errorf("%v: %q, want %q", names, got, want)
		}
	}
	text := textOf(parsePage(t, renderPage(t, newRunPage(smallRecord()), Assets{})))
	if n := strings.Count(text, "near 0: a loop"); n != 1 {
		t.Errorf("the page explains the scores %d times", n)
	}
}

func TestPageWeight(t *testing.T) {
	const limit = 3 << 20
	for name, format := range map[string]string{"a family": "train/loss/%d", "each its own chart": "train/loss %d", "as they are": "m%d"} {
		t.Run(name, func(t *testing.T) {
			r := record{run: runs.Run{ID: "01K7", State: runs.Finished}}
			for i := range 20 {
				s := noisySeries(100_000)
				s.Name = fmt.Sprintf(format, i)
				r.series = append(r.series, s)
			}
			if size := len(renderPage(t, newRunPage(r), fakeECharts())); size > limit {
				t.Errorf("20 long curves weigh %d bytes, limit %d", size, limit)
			} else {
				t.Logf("%d bytes", size)
			}
		})
	}
}

func TestSectionsStandInTheOrderOfWorth(t *testing.T) {
	page := renderPage(t, newRunPage(smallRecord()), Assets{})
	root := parsePage(t, page)
	var order []string
	for _, s := range elements(elements(root, "main")[0], "section") {
		if id := attribute(s, "id"); id != "" {
			order = append(order, id)
		}
	}
	if want := "scores curves generations inputs tables spec record"; strings.Join(order, " ") != want {
		t.Errorf("sections %q, want %q", order, want)
	}
	last := -1
	for _, want := range []string{`class="facts"`, `>Probe samples `, `>Attempts<`, `>Events `, `>Files `, `>Provenance<`, `>Modules `} {
		at := strings.Index(page, want)
		if at <= last {
			t.Errorf("%s stands at %d, what comes before it at %d", want, at, last)
		}
		last = at
	}
}

func TestOnlyTheSpecIsOpenOfTheLongLists(t *testing.T) {
	root := parsePage(t, renderPage(t, newRunPage(smallRecord()), Assets{}))
	open := map[string]bool{}
	for _, d := range elements(root, "details") {
		name, _, _ := strings.Cut(textOf(elements(d, "summary")[0]), " ")
		for _, a := range d.Attr {
			open[name] = open[name] || a.Key == "open"
		}
	}
	for name, want := range map[string]bool{"Spec": true, "Probe": false, "Modules": false} {
		if open[name] != want {
			t.Errorf("%s is open: %v, want %v", name, open[name], want)
		}
	}
	if modules := textOf(byClass(root, "details", "libraries")[0]); !strings.Contains(modules, "example.org/libraryv1.2.3") {
		t.Errorf("modules are %q", modules)
	}
}

func TestProbeSamplesAreTheNewestOnOneLine(t *testing.T) {
	r := smallRecord()
	r.tables[len(r.tables)-1].Rows[0][2] = "newest"
	page := newRunPage(r)
	if page.Samples == nil || page.Samples.Note != "at step 40" || page.Samples.Rows[0][1] != "<|bos|>│a↵│b│<|mark|>" || page.Samples.Rows[0][2] != "newest" {
		t.Fatalf("samples %+v", page.Samples)
	}
	text := textOf(byClass(parsePage(t, renderPage(t, page, Assets{})), "details", "samples")[0])
	if !strings.Contains(text, "teacher-forced: one asked word per prompt") || strings.Contains(text, "earlier") {
		t.Errorf("samples read %q", text)
	}
}

func TestTablesOfOursAreExplained(t *testing.T) {
	r := smallRecord()
	r.tables = []runs.Table{{Name: "norm gains", Columns: []string{"gain"}}, {Name: "branches", Columns: []string{"branch"}}, {Name: "mine", Columns: []string{"x"}}}
	text := textOf(parsePage(t, renderPage(t, newRunPage(r), Assets{})))
	for _, want := range []string{"(Σw²)² / Σw⁴", "rms of what a branch adds / rms of the residual stream"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("the page says %d times %q", strings.Count(text, want), want)
		}
	}
}

func TestPrunedFilesAreCalledGone(t *testing.T) {
	r := smallRecord()
	r.artifacts[0].Path = "runs/" + r.run.ID + "/kept.safetensors"
	table := newRunPage(r).Artifacts
	if table.Rows[0][2] != "kept.safetensors" || table.Rows[0][3] != "yes" || table.Rows[1][3] != "gone" || table.Meaning == "" {
		t.Errorf("files %+v", table)
	}
	r.gone = nil
	if table := newRunPage(r).Artifacts; table.Rows[1][3] != "yes" || table.Meaning != "" {
		t.Errorf("files %+v, where none is gone", table)
	}
}
