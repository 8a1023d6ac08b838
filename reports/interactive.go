package reports

import (
	"encoding/json"
	"fmt"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
)

// interactiveBuckets bounds a curve's points in the interactive chart, which can
// be zoomed and so carries more of them than the SVG.
const interactiveBuckets = 400

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
		charts.WithYAxisOpts(opts.YAxis{Type: "value", Scale: opts.Bool(true),
			SplitLine: &opts.SplitLine{LineStyle: &opts.LineStyle{Color: "var(--rule)"}}, AxisLabel: axisLabel()}),
		charts.WithToolboxOpts(opts.Toolbox{Right: "12", Feature: &opts.ToolBoxFeature{
			DataZoom:    &opts.ToolBoxFeatureDataZoom{Show: opts.Bool(true), YAxisIndex: false, Title: map[string]string{"zoom": "zoom: drag over a range", "back": "zoom back"}},
			Restore:     &opts.ToolBoxFeatureRestore{Show: opts.Bool(true), Title: "whole run"},
			SaveAsImage: &opts.ToolBoxFeatureSaveAsImage{Show: opts.Bool(true), Title: "save as image", Name: c.ID},
		}}),
	)
	for _, curve := range c.Curves {
		points := decimate(curve.Points, interactiveBuckets)
		line.AddSeries(visible(curve.Name), lineData(points),
			charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(len(points) <= 24), ConnectNulls: opts.Bool(false)}),
			charts.WithLineStyleOpts(opts.LineStyle{Width: 1.5}))
	}
	for _, kind := range []MarkKind{MarkResume, MarkDiverged, MarkNonFinite} {
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

func (c Chart) palette() opts.Colors {
	colours := make(opts.Colors, len(c.Curves))
	for i := range colours {
		colours[i] = curveVariable(i)
	}
	return colours
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
	for _, m := range c.Marks {
		if m.Kind == kind {
			items = append(items, opts.MarkLineNameXAxisItem{Name: visible(m.Label), XAxis: m.X})
		}
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
	return opts.MarkLineStyle{Symbol: []string{"none", "none"}, Label: &opts.Label{Show: opts.Bool(false)}, LineStyle: style}
}

func axisLabel() *opts.AxisLabel {
	return &opts.AxisLabel{Color: "var(--muted)", FontSize: 11, HideOverlap: opts.Bool(true)}
}

func axisLine() *opts.AxisLine {
	return &opts.AxisLine{OnZero: opts.Bool(false), LineStyle: &opts.LineStyle{Color: "var(--rule)"}}
}
