package reports

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// number prints a measured value with four significant digits, and a non-finite
// one as what it is.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	case v == 0:
		return "0"
	}
	magnitude := math.Abs(v)
	switch {
	case magnitude >= 1e4 && magnitude < 1e15:
		return humanize.Comma(int64(math.Round(v)))
	case magnitude >= 1e15 || magnitude < 1e-3:
		return scientific(v, 4)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// percent prints a share as the terminal does.
func percent(share float64) string {
	if !finite(share) {
		return number(share)
	}
	return strconv.FormatFloat(100*share, 'f', 1, 64) + "%"
}

// wholePercent prints a share on an axis.
func wholePercent(share float64) string {
	if share == 0 {
		return "0%" // also the zero with a sign
	}
	return strconv.FormatFloat(round(100*share, 6), 'f', -1, 64) + "%"
}

// scientific prints v as 3e-4, without the zero padding of the exponent.
func scientific(v float64, digits int) string {
	text := strconv.FormatFloat(v, 'e', digits-1, 64)
	mantissa, exponent, _ := strings.Cut(text, "e")
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	power, err := strconv.Atoi(exponent)
	if err != nil {
		return text
	}
	return fmt.Sprintf("%se%d", mantissa, power)
}

// tick prints an axis label in as few characters as tell it apart.
func tick(v float64) string {
	magnitude := math.Abs(v)
	switch {
	case v == 0:
		return "0"
	case magnitude >= 1e12 || magnitude < 1e-3:
		return scientific(v, 3)
	}
	for _, scale := range []struct {
		unit   float64
		suffix string
	}{{1e9, "B"}, {1e6, "M"}, {1e3, "k"}} {
		if magnitude >= scale.unit {
			return strconv.FormatFloat(round(v/scale.unit, 6), 'g', -1, 64) + scale.suffix
		}
	}
	return strconv.FormatFloat(round(v, 6), 'g', -1, 64)
}

// count64 prints a count held in a float64, such as a place on the token axis.
func count64(v float64) string { return humanize.Comma(int64(v)) }

// round keeps the given number of significant digits.
func round(v float64, digits int) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v
	}
	return rounded
}

func plural(noun string) string {
	if noun == string(AxisSteps) {
		return "steps"
	}
	return noun
}

// minute prints a time to the minute in UTC, "" for the zero time.
func minute(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}

// moment prints a time of day in UTC, "" for the zero time.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// elapsed rounds a duration to what a reader wants to know.
func elapsed(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return d.Round(time.Minute).String()
	case d >= time.Minute:
		return d.Round(time.Second).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
