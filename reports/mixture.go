package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"harness/runs"
)

// Names of the tables that a run with mixtures of experts records.
const (
	routerTable   = "router"
	loadTable     = "expert load"
	lineageTable  = "lineage"
	ablationTable = "routing ablations"
)

// routerMetrics is the prefix of the metrics of mixtures: router/LAYER/WHAT.
const routerMetrics = "router/"

// Mixture is what a page shows of a run's mixtures of experts.
type Mixture struct {
	Charts  []Chart
	Lineage *Lineage // nil where nothing is known of single experts
	Family  *Table   // the lineage as text
	Growths *Table   // nil if there was none
	Tables  []Table  // the router's and the ablations
}

// newMixture collects what a run recorded of its mixtures, nil if it is dense.
func newMixture(r record, charts []Chart, tables []Table) *Mixture {
	m := &Mixture{Charts: charts}
	for _, t := range tables {
		if t.Title == routerTable || t.Title == ablationTable {
			m.Tables = append(m.Tables, t)
		}
	}
	slices.SortStableFunc(m.Tables, func(a, b Table) int { return cmp.Compare(b.Title, a.Title) }) // ablations first
	m.Lineage = newLineage(r.tables, tokenCounter(r.series))
	if m.Lineage != nil {
		m.Family = m.Lineage.table()
		m.Growths = growthTable(m.Lineage.Growths)
	} else { // as they were recorded
		for _, t := range tables {
			if t.Title == loadTable || t.Title == lineageTable {
				m.Tables = append(m.Tables, t)
			}
		}
	}
	if len(m.Charts) == 0 && len(m.Tables) == 0 && m.Lineage == nil {
		return nil
	}
	return m
}

