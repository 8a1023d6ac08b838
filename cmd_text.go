package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// unlimited is the width of results that go to no terminal: nothing is cut there.
const unlimited = math.MaxInt32

// readable is the widest that a paragraph may be.
const readable = 100

// visible makes text of any origin one printable line: what a model wrote must not
// move the cursor, colour or clear the terminal, or reorder what stands beside it.
// Line breaks and tabs become arrows, other controls their pictures (U+2400 and up),
// and what has no picture U+FFFD.
func visible(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, string(utf8.RuneError)), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\u2028', r == '\u2029':
			return '↵'
		case r == '\t':
			return '⇥'
		}
		return harmless(r)
	}, s)
}

// visibleLines is visible, but keeps line breaks and tabs.
func visibleLines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return harmless(r)
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}

func harmless(r rune) rune {
	switch {
	case r < 0x20:
		return 0x2400 + r
	case r == 0x7f:
		return '\u2421'
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
		return utf8.RuneError
	}
	return r
}

// shorten keeps the beginning of s, at most width columns with the ellipsis.
func shorten(s string, width int) string {
	if uniseg.StringWidth(s) <= width {
		return s
	}
	var kept strings.Builder
	used := 1 // the ellipsis
	for g := uniseg.NewGraphemes(s); g.Next() && used+g.Width() <= width; {
		used += g.Width()
		kept.WriteString(g.Str())
	}
	return kept.String() + "…"
}

// shortenLeft keeps the end of s, at most width columns with the ellipsis.
func shortenLeft(s string, width int) string {
	over := uniseg.StringWidth(s) - width
	if over <= 0 {
		return s
	}
	g := uniseg.NewGraphemes(s)
	from := 0
	for dropped := -1; dropped < over && g.Next(); { // -1: the ellipsis needs room too
		dropped += g.Width()
		_, from = g.Positions()
	}
	return "…" + s[from:]
}

// shortenMiddle keeps the beginning and the end of s, at most n runes with the
// ellipsis.
func shortenMiddle(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	head := n / 2
	return string(r[:head]) + "…" + string(r[len(r)-(n-head-1):])
}

// columns is the width of the terminal that w is, or 0 if it is none that can
// redraw a line.
func columns(w io.Writer) int {
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// resultWidth is how wide a result for w may be.
func resultWidth(w io.Writer) int {
	if width := columns(w); width > 0 {
		return width
	}
	return unlimited
}

// paragraph is text in lines of at most width columns.
func paragraph(s string, width int) string {
	return strings.ReplaceAll(text.WrapSoft(s, min(width, readable)), " \n", "\n")
}

// writeTable prints rows without rules or borders; columns named in right are
// aligned to the right. Cells must be visible already. Nothing is cut: the last
// column wraps where the table would be wider than width.
func writeTable(w io.Writer, width int, header table.Row, rows []table.Row, right ...string) {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "  ", ""
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.AppendHeader(header)
	t.AppendRows(rows)
	const narrowest = 16
	widths := columnWidths(header, rows)
	last := len(widths) - 1
	configs := make([]table.ColumnConfig, len(widths))
	for i := range configs {
		configs[i].Number = i + 1
		if slices.Contains(right, fmt.Sprint(header[i])) {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	room := width - tableWidth(widths[:last]) - columnGap
	configs[last].WidthMax, configs[last].WidthMaxEnforcer = max(room, narrowest), text.WrapSoft
	t.SetColumnConfigs(configs)
	io.WriteString(w, t.Render()+"\n")
}

// columnGap stands before every column of a table.
const columnGap = 2

func columnWidths(header table.Row, rows []table.Row) []int {
	widths := make([]int, len(header))
	for _, row := range append([]table.Row{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], uniseg.StringWidth(fmt.Sprint(cell)))
		}
	}
	return widths
}

func tableWidth(columns []int) (total int) {
	for _, width := range columns {
		total += columnGap + width
	}
	return total
}

// count is a whole number as people read it.
func count(n int64) string { return humanize.Comma(n) }

// brief is a count in at most five columns: 9999, 12.3k, 4.91B.
func brief(n float64) string {
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return strconv.FormatFloat(n, 'f', -1, 64)
	case math.Abs(n) < 9999.5:
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	unit := 0
	for ; math.Abs(n) >= 999.5 && unit < 4; unit++ {
		n /= 1000
	}
	digits := 2
	switch {
	case math.Abs(n) >= 99.95:
		digits = 0
	case math.Abs(n) >= 9.995:
		digits = 1
	}
	return strconv.FormatFloat(n, 'f', digits, 64) + []string{"", "k", "M", "B", "T"}[unit]
}

// duration is d in two units at most.
func duration(d time.Duration) string {
	pad := func(n time.Duration) string { return (strconv.Itoa(100 + int(n)))[1:] }
	switch {
	case d < 0:
		return "?"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m" + pad(d%time.Minute/time.Second) + "s"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h" + pad(d%time.Hour/time.Minute) + "m"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d" + pad(d%(24*time.Hour)/time.Hour) + "h"
}

// nats is a loss with as many digits as an experiment can tell apart.
func nats(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
