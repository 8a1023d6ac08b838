package reports

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"regexp"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size of the drawing. It scales with the page; 420 wide keeps tick labels
// legible both on a phone (390) and in a two-column desktop layout. The charts of a
// family stand two or three to a row.
const (
	svgWidth    = 420 * vg.Length(1)
	svgHeight   = 220 * vg.Length(1)
	smallWidth  = 270 * vg.Length(1)
	smallHeight = 150 * vg.Length(1)
	// The points of a curve in the SVG are bounded by these many buckets: more than
	// its width in pixels would add weight and no ink.
	svgBuckets   = 160
	smallBuckets = 90
	// dottedUpTo is how many points are few enough to show each one as a dot.
	dottedUpTo = 24
)

// The plot library knows only fixed colours, the page has light, dark and print
// ones. Each colour below is therefore a stand-in that inlineSVG replaces by a
// CSS variable; the SVG's text is ticks only, so no other "#..." occurs.
var (
	inkColour   = color.RGBA{R: 1, G: 2, B: 3, A: 255}
	ruleColour  = color.RGBA{R: 1, G: 2, B: 4, A: 255}
	alertColour = color.RGBA{R: 1, G: 2, B: 5, A: 255}
)

func curveColour(i int) color.RGBA { return color.RGBA{R: 2, G: 2, B: uint8(i % paletteSize), A: 255} }

// curveVariable is the CSS variable that holds colour i of the palette.
func curveVariable(i int) string { return fmt.Sprintf("var(--c%d)", i%paletteSize+1) }

// SVG draws the chart as an inline SVG element that follows the page's colours.
func (c Chart) SVG() (template.HTML, error) {
	p := plot.New()
	p.BackgroundColor = nil
	styleAxis(&p.X)
	styleAxis(&p.Y)
	p.Y.LineStyle.Width = 0
	p.Y.Tick.LineStyle.Width = 0

	p.X.Min, p.X.Max = c.Left, c.Right
	p.Y.Min, p.Y.Max = c.Bottom, c.Top
	width, height, buckets := svgWidth, svgHeight, svgBuckets
	p.X.Tick.Marker = ticks(6, tick)
	if c.Family != "" {
		width, height, buckets = smallWidth, smallHeight, smallBuckets
		p.X.Tick.Marker = ticks(4, tick)
	}
	switch c.Scale {
	case ScaleShare:
		p.Y.Tick.Marker = ticks(5, wholePercent)
	case ScaleLog:
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(logTicks)
	default:
		p.Y.Tick.Marker = ticks(6, tick)
	}
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal = draw.LineStyle{Color: ruleColour, Width: 0.6}
	p.Add(grid, markLines{chart: c})
	for _, curve := range c.Curves {
		p.Add(levelLine(curve), whiskers(curve))
		if err := addCurve(p, curve, buckets); err != nil {
			return "", fmt.Errorf("draw %s: %w", curve.Name, err)
		}
	}

	canvas := vgsvg.New(width, height)
	area := draw.New(canvas)
	area.Max.X -= 14 // room for the right half of the last tick's label
	area.Max.Y -= 6
	named := append(c.byKind(MarkPhase), c.byKind(MarkGrowth)...)
	if slices.ContainsFunc(named, func(m Mark) bool { return m.Short != "" }) {
		area.Max.Y -= 10 // room for the names of phases and growth steps
	}
	p.Draw(area)
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", fmt.Errorf("draw chart %s: %w", c.Title, err)
	}
	return c.inlineSVG(out.String(), width, height)
}

var labelFont = font.Font{Typeface: "Liberation", Variant: "Sans", Size: 11.5}

func styleAxis(a *plot.Axis) {
	a.LineStyle.Color = ruleColour
	a.LineStyle.Width = 0.8
	a.Tick.LineStyle.Color = ruleColour
	a.Tick.Label.Color = inkColour
	a.Tick.Label.Font = labelFont
	a.Tick.Length = 4
	a.Padding = 2
}

// addCurve draws a curve: its running mean in bold over its pale points, or the
// points alone.
func addCurve(p *plot.Plot, curve Curve, buckets int) error {
	colour := curveColour(curve.Colour)
	if curve.Smooth == nil {
		style := draw.LineStyle{Color: colour, Width: 1.4}
		if curve.Plain {
			style.Dashes = []vg.Length{5, 3}
			return addStretches(p, curve.Points, style, false)
		}
		return addLine(p, decimate(curve.Points, buckets), style)
	}
	if err := addLine(p, decimate(curve.Points, buckets), draw.LineStyle{Color: pale(colour), Width: 0.8}); err != nil {
		return err
	}
	return addLine(p, decimate(curve.Smooth, buckets), draw.LineStyle{Color: colour, Width: 2})
}

// pale marks a curve's colour as the one of the points behind its running mean.
func pale(c color.RGBA) color.RGBA { c.R = 3; return c }

// addLine draws points as lines, few of them as dots as well.
func addLine(p *plot.Plot, points []Point, style draw.LineStyle) error {
	return addStretches(p, points, style, len(points) <= dottedUpTo)
}