// table is the lineage and the loads as text.
func (l *Lineage) table() *Table {
	t := &Table{Title: "experts", Columns: []string{"expert"}, Numeric: []bool{true}}
	if len(l.Growths) > 0 {
		t.Columns, t.Numeric = append(t.Columns, "descends from"), append(t.Numeric, false)
	}
	for _, loads := range l.Loads {
		t.Columns, t.Numeric = append(t.Columns, "load, "+layerName(loads.Layer)), append(t.Numeric, true)
	}
	for _, i := range l.Order {
		row := []string{strconv.Itoa(i)}
		if len(l.Growths) > 0 {
			row = append(row, l.Ancestors(i))
		}
		for _, loads := range l.Loads {
			row = append(row, multiple(loads.Of[i]))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func growthTable(growths []Growth) *Table {
	if len(growths) == 0 {
		return nil
	}
	t := &Table{Title: "Growth", Columns: []string{"after step", "tokens", "method", "experts before", "experts after", "jitter"},
		Numeric: []bool{true, true, false, true, true, true}}
	for _, g := range growths {
		t.Rows = append(t.Rows, []string{humanize.Comma(g.Step), humanize.Comma(g.Tokens), g.Method, humanize.Comma(int64(g.Before)), humanize.Comma(int64(g.After)), g.Jitter})
	}
	return t
}

// multiple prints a load in multiples of an equal share.
func multiple(v float64) string {
	if !finite(v) {
		return number(v)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// routerSeries are metrics of the same quantity, one of each mixture.
type routerSeries struct {
	what   string
	series []runs.Series // named by layer
}

// takeRouter takes the metrics of mixtures out of the series, by quantity.
func takeRouter(series []runs.Series) (rest []runs.Series, router []routerSeries) {
	for _, s := range series {
		name, is := strings.CutPrefix(s.Name, routerMetrics)
		if !is {
			rest = append(rest, s)
			continue
		}
		layer, what, ofLayer := strings.Cut(name, "/")
		if !ofLayer {
			layer, what = "", name
		}
		i := slices.IndexFunc(router, func(r routerSeries) bool { return r.what == what })
		if i < 0 {
			i = len(router)
			router = append(router, routerSeries{what: what})
		}
		if s.Name = "all mixtures"; ofLayer {
			s.Name = layerName(layer)
		}
		router[i].series = append(router[i].series, s)
	}
	for _, r := range router {
		slices.SortStableFunc(r.series, func(a, b runs.Series) int { return compareNames(a.Name, b.Name) })
	}
	slices.SortStableFunc(router, func(a, b routerSeries) int {
		return cmp.Or(cmp.Compare(routerRank(a.what), routerRank(b.what)), compareNames(a.what, b.what))
	})
	return rest, router
}

// quantities of a router in the order of the page, with what they are called and mean.
func quantities() [][3]string {
	return [][3]string{
		{"entropy", "router entropy", "entropy of the router's softmax over all experts, mean over routed blocks; ln E if it prefers none"},
		{"effective", "experts in effect", "exp of the entropy of the running load; E if all are used alike"},
		{"dead", "dead experts", "experts with a running load below 1% of an equal share; one that is never used counts after some 460 steps"},
		{"first_share", "first-block share", "share of tokens that a learned vector routed, being in the first block of a document"},
		{"balance", "balance loss", "E Σ f p, summed over mixtures: their number if load and preference are even"},
	}
}

func routerRank(what string) int {
	i := slices.IndexFunc(quantities(), func(q [3]string) bool { return q[0] == what })
	if i < 0 {
		return len(quantities())
	}
	return i
}

// routerCharts draws one chart per quantity, its mixtures together, at most
// maxCurvesInCrowd to a chart. Where experts grew, a line says how many there were.
func routerCharts(router []routerSeries, experts []Point) []Chart {
	var charts []Chart
	for _, r := range router {
		title, note := r.what, ""
		if i := routerRank(r.what); i < len(quantities()) {
			title, note = quantities()[i][1], quantities()[i][2]
		}
		parts := (len(r.series) + maxCurvesInCrowd - 1) / maxCurvesInCrowd
		for part := range slices.Chunk(r.series, (len(r.series)+parts-1)/parts) {
			chart := newChart(part)
			chart.Title, chart.Note, chart.Section, chart.Share = title, note, mixtureSection, r.what == "first_share"
			chart.Noisy = slices.Contains([]string{"first_share", "balance"}, r.what) // loads run already, and a mean of entropy would blur a growth
			if chart.Unit == "experts" {
				chart.Unit = "" // as the title says
			}
			if r.what == "effective" && len(experts) > 0 && chart.Axis == AxisTokens {
				chart.Curves = append(chart.Curves, Curve{Name: "number of experts", Colour: paletteSize - 1, Points: experts, Plain: true})
			}
			if parts > 1 {
				chart.Part = title
				chart.Title += fmt.Sprintf(", %s to %s", part[0].Name, strings.TrimPrefix(part[len(part)-1].Name, "layer "))
			}
			charts = append(charts, chart)
		}
	}
	return charts
}

// mixtureSection is the section of the page that the charts of mixtures stand in.
const mixtureSection = "mixture"

// expertsOver is how many experts there were, from the first to the last of the router's
// points: corners of a staircase. It is empty where nothing grew.
func expertsOver(router []routerSeries, l *Lineage) []Point {
	if l == nil || len(router) == 0 || len(l.Growths) == 0 {
		return nil
	}
	first, last := math.Inf(1), 0.0
	for _, r := range router {
		for _, s := range r.series {
			for _, p := range s.Points {
				first, last = min(first, float64(p.Tokens)), max(last, float64(p.Tokens))
			}
		}
	}
	points := []Point{{min(first, float64(l.Growths[0].Tokens)), float64(l.Growths[0].Before)}}
	for _, g := range l.Growths {
		points = append(points, Point{float64(g.Tokens), float64(g.Before)}, Point{float64(g.Tokens), float64(g.After)})
	}
	return append(points, Point{max(last, points[len(points)-1].X), points[len(points)-1].Value})
}

// drawnMixture is a mixture with its drawings.
type drawnMixture struct {
	Mixture
	Charts   [][]drawnChart
	Drawings []LineageDrawing // the same for wide and for narrow pages
	LoadKey  []string
	LoadStep int64
	Added    bool
}

func (m *Mixture) draw(interactive bool) (*drawnMixture, error) {
	d := &drawnMixture{Mixture: *m}
	var err error
	if d.Charts, err = drawCharts(m.Charts, interactive); err != nil {
		return nil, err
	}
	if l := m.Lineage; l != nil {
		d.Drawings = []LineageDrawing{l.draw("wide", lineageWide, lineageWideMost), l.draw("narrow", lineageNarrow, lineageNarrowMost)}
		d.Added = l.Added()
		if len(l.Loads) > 0 {
			d.LoadKey, d.LoadStep = l.LoadKey(), l.LoadStep
		}
	}
	return d, nil
}
