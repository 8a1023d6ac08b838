package reports

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// RooflineDrawing is a roofline laid out for one size: the template writes it as it
// stands. The plot library of the other charts knows neither lines that are labelled
// along their slope nor text that stays legible over them.
type RooflineDrawing struct {
	Size          string // "wide" or "narrow", a class of the style
	Width, Height float64
	Description   string
	Lines         []DrawnLine
	Dots          []DrawnDot
	Texts         []DrawnText
}

// DrawnLine is a straight line.
type DrawnLine struct {
	Class          string
	X1, Y1, X2, Y2 float64
}

// DrawnDot is the mark of a measured speed, with a whisker over its spread.
type DrawnDot struct {
	Colour int // as in the style, from 1
	Path   string
	Title  string
}

// DrawnText is a label, turned about its place.
type DrawnText struct {
	Class  string // "start", "middle" or "end" among them: which part of it stands at X
	X, Y   float64
	Turn   float64 // degrees, clockwise
	Text   string
	Turned bool
}

// frame turns values into places.
type frame struct {
	r                        *Roofline
	left, right, top, bottom float64 // of the plot within the drawing
}

func (r *Roofline) frame(width, height float64) frame {
	return frame{r, 36, width - 6, 6, height - 20}
}

func (f frame) x(v float64) float64 {
	return tenth(f.left + (f.right-f.left)*math.Log(v/f.r.Left)/math.Log(f.r.Right/f.r.Left))
}

// atX is the value at a place.
func (f frame) atX(place float64) float64 {
	return f.r.Left * math.Pow(f.r.Right/f.r.Left, (place-f.left)/(f.right-f.left))
}

func (f frame) y(v float64) float64 {
	return tenth(f.bottom - (f.bottom-f.top)*math.Log(v/f.r.Bottom)/math.Log(f.r.Top/f.r.Bottom))
}

// tenth is a tenth of a pixel, finer than which no drawing is read.
func tenth(v float64) float64 { return math.Round(v*10) / 10 }

// draw lays the plot out.
func (r *Roofline) draw(size string, width, height float64) RooflineDrawing {
	d := RooflineDrawing{Size: size, Width: width, Height: height, Description: r.Description()}
	f := r.frame(width, height)
	d.grid(f)
	letters := r.letters(f)
	d.limits(f, letters)
	for _, set := range r.Sets {
		for _, dot := range set.Dots {
			if dot.Y < r.Bottom {
				continue
			}
			x, y := f.x(dot.X), f.y(dot.Y)
			path := glyphPath(set.Colour, x, y)
			if dot.High > dot.Low && dot.Low > 0 {
				path += fmt.Sprintf("M%g %gV%g", x, f.y(max(dot.Low, r.Bottom)), f.y(dot.High))
			}
			d.Dots = append(d.Dots, DrawnDot{set.Colour%paletteSize + 1, path, dot.Text})
		}
	}
	for _, l := range letters {
		d.Texts = append(d.Texts, DrawnText{Class: "letter middle", X: f.x(l.x), Y: f.y(l.y) + 17, Text: l.text})
	}
	return d
}

func (d *RooflineDrawing) grid(f frame) {
	for _, t := range logTicks(f.r.Bottom, f.r.Top) {
		y := f.y(t.Value)
		d.Lines = append(d.Lines, DrawnLine{"grid", f.left, y, f.right, y})
		d.Texts = append(d.Texts, DrawnText{Class: "end", X: f.left - 5, Y: y + 4, Text: t.Label})
	}
	for v := math.Pow(4, math.Ceil(math.Log(f.r.Left)/math.Log(4))); v <= f.r.Right; v *= 4 {
		x := f.x(v)
		d.Lines = append(d.Lines, DrawnLine{"grid", x, f.bottom, x, f.bottom + 4})
		d.Texts = append(d.Texts, DrawnText{Class: "middle", X: x, Y: f.bottom + 16, Text: tick(round(v, 3))})
	}
	d.Lines = append(d.Lines, DrawnLine{"grid", f.left, f.bottom, f.right, f.bottom})
}

