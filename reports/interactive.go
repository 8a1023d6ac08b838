package reports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
)

// interactiveBuckets bounds a curve's points in the interactive chart, which can
// be zoomed and so carries more of them than the SVG.
const interactiveBuckets = 400

// smallInteractiveBuckets bounds those of a family's charts.
const smallInteractiveBuckets = 150

// Option returns the chart as an echarts option object in JSON. go-echarts builds
// it; the page renders it itself, because go-echarts' own template loads scripts
// from a CDN. Colours are names of CSS variables, resolved by the page's script.
func (c Chart) Option() (json.RawMessage, error) {
	line := charts.NewLine()
	line.SetGlobalOptions(
		charts.WithColorsOpts(c.palette()),
		charts.WithAnimation(false),
		charts.WithLegendOpts(opts.Legend{Show: opts.Bool(false)}),
		charts.WithTooltipOpts(opts.Tooltip{Trigger: "axis", BackgroundColor: "var(--paper)", BorderColor: "var(--rule)"}),
		charts.WithGridOpts(opts.Grid{Left: "8", Right: "20", Top: "30", Bottom: "8", ContainLabel: opts.Bool(true)}),
		charts.WithXAxisOpts(opts.XAxis{Type: "value", Min: c.Left, Max: c.Right,
			SplitLine: &opts.SplitLine{Show: opts.Bool(false)}, AxisLabel: axisLabel(), AxisLine: axisLine()}),
		charts.WithYAxisOpts(c.yAxis()),
		charts.WithToolboxOpts(opts.Toolbox{Right: "12", Feature: &opts.ToolBoxFeature{
			DataZoom:    &opts.ToolBoxFeatureDataZoom{Show: opts.Bool(true), YAxisIndex: false, Title: map[string]string{"zoom": "zoom: drag over a range", "back": "zoom back"}},
			Restore:     &opts.ToolBoxFeatureRestore{Show: opts.Bool(true), Title: "whole run"},
			SaveAsImage: &opts.ToolBoxFeatureSaveAsImage{Show: opts.Bool(true), Title: "save as image", Name: c.ID},
		}}),
	)
	for _, curve := range c.Curves {
		c.addSeries(line, curve)
	}
	for _, kind := range []MarkKind{MarkPhase, MarkGrowth, MarkResume, MarkDiverged, MarkNonFinite} {
		if items := c.markItems(kind); len(items) > 0 {
			style := markStyle(kind)
			line.AddSeries(string(kind), []opts.LineData{},
				charts.WithMarkLineNameXAxisItemOpts(items...), charts.WithMarkLineStyleOpts(style))
		}
	}
	line.Validate()
	option, err := json.Marshal(line.JSON())
	if err != nil {
		return nil, fmt.Errorf("encode chart %s: %w", c.Title, err)
	}
	return option, nil
}

// addSeries adds all that is drawn of a curve under its name, by which the page's
// legend shows and hides it: pale points and running mean, or the points alone, the
// intervals as a broken line of wide verticals, and the level to compare with.
func (c Chart) addSeries(line *charts.Line, curve Curve) {
	name, colour := visible(curve.Name), curveVariable(curve.Colour)
	buckets := interactiveBuckets
	if c.Family != "" {
		buckets = smallInteractiveBuckets
	}
	points := decimate(curve.Points, buckets)
	look := func(width, opacity float32, symbols bool) []charts.SeriesOpts {
		return []charts.SeriesOpts{
			charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(symbols), ConnectNulls: opts.Bool(false)}),
			charts.WithItemStyleOpts(opts.ItemStyle{Color: colour}),
			charts.WithLineStyleOpts(opts.LineStyle{Color: colour, Width: width, Opacity: opts.Float(opacity)}),
		}
	}
	switch {
	case curve.Plain:
		style := charts.WithLineStyleOpts(opts.LineStyle{Color: colour, Width: 1.5, Type: "dashed"})
		line.AddSeries(name, lineData(curve.Points), append(look(1.5, 1, false), style)...)
	case curve.Smooth == nil:
		line.AddSeries(name, lineData(points), look(1.5, 1, len(points) <= dottedUpTo)...)
	default:
		line.AddSeries(name, lineData(points), append(look(1, 0.35, false), untold("points", curve))...)
		line.AddSeries(name, lineData(decimate(curve.Smooth, buckets)), look(2, 1, false)...)
	}
	if len(curve.Intervals) > 0 {
		line.AddSeries(name, intervalData(curve.Intervals), append(look(5, 0.4, false), untold("intervals", curve))...)
	}
	if curve.Level.Label != "" {
		line.AddSeries(name, []opts.LineData{}, charts.WithMarkLineNameYAxisItemOpts(
			opts.MarkLineNameYAxisItem{Name: curve.Level.Label, YAxis: curve.Level.Value}),
			charts.WithMarkLineStyleOpts(opts.MarkLineStyle{Symbol: []string{"none", "none"}, Label: &opts.Label{Show: opts.Bool(false)},
				LineStyle: &opts.LineStyle{Color: colour, Width: 1.2, Type: "dashed"}}))
	}
}

