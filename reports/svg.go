package reports

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"regexp"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size of the drawing. It scales with the page; 420 wide keeps tick labels
// legible both on a phone (390) and in a two-column desktop layout.
const (
	svgWidth  = 420 * vg.Length(1)
	svgHeight = 220 * vg.Length(1)
	// svgBuckets bounds a curve's points in the SVG: more than its width in
	// pixels would add weight and no ink.
	svgBuckets = 160
)

// The plot library knows only fixed colours, the page has light, dark and print
// ones. Each colour below is therefore a stand-in that inlineSVG replaces by a
// CSS variable; the SVG's text is ticks only, so no other "#..." occurs.
var (
	inkColour   = color.RGBA{R: 1, G: 2, B: 3, A: 255}
	ruleColour  = color.RGBA{R: 1, G: 2, B: 4, A: 255}
	alertColour = color.RGBA{R: 1, G: 2, B: 5, A: 255}
)

func curveColour(i int) color.RGBA { return color.RGBA{R: 2, G: 2, B: uint8(i), A: 255} }

// curveVariable is the CSS variable that holds the colour of curve i.
func curveVariable(i int) string { return fmt.Sprintf("var(--c%d)", i%maxCurvesPerChart+1) }

// SVG draws the chart as an inline SVG element that follows the page's colours.
func (c Chart) SVG() (template.HTML, error) {
	p := plot.New()
	p.BackgroundColor = nil
	styleAxis(&p.X)
	styleAxis(&p.Y)
	p.Y.LineStyle.Width = 0
	p.Y.Tick.LineStyle.Width = 0

	p.X.Min, p.X.Max = c.Left, c.Right
	p.Y.Min, p.Y.Max = c.yRange()
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal = draw.LineStyle{Color: ruleColour, Width: 0.6}
	p.Add(grid, markLines(c.Marks))
	for i, curve := range c.Curves {
		if err := addCurve(p, curve, curveColour(i)); err != nil {
			return "", fmt.Errorf("draw %s: %w", curve.Name, err)
		}
	}

	canvas := vgsvg.New(svgWidth, svgHeight)
	area := draw.New(canvas)
	area.Max.X -= 14 // room for the right half of the last tick's label
	area.Max.Y -= 6
	p.Draw(area)
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", fmt.Errorf("draw chart %s: %w", c.Title, err)
	}
	return c.inlineSVG(out.String())
}

func styleAxis(a *plot.Axis) {
	a.LineStyle.Color = ruleColour
	a.LineStyle.Width = 0.8
	a.Tick.LineStyle.Color = ruleColour
	a.Tick.Label.Color = inkColour
	a.Tick.Label.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: 11.5}
	a.Tick.Length = 4
	a.Padding = 2
	a.Tick.Marker = plot.TickerFunc(ticks)
}

// ticks places labels at multiples of 1, 2 or 5 times a power of ten, five or so
// of them: the plot library's own choice is at times only two.
func ticks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, multiple := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*multiple) <= 6 {
			step *= multiple
			break
		}
	}
	var labelled []plot.Tick
	for i := math.Ceil(low/step - 1e-9); i <= math.Floor(high/step+1e-9); i++ {
		labelled = append(labelled, plot.Tick{Value: i * step, Label: tick(i * step)})
		if len(labelled) == 12 {
			break // i++ stands still where low/step is beyond 2^53
		}
	}
	return labelled
}

// addCurve draws each unbroken stretch of finite values as a line; a stretch of a
// single point would be invisible as a line and becomes a dot.
func addCurve(p *plot.Plot, curve Curve, colour color.Color) error {
	for stretch := range finiteStretches(decimate(curve.Points, svgBuckets)) {
		xys := make(plotter.XYs, len(stretch))
		for i, point := range stretch {
			xys[i] = plotter.XY{X: point.X, Y: point.Value}
		}
		line, err := plotter.NewLine(xys)
		if err != nil {
			return err
		}
		line.LineStyle = draw.LineStyle{Color: colour, Width: 1.4}
		p.Add(line)
		if len(stretch) <= 24 {
			dots, err := plotter.NewScatter(xys)
			if err != nil {
				return err
			}
			dots.GlyphStyle = draw.GlyphStyle{Color: colour, Radius: 2.2, Shape: draw.CircleGlyph{}}
			p.Add(dots)
		}
	}
	return nil
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

// markLines draws resumes and divergences as vertical lines and non-finite values
// as crosses on the lower edge of the plot.
type markLines []Mark

func (marks markLines) Plot(c draw.Canvas, p *plot.Plot) {
	toX, _ := p.Transforms(&c)
	for _, m := range marks {
		x := toX(m.X)
		switch m.Kind {
		case MarkNonFinite:
			const r = 3.5
			y := c.Min.Y + 5
			style := draw.LineStyle{Color: alertColour, Width: 1.4}
			c.StrokeLine2(style, x-r, y-r, x+r, y+r)
			c.StrokeLine2(style, x-r, y+r, x+r, y-r)
		case MarkDiverged:
			c.StrokeLine2(draw.LineStyle{Color: alertColour, Width: 1.2}, x, c.Min.Y, x, c.Max.Y)
		case MarkResume:
			c.StrokeLine2(draw.LineStyle{Color: inkColour, Width: 0.8, Dashes: []vg.Length{3, 3}}, x, c.Min.Y, x, c.Max.Y)
		}
	}
}

// yRange spans the finite values of all curves. A constant gets 5 % of room
// instead of the plot library's one unit, which would flatten a learning rate.
func (c Chart) yRange() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, curve := range c.Curves {
		if l, h, ok := curve.Bounds(); ok {
			low, high = min(low, l), max(high, h)
		}
	}
	switch {
	case low > high || low == 0 && high == 0:
		return 0, 1
	case low == high:
		room := math.Abs(low) / 20
		return low - room, high + room
	case math.IsInf(high-low, 0):
		return low / 2, high / 2
	}
	room := (high - low) / 25
	if low >= 0 && low < room {
		return 0, high + room
	}
	return low - room, high + room
}

var (
	svgColours = regexp.MustCompile(`#0(?:10203|10204|10205|202[0-9a-f]{2})`)
	svgFonts   = regexp.MustCompile(`font-(?:family|variant|weight|style):[^;"]*;?`)
)

// inlineSVG turns the library's document into an element of the page: without
// prologue, fixed size and fonts, with a title for screen readers.
func (c Chart) inlineSVG(document string) (template.HTML, error) {
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
		var i int
		fmt.Sscanf(hex, "#0202%02x", &i)
		return curveVariable(i)
	})
	head := fmt.Sprintf(`<svg class="plot" viewBox="0 0 %g %g" role="img" aria-labelledby="%s-title"><title id="%s-title">%s</title>`,
		float64(svgWidth), float64(svgHeight), c.ID, c.ID, template.HTMLEscapeString(c.Description()))
	return template.HTML(head + body), nil
}

// Description says in one line what the picture shows.
func (c Chart) Description() string {
	text := visible(c.Title)
	if c.Unit != "" {
		text += " in " + visible(c.Unit)
	}
	text += " against " + plural(string(c.Axis))
	for _, curve := range c.Curves {
		text += "; " + visible(curve.Name) + ": " + curve.Summary()
	}
	return text
}