// addStretches draws each unbroken stretch of finite values as a line; a stretch of a
// single point would be invisible as a line and becomes a dot.
func addStretches(p *plot.Plot, points []Point, style draw.LineStyle, dotted bool) error {
	for stretch := range finiteStretches(points) {
		xys := make(plotter.XYs, len(stretch))
		for i, point := range stretch {
			xys[i] = plotter.XY{X: point.X, Y: point.Value}
		}
		line, err := plotter.NewLine(xys)
		if err != nil {
			return err
		}
		line.LineStyle = style
		p.Add(line)
		if dotted || len(stretch) == 1 {
			dots, err := plotter.NewScatter(xys)
			if err != nil {
				return err
			}
			dots.GlyphStyle = draw.GlyphStyle{Color: style.Color, Radius: 2.2, Shape: draw.CircleGlyph{}}
			p.Add(dots)
		}
	}
	return nil
}

// levelLine draws, dashed, what a curve is to be compared with.
type levelLine Curve

func (l levelLine) Plot(c draw.Canvas, p *plot.Plot) {
	if l.Level.Label == "" || l.Level.Value < p.Y.Min || l.Level.Value > p.Y.Max {
		return
	}
	_, toY := p.Transforms(&c)
	y := toY(l.Level.Value)
	style := draw.LineStyle{Color: curveColour(l.Colour), Width: 1.1, Dashes: []vg.Length{5, 3}}
	c.StrokeLine2(style, c.Min.X, y, c.Max.X, y)
}

// whiskers draws the intervals of a curve's points.
type whiskers Curve

func (w whiskers) Plot(c draw.Canvas, p *plot.Plot) {
	const half = 2.5
	toX, toY := p.Transforms(&c)
	style := draw.LineStyle{Color: curveColour(w.Colour), Width: 0.9}
	for _, i := range w.Intervals {
		x, low, high := toX(i.X), toY(max(i.Low, p.Y.Min)), toY(min(i.High, p.Y.Max))
		c.StrokeLine2(style, x, low, x, high)
		c.StrokeLine2(style, x-half, low, x+half, low)
		c.StrokeLine2(style, x-half, high, x+half, high)
	}
}

// finiteStretches yields the maximal runs of consecutive finite points.
func finiteStretches(points []Point) func(yield func([]Point) bool) {
	return func(yield func([]Point) bool) {
		start := 0
		for i := range len(points) + 1 {
			if i < len(points) && finite(points[i].Value) {
				continue
			}
			if i > start && !yield(points[start:i]) {
				return
			}
			start = i + 1
		}
	}
}

// markLines draws phases, resumes and divergences as vertical lines and non-finite
// values as crosses on the lower edge of the plot.
type markLines struct{ chart Chart }

func (marks markLines) Plot(c draw.Canvas, p *plot.Plot) {
	toX, _ := p.Transforms(&c)
	for _, m := range marks.chart.Marks {
		x := toX(m.X)
		switch {
		case !marks.chart.drawn(m):
		case m.Kind == MarkNonFinite:
			const r = 3.5
			y := c.Min.Y + 5
			style := draw.LineStyle{Color: alertColour, Width: 1.4}
			c.StrokeLine2(style, x-r, y-r, x+r, y+r)
			c.StrokeLine2(style, x-r, y+r, x+r, y-r)
		case m.Kind == MarkDiverged:
			c.StrokeLine2(draw.LineStyle{Color: alertColour, Width: 1.2}, x, c.Min.Y, x, c.Max.Y)
		case m.Kind == MarkPhase || m.Kind == MarkGrowth:
			c.StrokeLine2(draw.LineStyle{Color: inkColour, Width: 1}, x, c.Min.Y, x, c.Max.Y)
			style := p.X.Tick.Label
			style.XAlign, style.YAlign = draw.XCenter, draw.YBottom
			c.FillText(style, vg.Point{X: x, Y: c.Max.Y + 1}, template.HTMLEscapeString(visible(m.Short)))
		case m.Kind == MarkResume:
			c.StrokeLine2(draw.LineStyle{Color: inkColour, Width: 0.8, Dashes: []vg.Length{3, 3}}, x, c.Min.Y, x, c.Max.Y)
		}
	}
}

var (
	svgColours = regexp.MustCompile(`#0(?:10203|10204|10205|[23]02[0-9a-f]{2})`)
	svgFonts   = regexp.MustCompile(`font-(?:family|variant|weight|style):[^;"]*;?`)
)

// inlineSVG turns the library's document into an element of the page: without
// prologue, fixed size and fonts, with a title for screen readers.
func (c Chart) inlineSVG(document string, width, height vg.Length) (template.HTML, error) {
	_, body, opened := strings.Cut(document, "<svg")
	_, body, closed := strings.Cut(body, ">")
	if !opened || !closed {
		return "", fmt.Errorf("draw chart %s: the plot library wrote no svg element", c.Title)
	}
	body = svgFonts.ReplaceAllString(body, "")
	body = svgColours.ReplaceAllStringFunc(body, func(hex string) string {
		switch hex {
		case "#010203":
			return "var(--muted)"
		case "#010204":
			return "var(--rule)"
		case "#010205":
			return "var(--alert)"
		}
		var kind, i int
		fmt.Sscanf(hex, "#%02x02%02x", &kind, &i)
		if kind == 3 {
			return strings.Replace(curveVariable(i), "--c", "--p", 1)
		}
		return curveVariable(i)
	})
	head := fmt.Sprintf(`<svg class="plot" viewBox="0 0 %g %g" role="img" aria-labelledby="%s-title"><title id="%s-title">%s</title>`,
		float64(width), float64(height), c.ID, c.ID, template.HTMLEscapeString(c.Description()))
	return template.HTML(head + body), nil
}