// untoldID begins the ids of series that the page's script keeps out of the tooltip,
// where another one of their curve speaks; go-echarts has no such option.
const untoldID = "untold"

func untold(what string, curve Curve) charts.SeriesOpts {
	return charts.WithSeriesId(untoldID + " " + what + " " + visible(curve.Name))
}

// yAxis follows the values where the chart stands alone, so that a zoom into the run
// zooms its values too; other scales are fixed.
func (c Chart) yAxis() opts.YAxis {
	axis := opts.YAxis{Type: "value", Scale: opts.Bool(true),
		SplitLine: &opts.SplitLine{LineStyle: &opts.LineStyle{Color: "var(--rule)"}}, AxisLabel: axisLabel()}
	if c.Family != "" || c.Scale != ScaleLinear || c.hasLevel() {
		axis.Min, axis.Max = round(c.Bottom, 6), round(c.Top, 6)
	}
	if c.Scale == ScaleLog {
		axis.Type = "log"
	}
	return axis
}

// hasLevel holds where a line stands outside of what echarts counts as values.
func (c Chart) hasLevel() bool {
	return slices.ContainsFunc(c.Curves, func(curve Curve) bool { return curve.Level.Label != "" })
}

func (c Chart) palette() opts.Colors {
	colours := make(opts.Colors, len(c.Curves))
	for i, curve := range c.Curves {
		colours[i] = curveVariable(curve.Colour)
	}
	return colours
}

// intervalData lifts the pen between the intervals.
func intervalData(intervals []Interval) []opts.LineData {
	var data []opts.LineData
	for _, i := range intervals {
		for _, end := range []any{round(i.Low, 6), round(i.High, 6), nil} {
			data = append(data, opts.LineData{Value: []any{i.X, end}})
		}
	}
	return data
}

// lineData writes non-finite values as null, which echarts leaves open: JSON has
// no NaN. Six digits are more than a screen resolves.
func lineData(points []Point) []opts.LineData {
	data := make([]opts.LineData, len(points))
	for i, p := range points {
		data[i].Value = []any{p.X, nil}
		if finite(p.Value) {
			data[i].Value = []any{p.X, round(p.Value, 6)}
		}
	}
	return data
}

func (c Chart) markItems(kind MarkKind) []opts.MarkLineNameXAxisItem {
	var items []opts.MarkLineNameXAxisItem
	for _, m := range c.byKind(kind) {
		name := cmp.Or(m.Short, m.Label)
		if m.Kind == MarkGrowth {
			name = cmp.Or(m.Short, " ") // its name is always shown
		}
		items = append(items, opts.MarkLineNameXAxisItem{Name: visible(name), XAxis: m.X})
	}
	return items
}

func markStyle(kind MarkKind) opts.MarkLineStyle {
	style := &opts.LineStyle{Color: "var(--alert)", Width: 1.2, Type: "solid"}
	switch kind {
	case MarkNonFinite:
		style = &opts.LineStyle{Color: "var(--alert)", Width: 1, Type: "dotted"}
	case MarkResume:
		style = &opts.LineStyle{Color: "var(--muted)", Width: 1, Type: "dashed"}
	}
	label := &opts.Label{Show: opts.Bool(false)}
	if kind == MarkPhase || kind == MarkGrowth {
		style = &opts.LineStyle{Color: "var(--muted)", Width: 1, Type: "solid"}
		label = &opts.Label{Show: opts.Bool(true), Formatter: "{b}", Color: "var(--muted)", FontSize: 11}
	}
	return opts.MarkLineStyle{Symbol: []string{"none", "none"}, Label: label, LineStyle: style}
}

func axisLabel() *opts.AxisLabel {
	return &opts.AxisLabel{Color: "var(--muted)", FontSize: 11, HideOverlap: opts.Bool(true)}
}

func axisLine() *opts.AxisLine {
	return &opts.AxisLine{OnZero: opts.Bool(false), LineStyle: &opts.LineStyle{Color: "var(--rule)"}}
}