// limits draws each slope up to the highest roof, and each roof from the steepest
// slope on.
func (d *RooflineDrawing) limits(f frame, letters []*letterPlace) {
	r := f.r
	highest, fastest := r.Roofs[0].Value, r.Slopes[0].Value
	turn := -math.Atan2(f.y(r.Bottom)-f.y(r.Bottom*2), f.x(r.Left*2)-f.x(r.Left)) * 180 / math.Pi
	for i, s := range r.Slopes {
		from := max(r.Left, r.Bottom/s.Value)
		to := min(r.Right, highest/s.Value)
		if from >= to {
			continue
		}
		d.Lines = append(d.Lines, DrawnLine{"slope", f.x(from), f.y(from * s.Value), f.x(to), f.y(to * s.Value)})
		text := DrawnText{Class: "limit middle", Turned: true, Turn: tenth(turn), Text: s.label() + " " + s.Unit}
		d.Texts = append(d.Texts, f.slopeLabel(text, s.Value, from, to, []float64{0.3, 0.62}[i%2], letters))
	}
	for _, roof := range r.Roofs {
		y := f.y(roof.Value)
		d.Lines = append(d.Lines, DrawnLine{"roof", f.x(max(r.Left, roof.Value/fastest)), y, f.right, y})
	}
	for _, roof := range roofNames(r.Roofs, f.sameRoof()) {
		d.Texts = append(d.Texts, f.roofLabel(roof, letters))
	}
}

// sameRoof is how close two roofs lie whose labels would cover each other.
func (f frame) sameRoof() float64 {
	const height = 13 // pixels
	return math.Pow(f.r.Top/f.r.Bottom, height/(f.bottom-f.top))
}

// slopeLabel stands along a slope, by turns low and high on their lines, since levels may
// lie close together: there or as near as no dot or letter is in its way. share is where on
// the line, between from and to.
func (f frame) slopeLabel(text DrawnText, slope, from, to, share float64, letters []*letterPlace) DrawnText {
	sin, cos := math.Sincos(text.Turn * math.Pi / 180)
	half := 3.3 * float64(utf8.RuneCountInString(text.Text))
	const above, below = 14, 4 // of its base line, in pixels
	place := func(share float64) (x, y float64) {
		at := from * math.Pow(to/from, share)
		return tenth(f.x(at) + 4*sin), tenth(f.y(at*slope) - 4*cos)
	}
	// covers is over something of half a width and a height about a place.
	covers := func(x, y, thingX, thingY, wide, high float64) bool {
		along, across := (thingX-x)*cos+(thingY-y)*sin, (thingY-y)*cos-(thingX-x)*sin
		return math.Abs(along) < half+wide && across > -above-high && across < below+high
	}
	free := func(x, y float64) bool {
		for _, l := range letters {
			if covers(x, y, f.x(l.x), f.y(l.y)+12, halfWidth(l.text), 6) {
				return false
			}
		}
		for _, set := range f.r.Sets {
			for _, dot := range set.Dots {
				for _, v := range []float64{dot.Y, dot.Low, dot.High} {
					if covers(x, y, f.x(dot.X), f.y(max(v, f.r.Bottom)), 5, 5) {
						return false
					}
				}
			}
		}
		return true
	}
	text.X, text.Y = place(share)
	for away := 0.0; away < 0.6; away += 0.04 {
		for _, at := range []float64{share + away, share - away} {
			if x, y := place(at); at > 0.08 && at < 0.92 && free(x, y) {
				text.X, text.Y = x, y
				return text
			}
		}
	}
	return text
}

