package reports

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/google/renameio/v2"

	"harness/runs"
)

var (
	//go:embed templates/run.html
	runTemplate string
	//go:embed templates/mixture.html
	mixtureTemplate string
	//go:embed templates/page.css
	pageStyle string
	//go:embed templates/mixture.css
	mixtureStyle string
	//go:embed templates/charts.js
	chartScript string
)

// WriteRun writes the page of one run to path, atomically: a reader of path sees
// the old page or the new one. runID is an id or whatever else Store.Find takes.
func WriteRun(ctx context.Context, store *runs.Store, runID, path string, assets Assets) error {
	page, err := LoadRun(ctx, store, runID)
	if err != nil {
		return err
	}
	var html bytes.Buffer
	if err := page.Render(&html, assets); err != nil {
		return fmt.Errorf("render the page of run %s: %w", runID, err)
	}
	if err := renameio.WriteFile(path, html.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the page of run %s: %w", runID, err)
	}
	return nil
}

// drawnChart is a chart with its two drawings.
type drawnChart struct {
	Chart  Chart
	SVG    template.HTML
	Option json.RawMessage // nil where echarts is not inlined
}

// Render writes the page as one HTML document.
func (page RunPage) Render(w io.Writer, assets Assets) error {
	view := struct {
		Page    RunPage
		Charts  [][]drawnChart // one, or a family
		Mixture *drawnMixture
		Policy  string
		Style   template.HTML
		Scripts []template.HTML
	}{Page: page, Style: template.HTML("<style>\n" + pageStyle + "</style>")}

	interactive := len(assets.ECharts) > 0 && (len(page.Charts) > 0 || page.Mixture != nil && len(page.Mixture.Charts) > 0)
	var err error
	if view.Charts, err = drawCharts(page.Charts, interactive); err != nil {
		return err
	}
	if page.Mixture != nil {
		view.Style = template.HTML("<style>\n" + pageStyle + mixtureStyle + "</style>")
		if view.Mixture, err = page.Mixture.draw(interactive); err != nil {
			return err
		}
	}
	var scripts []string
	if interactive {
		scripts = []string{string(assets.ECharts), chartScript}
	}
	view.Policy = contentPolicy(scripts)
	for _, script := range scripts {
		view.Scripts = append(view.Scripts, template.HTML("<script>"+script+"</script>"))
	}

	layout, err := template.New("run").Funcs(pageFuncs()).Parse(runTemplate)
	if err == nil {
		_, err = layout.New("mixture of experts").Parse(mixtureTemplate)
	}
	if err != nil {
		return fmt.Errorf("parse the page template: %w", err)
	}
	return fillPage(w, layout, view)
}

// drawCharts draws charts, the neighbours of a family together.
func drawCharts(charts []Chart, interactive bool) ([][]drawnChart, error) {
	var out [][]drawnChart
	for _, chart := range charts {
		drawn := drawnChart{Chart: chart}
		var err error
		if drawn.SVG, err = chart.SVG(); err != nil {
			return nil, err
		}
		if interactive {
			if drawn.Option, err = chart.Option(); err != nil {
				return nil, err
			}
		}
		if n := len(out); n > 0 && chart.Family != "" && sameFamily(out[n-1][0].Chart, chart) {
			out[n-1] = append(out[n-1], drawn)
			continue
		}
		out = append(out, []drawnChart{drawn})
	}
	return out, nil
}

// fillPage writes the layout filled with view.
func fillPage(w io.Writer, layout *template.Template, view any) error {
	var html strings.Builder
	if err := layout.Execute(&html, view); err != nil {
		return fmt.Errorf("fill the page template: %w", err)
	}
	// Once, over the whole document, so that no field can be forgotten. Scripts and
	// styles hold no such bytes, or their hashes would no longer match the policy.
	_, err := io.WriteString(w, visible(html.String()))
	return err
}

func sameFamily(a, b Chart) bool { return a.Family == b.Family && a.Unit == b.Unit && a.Axis == b.Axis }

// contentPolicy forbids the page every network access, and every script but the
// given ones, by their hashes: should text ever escape its context, the browser
// would still refuse to run it. Inline styles are what the SVGs are made of.
func contentPolicy(scripts []string) string {
	policy := "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
	if len(scripts) > 0 {
		policy += "; script-src"
		for _, script := range scripts {
			sum := sha256.Sum256([]byte(script))
			policy += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		}
	}
	return policy
}

func pageFuncs() template.FuncMap {
	return template.FuncMap{
		"count":      func(n int64) string { return humanize.Comma(n) },
		"scoreBar":   scoreBar,
		"colour":     func(i int) int { return i%paletteSize + 1 },
		"markKey":    markKey,
		"stateClass": stateClass,
		"cellClass":  cellClass,
	}
}

// cellClass aligns numbers to the right and lets sentences wrap; short cells stay
// on one line.
func cellClass(numeric []bool, c int, cell string) string {
	const sentence = 48 // characters
	switch {
	case c < len(numeric) && numeric[c]:
		return "n"
	case utf8.RuneCountInString(cell) > sentence:
		return "long"
	}
	return ""
}

func stateClass(s runs.State) string {
	switch s {
	case runs.Finished:
		return "good"
	case runs.Diverged, runs.Failed, runs.Crashed:
		return "bad"
	}
	return "neutral"
}

// markKey draws, for the legend, what SVG draws for a mark.
func markKey(kind MarkKind) template.HTML {
	switch kind {
	case MarkNonFinite:
		return `<line class="alert" x1="4" y1="1" x2="10" y2="7"/><line class="alert" x1="4" y1="7" x2="10" y2="1"/>`
	case MarkPhase, MarkGrowth:
		return `<line x1="7" y1="0" x2="7" y2="8"/>`
	case MarkDiverged:
		return `<line class="alert" x1="7" y1="0" x2="7" y2="8"/>`
	}
	return `<line x1="7" y1="0" x2="7" y2="8" stroke-dasharray="2 1"/>`
}
