package reports

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// LineageDrawing is a lineage laid out for one width: rows of generations, the start on
// top, and below them the loads of the last one, a row per layer. Children stand below
// their parents. What does not fit side by side goes into further bands.
type LineageDrawing struct {
	Size          string // "wide" or "narrow", a class of the style
	Width, Height float64
	Description   string
	Shapes        []DrawnShape
	Texts         []DrawnText
}

// DrawnShape is a path of one class; a page of hundreds of cells stays small so.
type DrawnShape struct{ Class, Path string }

// Sizes of the drawing. A page is up to 1,016 wide, a phone's 350.
const (
	lineageWide, lineageWideMost     = 1000.0, 64
	lineageNarrow, lineageNarrowMost = 350.0, 32

	lineageGutter = 56.0 // holds the names of the rows
	lineageCell   = 30.0 // the widest cell
	lineageRow    = 21.0
	lineageGap    = 2.0 // between rows
	lineageBand   = 16.0
)

// loadBounds part loads, in multiples of an equal share, into classes of the style: below
// the first an expert is dead.
func loadBounds() []float64 { return []float64{0.01, 0.25, 0.5, 1, 2, 4} }

func loadClass(v float64) int {
	class := 0
	for _, bound := range loadBounds() {
		if v >= bound {
			class++
		}
	}
	return class
}

// LoadKey names the classes of loads, from dead on.
func (l *Lineage) LoadKey() []string {
	var names []string
	low := ""
	for _, bound := range loadBounds() {
		name := low + " to " + tick(bound)
		if low == "" {
			name = "dead: below " + tick(bound)
		}
		names, low = append(names, name), tick(bound)
	}
	return append(names, low+" and more")
}

// Added holds where an expert has no parent that could have had one.
func (l *Lineage) Added() bool {
	for _, generation := range l.Generations[1:] {
		for _, e := range generation {
			if e.Parent < 0 {
				return true
			}
		}
	}
	return false
}

// Description says in words what the drawing shows.
func (l *Lineage) Description() string {
	text := fmt.Sprintf("%d experts", len(l.Generations[0]))
	if len(l.Growths) > 0 {
		text += " at the start"
	}
	for _, g := range l.Growths {
		text += fmt.Sprintf("; %d after %s at step %s", g.After, visible(g.Method), humanize.Comma(g.Step))
	}
	for _, loads := range l.Loads {
		low, high, dead := math.Inf(1), math.Inf(-1), 0
		for _, v := range loads.Of {
			low, high = min(low, v), max(high, v)
			if loadClass(v) == 0 {
				dead++
			}
		}
		text += fmt.Sprintf("; load in %s: %s to %s times an equal share, %d dead", visible(layerName(loads.Layer)), multiple(low), multiple(high), dead)
	}
	return text
}

// bands are the ranges of columns that stand side by side: at most most, and where it
// can be, whole families of the first generation.
func (l *Lineage) bands(most int) [][2]int {
	ends := map[int]bool{len(l.Order): true} // columns at which a family ends
	for g, generation := range l.Generations {
		for i, e := range generation {
			if e.Parent < 0 && e.Width > 0 {
				ends[l.columns[[2]int{g, i}]+e.Width] = true
			}
		}
	}
	var bands [][2]int
	for from := 0; from < len(l.Order); {
		to := min(from+most, len(l.Order))
		for end := to; end > from+most/2; end-- {
			if ends[end] {
				to = end
				break
			}
		}
		bands = append(bands, [2]int{from, to})
		from = to
	}
	return bands
}

// draw lays the lineage out in a width.
func (l *Lineage) draw(size string, width float64, most int) LineageDrawing {
	d := LineageDrawing{Size: size, Description: l.Description()}
	bands := l.bands(most)
	widest := 0
	for _, b := range bands {
		widest = max(widest, b[1]-b[0])
	}
	cell := tenth(min(lineageCell, (width-lineageGutter)/float64(widest)))
	d.Width = math.Ceil(lineageGutter + cell*float64(widest))
	paths := map[string]*strings.Builder{}
	var classes []string
	add := func(class, path string) {
		if paths[class] == nil {
			paths[class] = &strings.Builder{}
			classes = append(classes, class)
		}
		paths[class].WriteString(path)
	}
	y := 1.0
	for i, band := range bands {
		if i > 0 {
			y += lineageBand
		}
		for g := range l.Generations {
			d.generation(l, g, band, cell, y, add)
			y += lineageRow + lineageGap
		}
		for _, loads := range l.Loads {
			d.loads(l, loads, band, cell, y, add)
			y += lineageRow + lineageGap
		}
	}
	d.Height = math.Ceil(y)
	for _, class := range classes {
		d.Shapes = append(d.Shapes, DrawnShape{class, paths[class].String()})
	}
	return d
}

// generation draws a row of experts, each as wide as what descends from it.
func (d *LineageDrawing) generation(l *Lineage, g int, band [2]int, cell, y float64, add func(class, path string)) {
	name := "start"
	if g > 0 {
		name = "E " + strconv.Itoa(len(l.Generations[g]))
	}
	d.name(name, y)
	for i, e := range l.Generations[g] {
		first := l.columns[[2]int{g, i}]
		from, to := max(first, band[0]), min(first+e.Width, band[1])
		if from >= to {
			continue
		}
		class := "cell"
		if g > 0 && e.Parent < 0 {
			class = "added"
		}
		d.box(class, strconv.Itoa(i), len(strconv.Itoa(len(l.Generations[g])-1)), from-band[0], to-from, cell, y, add)
	}
}

// loads draws a row of the last generation's loads in one layer.
func (d *LineageDrawing) loads(l *Lineage, loads ExpertLoads, band [2]int, cell, y float64, add func(class, path string)) {
	d.name(layerName(loads.Layer), y)
	for column := band[0]; column < band[1]; column++ {
		v := loads.Of[l.Order[column]]
		class := loadClass(v)
		text := strconv.FormatFloat(v, 'f', 1, 64)
		if v >= 10 || class == 0 {
			text = strconv.FormatFloat(v, 'f', 0, 64)
		}
		d.box("l"+strconv.Itoa(class), text, len("1.0"), column-band[0], 1, cell, y, add)
		if class == 0 && finite(v) {
			x, right := lineageGutter+cell*float64(column-band[0])+1, lineageGutter+cell*float64(column-band[0]+1)-2
			add("cross", fmt.Sprintf("M%g %gL%g %gM%g %gL%g %g", tenth(x), y+1, tenth(right), y+lineageRow-1, tenth(x), y+lineageRow-1, tenth(right), y+1))
		}
	}
}

// box draws a cell of some columns, with its text where the longest of the row would fit.
func (d *LineageDrawing) box(class, text string, longest, column, columns int, cell, y float64, add func(class, path string)) {
	const letter = 5.9 // of a digit, in the style's size
	between := min(1.5, cell/6)
	x, width := lineageGutter+cell*float64(column), cell*float64(columns)-between
	add(class, fmt.Sprintf("M%g %gh%gv%gh%gz", tenth(x), y, tenth(width), lineageRow, -tenth(width)))
	if float64(longest)*letter+2 <= width && class != "l0" {
		d.Texts = append(d.Texts, DrawnText{Class: "middle", X: tenth(x + width/2), Y: y + 14.5, Text: text})
	}
}

// name writes what a row is before it.
func (d *LineageDrawing) name(text string, y float64) {
	d.Texts = append(d.Texts, DrawnText{Class: "row start", X: 0, Y: y + 14.5, Text: shortened(text, 9)})
}

// shortened keeps the beginning of text, at most n runes.
func shortened(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}
