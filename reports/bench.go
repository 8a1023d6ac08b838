package reports

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"

	"github.com/google/renameio/v2"

	"harness/runs"
)

var (
	//go:embed templates/bench.html
	benchTemplate string
	//go:embed templates/bench.css
	benchStyle string
)

// BenchPage is everything the page of one bench shows, in the order it shows it.
type BenchPage struct {
	Title   string
	Kind    string
	Machine string // what measured, in a line
	Facts   []Fact
	Step    *Step // of a training step; nil for a machine
	Paper   Comparison
	Plot    *Roofline // nil where no peak or no bandwidth was measured
	Gemms   *GemmTable
	Limits  []LimitGroup

	Provenance []Fact
	Libraries  []Fact
}

// Figure is a measured figure as the page prints it.
type Figure struct {
	Value  string // with its unit
	Spread string // from the least to the most and n; "calculated" for what was not measured
}

// Comparison is a table of the paper's figures beside ours.
type Comparison struct {
	Title, Here, Meaning string
	Rows                 []ComparisonRow
}

// ComparisonRow is one figure of the paper and ours.
type ComparisonRow struct {
	Quantity string
	Paper    string
	Section  string // of the paper's facts
	Ours     Figure // Value "" where it cannot be measured here; Note then says why
	Ratio    string // ours over the paper's, "" where they are not of one kind
	Note     string
}

// GemmTable has a row per shape and a column per kernel set.
type GemmTable struct {
	Sets   []string
	Groups []GemmGroup
}

// GemmGroup holds the shapes of one pair of transpositions.
type GemmGroup struct {
	Title string
	Rows  []GemmRow
}

// GemmRow is one shape under every set.
type GemmRow struct {
	Key   string // its letter in the plot, "" where it is in none
	Shape string
	Work  string      // where it occurs and how much there is to compute
	Cells []*GemmCell // by set; nil where it was not measured
}

// GemmCell is one set's speed at one shape.
type GemmCell struct {
	Figure
	Packed string  // speed with the right operand packed before, "" if not known
	Share  float64 // of the measured peak of its arithmetic, 0 if not known
	Peak   string  // that peak, "" if not known
	Best   bool    // of its row
}

// LimitGroup is a part of the list of what the core can do at most.
type LimitGroup struct {
	Title string
	Rows  []LimitRow
}

// LimitRow is one such figure.
type LimitRow struct {
	Name, Detail string
	Figure
}

// Step is where the time of a training step goes.
type Step struct {
	Figures []StepFigure
	Bar     []StepPart // of all of the step's time
	Ops     []StepOp
}

// StepFigure is a figure of the step as a whole.
type StepFigure struct {
	Name string
	Figure
	Note string
}

// StepPart is a stretch of the bar, in shares of the whole.
type StepPart struct {
	Name        string
	Start, Size float64
	Colour      int // 0 for what has none of its own
}

// StepOp is one operation's row.
type StepOp struct {
	Key     string // its letter in the plot
	Name    string
	Colour  int
	Share   float64
	Time    Figure
	Calls   string
	GFLOP   string
	GByte   string
	Bound   string
	OfBound float64 // 0 if not known
}

// Size of the plot's drawing for wide pages.
const wideWidth, wideHeight = 860, 430

// WriteBench writes the page of a bench to path, atomically, with what scripts the
// user's cache holds. id is an id, a prefix of one, or "" for the newest bench.
func WriteBench(ctx context.Context, store *runs.Store, id, path string) error {
	page, err := LoadBench(ctx, store, id)
	if err != nil {
		return err
	}
	var html bytes.Buffer
	if err := page.Render(&html, FindAssets()); err != nil {
		return fmt.Errorf("render the page of bench %s: %w", id, err)
	}
	if err := renameio.WriteFile(path, html.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the page of bench %s: %w", id, err)
	}
	return nil
}

// LoadBench reads a bench from the store and lays out its page. id is what Store.Bench takes.
func LoadBench(ctx context.Context, store *runs.Store, id string) (BenchPage, error) {
	b, err := store.Bench(ctx, "", id)
	if err != nil {
		return BenchPage{}, fmt.Errorf("read the bench: %w", err)
	}
	return newBenchPage(b), nil
}

// Render writes the page as one HTML document.
func (page BenchPage) Render(w io.Writer, assets Assets) error {
	view := struct {
		Page     BenchPage
		Drawings []RooflineDrawing // the same plot for wide and for narrow pages
		Option   json.RawMessage   // nil where echarts is not inlined
		Policy   string
		Style    template.HTML
		Scripts  []template.HTML
	}{Page: page, Style: template.HTML("<style>\n" + pageStyle + benchStyle + "</style>")}
	var scripts []string
	if page.Plot != nil {
		view.Drawings = []RooflineDrawing{page.Plot.draw("wide", wideWidth, wideHeight), page.Plot.draw("narrow", 370, 340)}
		if len(assets.ECharts) > 0 {
			scripts = []string{string(assets.ECharts), chartScript}
			var err error
			if view.Option, err = page.Plot.option(); err != nil {
				return err
			}
		}
	}
	view.Policy = contentPolicy(scripts)
	for _, script := range scripts {
		view.Scripts = append(view.Scripts, template.HTML("<script>"+script+"</script>"))
	}
	layout, err := template.New("run").Funcs(pageFuncs()).Funcs(benchFuncs()).Parse(runTemplate)
	if err == nil {
		layout, err = layout.New("bench").Parse(benchTemplate)
	}
	if err != nil {
		return fmt.Errorf("parse the page template: %w", err)
	}
	return fillPage(w, layout, view)
}

func benchFuncs() template.FuncMap {
	return template.FuncMap{
		"percent": percent,
		// A length within a bar of 100 units; what claims more than the whole fills it.
		"ofHundred":    func(share float64) float64 { return round(100*min(max(share, 0), 1), 4) },
		"glyph":        glyph,
		"inc":          func(n int) int { return n + 1 },
		"paperMachine": func() string { return paperMachine },
	}
}
