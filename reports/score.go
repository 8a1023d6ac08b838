package reports

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// scoreText prints a score with three decimals, so that a column of them lines up.
func scoreText(v float64) string {
	switch {
	case math.IsNaN(v):
		return "unknown"
	case math.Abs(v) < 100:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return number(v)
}

// Interval prints the score's confidence interval.
func (r ScoreRow) Interval() string {
	if math.IsNaN(r.Low) || math.IsNaN(r.High) {
		return "unknown"
	}
	return scoreText(r.Low) + " – " + scoreText(r.High)
}

// Verdict says whether the interval leaves room for guessing. It speaks only of
// this many prompts and this seed.
func (r ScoreRow) Verdict() string {
	switch {
	case math.IsNaN(r.Low) || math.IsNaN(r.High) || math.IsNaN(r.Chance):
		return ""
	case r.Low > r.Chance:
		return "above chance"
	case r.High < r.Chance:
		return "below chance"
	}
	return "may be chance"
}

// scoreBar draws the score, its interval and the chance level on a scale from 0
// to 1; it is empty for scores that are not shares.
func scoreBar(r ScoreRow) template.HTML {
	const width = 120.0
	isShare := func(v float64) bool { return v >= 0 && v <= 1 }
	if !isShare(r.Value) {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="bar" viewBox="0 0 %g 14" aria-hidden="true"><line class="track" x1="0" y1="7" x2="%g" y2="7"/>`, width, width)
	if isShare(r.Low) && isShare(r.High) {
		fmt.Fprintf(&b, `<line class="interval" x1="%.1f" y1="7" x2="%.1f" y2="7"/>`, width*r.Low, width*r.High)
	}
	if isShare(r.Chance) {
		fmt.Fprintf(&b, `<line class="chance" x1="%.1f" y1="1" x2="%.1f" y2="13"/>`, width*r.Chance, width*r.Chance)
	}
	fmt.Fprintf(&b, `<circle class="value" cx="%.1f" cy="7" r="3"/></svg>`, width*r.Value)
	return template.HTML(b.String())
}