// roofLabel stands above the roof's right end or, where dots or letters are in its
// way there, further to the left, down to the slowest slope.
func (f frame) roofLabel(roof Roof, letters []*letterPlace) DrawnText {
	const step, height, glyph = 20, 12, 6
	text := DrawnText{Class: "limit end", X: f.right - 2, Y: tenth(f.y(roof.Value) - 4), Text: roof.label()}
	width := 6.8 * float64(utf8.RuneCountInString(text.Text))
	covers := func(right, x, top, bottom, half float64) bool {
		return x+half > right-width && x-half < right && bottom > text.Y-height && top < text.Y+2
	}
	free := func(right float64) bool {
		for _, l := range letters {
			if y := f.y(l.y) + 17; covers(right, f.x(l.x), y-height, y, halfWidth(l.text)) {
				return false
			}
		}
		for _, set := range f.r.Sets {
			for _, dot := range set.Dots {
				if y := f.y(max(dot.Y, f.r.Bottom)); covers(right, f.x(dot.X), y-glyph, y+glyph, glyph) {
					return false
				}
			}
		}
		return true
	}
	slope := f.x(max(f.r.Left, roof.Value/f.r.Slopes[len(f.r.Slopes)-1].Value))
	for right := text.X; right-width > slope; right -= step {
		if free(right) {
			text.X = tenth(right)
			break
		}
	}
	return text
}

// letterPlace is where a shape or operation is named, in the plot's values.
type letterPlace struct {
	x, y float64
	keys []string
	text string
}

// letters names each shape below the lowest of its dots, once for those that lie too
// close together for two names: above them are the roofs and their labels.
func (r *Roofline) letters(f frame) []*letterPlace {
	of := map[string]*letterPlace{}
	var places []*letterPlace
	for _, set := range r.Sets {
		for _, dot := range set.Dots {
			y := dot.Y
			if y < r.Bottom {
				continue
			}
			if p := of[dot.Key]; p == nil {
				of[dot.Key] = &letterPlace{x: dot.X, y: y, keys: []string{dot.Key}, text: dot.Key}
				places = append(places, of[dot.Key])
			} else {
				p.y = min(p.y, y)
			}
		}
	}
	slices.SortStableFunc(places, func(a, b *letterPlace) int { return cmp.Compare(a.x, b.x) })
	var kept []*letterPlace
	for _, p := range places {
		i := slices.IndexFunc(kept, func(k *letterPlace) bool {
			const gap, height = 3, 15 // pixels
			return math.Abs(f.x(k.x)-f.x(p.x)) < halfWidth(k.text)+halfWidth(p.text)+gap && math.Abs(f.y(k.y)-f.y(p.y)) < height
		})
		if i < 0 {
			kept = append(kept, p)
			continue
		}
		k := kept[i]
		k.keys, k.x, k.y = append(k.keys, p.keys...), math.Sqrt(k.x*p.x), min(k.y, p.y)
		k.text = ranges(k.keys)
	}
	return kept
}

// halfWidth is about half of what a letter's label takes, in pixels.
func halfWidth(text string) float64 { return 4 * float64(utf8.RuneCountInString(text)) }

// ranges writes A, B, C and F as A–C F.
func ranges(keys []string) string {
	place := func(key string) int {
		i := 0
		for letter(i) != key {
			i++
		}
		return i
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	var parts []string
	for i := 0; i < len(keys); {
		j := i
		for j+1 < len(keys) && place(keys[j+1]) == place(keys[j])+1 {
			j++
		}
		if j-i < 2 {
			j = i
			parts = append(parts, keys[i])
		} else {
			parts = append(parts, keys[i]+"–"+keys[j])
		}
		i = j + 1
	}
	return strings.Join(parts, " ")
}

// glyphPath is the form of dot i about a place: forms tell sets apart where colours do not.
func glyphPath(i int, x, y float64) string {
	at := func(steps string) string { return fmt.Sprintf("M%g %g", x, y) + steps }
	switch i % 5 {
	case 0:
		return at("m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z") // circle
	case 1:
		return at("m-3.6 -3.6h7.2v7.2h-7.2z") // square
	case 2:
		return at("m0 -4.8l4.6 8h-9.2z") // triangle
	case 3:
		return at("m0 -5l5 5l-5 5l-5 -5z") // diamond
	}
	return at("m0 4.8l4.6 -8h-9.2z") // triangle on its tip
}

// glyph draws a dot for the legend.
func glyph(i int) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg class="key dots" viewBox="0 0 14 12" aria-hidden="true"><path class="d%d" d="%s"/></svg>`, i%paletteSize+1, glyphPath(i, 7, 6)))
}
