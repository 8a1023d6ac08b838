package reports

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
)

// option returns the plot as an echarts option object in JSON: see Chart.Option.
func (r *Roofline) option() (json.RawMessage, error) {
	line := charts.NewLine()
	line.SetGlobalOptions(
		charts.WithAnimation(false),
		charts.WithLegendOpts(opts.Legend{Show: opts.Bool(false)}),
		charts.WithTooltipOpts(opts.Tooltip{Trigger: "item", Formatter: "{b}", BackgroundColor: "var(--paper)", BorderColor: "var(--rule)"}),
		charts.WithGridOpts(opts.Grid{Left: "8", Right: "20", Top: "30", Bottom: "8", ContainLabel: opts.Bool(true)}),
		charts.WithXAxisOpts(opts.XAxis{Type: "log", Min: round(r.Left, 6), Max: round(r.Right, 6),
			SplitLine: &opts.SplitLine{Show: opts.Bool(false)}, AxisLabel: axisLabel(), AxisLine: axisLine()}),
		charts.WithYAxisOpts(opts.YAxis{Type: "log", Min: round(r.Bottom, 6), Max: round(r.Top, 6),
			SplitLine: &opts.SplitLine{LineStyle: &opts.LineStyle{Color: "var(--rule)"}}, AxisLabel: axisLabel()}),
		charts.WithToolboxOpts(opts.Toolbox{Right: "12", Feature: &opts.ToolBoxFeature{
			DataZoom:    &opts.ToolBoxFeatureDataZoom{Show: opts.Bool(true), Title: map[string]string{"zoom": "zoom: drag over a part", "back": "zoom back"}},
			Restore:     &opts.ToolBoxFeatureRestore{Show: opts.Bool(true), Title: "all of it"},
			SaveAsImage: &opts.ToolBoxFeatureSaveAsImage{Show: opts.Bool(true), Title: "save as image", Name: "roofline"},
		}}),
	)
	limit := func(label, align string, labelAt, from, to [2]float64, kind string) { // label "" for none
		ends := []opts.LineData{}
		for _, end := range [][2]float64{from, to} {
			ends = append(ends, opts.LineData{Name: label, Value: []any{round(end[0], 6), round(end[1], 6)}})
		}
		line.AddSeries("limits", ends,
			charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(false)}),
			charts.WithItemStyleOpts(opts.ItemStyle{Color: "var(--muted)"}),
			charts.WithLineStyleOpts(opts.LineStyle{Color: "var(--muted)", Width: 1.2, Type: kind}),
			charts.WithMarkPointNameCoordItemOpts(opts.MarkPointNameCoordItem{Name: label, Coordinate: []any{round(labelAt[0], 6), round(labelAt[1], 6)}}),
			charts.WithMarkPointStyleOpts(opts.MarkPointStyle{Symbol: []string{"circle"}, SymbolSize: 0.01,
				Label: &opts.Label{Show: opts.Bool(label != ""), Formatter: "{b}", Color: "var(--muted)", FontSize: 11, Position: "top", Align: align}}))
	}
	f := r.frame(wideWidth, wideHeight)
	places := r.letters(f)
	highest, fastest := r.Roofs[0].Value, r.Slopes[0].Value
	labelled := map[string]Roof{}
	for _, roof := range roofNames(r.Roofs, f.sameRoof()) {
		labelled[fmt.Sprint(roof.Value)] = roof
	}
	for _, roof := range r.Roofs {
		label, at := "", [2]float64{r.Right, roof.Value}
		if named, is := labelled[fmt.Sprint(roof.Value)]; is {
			label, at[0] = visible(named.label()), f.atX(f.roofLabel(named, places).X)
			delete(labelled, fmt.Sprint(roof.Value)) // of two that are the same
		}
		limit(label, "right", at, [2]float64{max(r.Left, roof.Value/fastest), roof.Value}, [2]float64{r.Right, roof.Value}, "solid")
	}
	// Labelled at their upper ends, where there are no dots, and together where they are close.
	names := map[float64]string{}
	for _, s := range roofNames(r.Slopes, 1.4) {
		names[s.Value] = visible(s.Name)
	}
	for _, s := range r.Slopes {
		from, to := max(r.Left, r.Bottom/s.Value), min(r.Right, highest/s.Value)
		top := [2]float64{to, to * s.Value}
		limit(names[s.Value], "center", top, [2]float64{from, from * s.Value}, top, "dashed")
	}
	dots := charts.NewScatter()
	var letters []opts.ScatterData
	for _, l := range places {
		letters = append(letters, opts.ScatterData{Name: l.text, Value: []any{round(l.x, 6), round(l.y, 6)}, SymbolSize: 14})
	}
	// First, so that the dots lie above and take the pointer.
	dots.AddSeries(lettersName, letters, charts.WithItemStyleOpts(opts.ItemStyle{Color: "transparent"}), charts.WithLabelOpts(
		opts.Label{Show: opts.Bool(true), Position: "bottom", Formatter: "{b}", Color: "var(--ink)", FontSize: 12, FontWeight: "bold"}))
	for _, set := range r.Sets {
		var data []opts.ScatterData
		for _, d := range set.Dots {
			data = append(data, opts.ScatterData{Name: visible(d.Key + " " + d.Text), Value: []any{round(d.X, 6), round(d.Y, 6)},
				Symbol: []string{"circle", "rect", "triangle", "diamond", "arrow"}[set.Colour%5], SymbolSize: 9})
		}
		dots.AddSeries(visible(set.Name), data, charts.WithItemStyleOpts(opts.ItemStyle{Color: curveVariable(set.Colour)}))
	}
	line.Overlap(dots)
	line.Validate()
	option, err := withUnbound(line.JSON())
	if err != nil {
		return nil, fmt.Errorf("encode the roofline: %w", err)
	}
	return option, nil
}

// lettersName is the series of the letters that name dots.
const lettersName = "letters"

// withUnbound adds what go-echarts has no fields for: axes divided by powers of four
// and two, where those of ten would give two ticks, and letters that give way to each
// other on a narrow page.
func withUnbound(option map[string]any) (json.RawMessage, error) {
	plain, err := json.Marshal(option)
	if err != nil {
		return nil, err
	}
	var tree struct {
		X      []map[string]any `json:"xAxis"`
		Y      []map[string]any `json:"yAxis"`
		Series []map[string]any `json:"series"`
	}
	all := map[string]any{}
	if err := errors.Join(json.Unmarshal(plain, &tree), json.Unmarshal(plain, &all)); err != nil {
		return nil, err
	}
	for _, axis := range tree.X {
		axis["logBase"] = 4
	}
	for _, axis := range tree.Y {
		axis["logBase"] = 2
	}
	for _, series := range tree.Series {
		if series["name"] == lettersName {
			series["labelLayout"] = map[string]any{"hideOverlap": true}
		}
	}
	all["xAxis"], all["yAxis"], all["series"] = tree.X, tree.Y, tree.Series
	return json.Marshal(all)
}
