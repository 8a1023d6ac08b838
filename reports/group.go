package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"harness/runs"
)

// A group of more than maxCurvesPerChart curves becomes a family of small charts, one
// for each curve. Beyond maxFamily that would be a wall of charts: such a group is
// split in order, maxCurvesInCrowd to a chart.
const (
	maxCurvesPerChart = 3
	maxFamily         = 24
	maxCurvesInCrowd  = 8
)

// maxPeakRatio is how far the peaks of metrics without a unit may lie apart on one
// axis; the lower one would be a flat line beyond it.
const maxPeakRatio = 100

// newCharts groups the series of a run into charts. Metrics share an axis only if
// they have the same name prefix, the same unit and the same side of the
// train/validation split: a sampled training loss is not comparable with a
// validation loss. Where no unit says that scales agree, they must be siblings
// whose values do. r says what else happened, and how sure scores are.
func newCharts(series []runs.Series, r record) []Chart {
	tokensAt := tokenCounter(series)
	series, router := takeRouter(series)
	series, unigram := takeUnigram(inheritUnits(series))
	type key struct{ group, unit, split string }
	members := map[key][]runs.Series{}
	for _, s := range series {
		k := key{group: prefixOf(s.Name), unit: s.Unit, split: splitOf(s.Name)}
		if s.Unit == "" {
			k.group = parentOf(s.Name)
		}
		if k.group == "" {
			k.group = s.Name
		}
		members[k] = append(members[k], s)
	}
	var groups [][]runs.Series
	for k, group := range members {
		parts := [][]runs.Series{group}
		if k.unit == "" && !slices.ContainsFunc(group, func(s runs.Series) bool { return chartRank(s.Name) == rankScore }) {
			parts = splitByPeak(group)
		}
		for _, part := range parts {
			slices.SortStableFunc(part, func(a, b runs.Series) int { return compareNames(a.Name, b.Name) })
			groups = append(groups, part)
		}
	}
	slices.SortFunc(groups, func(a, b []runs.Series) int {
		return cmp.Or(cmp.Compare(chartRank(a[0].Name), chartRank(b[0].Name)),
			compareNames(a[0].Name, b[0].Name), strings.Compare(a[0].Unit, b[0].Unit))
	})
	var charts []Chart
	for _, group := range groups {
		for _, chart := range arrange(group) {
			chart.Marks = append(r.marks(chart.Axis, tokensAt), chart.Marks...)
			charts = append(charts, chart)
		}
	}
	for _, chart := range routerCharts(router, expertsOver(router, newLineage(r.tables, tokensAt))) {
		chart.Marks = append(r.marks(chart.Axis, tokensAt), chart.Marks...)
		charts = append(charts, chart)
	}
	slices.SortStableFunc(charts, func(a, b Chart) int { return cmp.Compare(placeOf(a), placeOf(b)) })
	for i := range charts {
		charts[i].ID = fmt.Sprintf("chart-%d", i+1)
	}
	shareAxes(charts)
	nameGrowths(charts)
	compareWithUnigram(charts, unigram)
	compareWithChance(charts, r.scores)
	smoothCharts(charts)
	scaleCharts(charts)
	return charts
}

// placeOf puts the losses that stand alone, which are compared most, side by side
// before the families, and the charts of another section behind them all.
func placeOf(c Chart) int {
	if c.Section != "" {
		return 2
	}
	if c.Family == "" && chartRank(c.Curves[0].Name) <= rankLoss {
		return 0
	}
	return 1
}

// arrange lays a group of series out as one chart, or as a family of small ones. The
// whole that the others are parts of then gets a chart of its own.
func arrange(group []runs.Series) []Chart {
	switch {
	case len(group) <= maxCurvesPerChart:
		return []Chart{newChart(group)}
	case len(group) > maxFamily:
		var charts []Chart
		for part := range slices.Chunk(group, maxCurvesInCrowd) {
			charts = append(charts, newChart(part))
		}
		return charts
	}
	isWhole := func(s runs.Series) bool {
		return slices.ContainsFunc(group, func(part runs.Series) bool { return parentOf(part.Name) == s.Name })
	}
	var charts []Chart
	var parts []runs.Series
	for _, s := range group {
		if isWhole(s) {
			charts = append(charts, newChart([]runs.Series{s}))
		} else {
			parts = append(parts, s)
		}
	}
	family := chartTitle(parts)
	for _, s := range parts {
		chart := newChart([]runs.Series{s})
		chart.Family = cmp.Or(family, "others")
		chart.Title = cmp.Or(strings.TrimPrefix(s.Name, family+"/"), s.Name)
		charts = append(charts, chart)
	}
	return charts
}

// inheritUnits gives a series without a unit that of the whole it is a part of:
// "validation/loss/go" is measured as "validation/loss" is.
func inheritUnits(series []runs.Series) []runs.Series {
	byName := map[string]runs.Series{}
	for _, s := range series {
		byName[s.Name] = s
	}
	out := slices.Clone(series)
	for i := range out {
		for name := out[i].Name; out[i].Unit == "" && name != ""; {
			name = parentOf(name)
			whole := byName[name]
			out[i].Unit, out[i].Better = whole.Unit, cmp.Or(out[i].Better, whole.Better)
		}
	}
	return out
}

// splitByPeak parts series so that within a part all peaks lie within
// maxPeakRatio of the largest.
func splitByPeak(series []runs.Series) [][]runs.Series {
	slices.SortStableFunc(series, func(a, b runs.Series) int { return cmp.Compare(peak(b), peak(a)) })
	var parts [][]runs.Series
	var largest float64
	for _, s := range series {
		if len(parts) == 0 || peak(s)*maxPeakRatio < largest {
			parts = append(parts, nil)
			largest = peak(s)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], s)
	}
	return parts
}

// peak is the largest finite magnitude of a series, 0 if it has none.
func peak(s runs.Series) float64 {
	var largest float64
	for _, p := range s.Points {
		if finite(p.Value) {
			largest = max(largest, math.Abs(p.Value))
		}
	}
	return largest
}

// shareAxes gives the charts of one axis the range of all of them. It starts at
// zero, as training does, unless nothing was recorded in the first fifth: a fork
// would otherwise be squeezed into a corner.
func shareAxes(charts []Chart) {
	for _, axis := range []Axis{AxisTokens, AxisSteps} {
		left, right := math.Inf(1), math.Inf(-1)
		for _, c := range charts {
			if c.Axis != axis {
				continue
			}
			for _, curve := range c.Curves {
				for _, p := range curve.Points {
					left, right = min(left, p.X), max(right, p.X)
				}
			}
			for _, m := range c.Marks {
				if m.Kind != MarkPhase && m.Kind != MarkGrowth { // a fork begins long after the first phase
					left, right = min(left, m.X), max(right, m.X)
				}
			}
		}
		if left > 0 && left < right/5 {
			left = 0
		}
		switch {
		case left > right: // no point at all
			left, right = 0, 1
		case left == right:
			room := max(1, math.Abs(left)/100)
			left, right = left-room, right+room
		}
		for i := range charts {
			if charts[i].Axis == axis && len(charts[i].Curves) > 0 {
				charts[i].Left, charts[i].Right = left, right
			}
		}
	}
}

// chartTitle is what the curves' names have in common, by whole path elements.
func chartTitle(series []runs.Series) string {
	common := strings.Split(series[0].Name, "/")
	for _, s := range series[1:] {
		path := strings.Split(s.Name, "/")
		n := 0
		for n < min(len(common), len(path)) && common[n] == path[n] {
			n++
		}
		common = common[:n]
	}
	return strings.Join(common, "/")
}

// prefixOf is the metric's group: what stands before the first slash.
func prefixOf(name string) string {
	prefix, _, grouped := strings.Cut(name, "/")
	if !grouped {
		return ""
	}
	return prefix
}

// parentOf is what stands before the last slash.
func parentOf(name string) string {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)]
}

func isProbeWord(word string) bool {
	return slices.Contains([]string{"score", "scores", "probe", "probes"}, strings.ToLower(word))
}

// splitOf says which data a metric was measured on, as far as its name tells.
func splitOf(name string) string {
	for _, word := range nameWords(name) {
		switch {
		case word == "train" || word == "training":
			return "train"
		case word == "val" || word == "valid" || word == "validation":
			return "validation"
		}
	}
	return ""
}

func nameWords(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("/_-. ", r) })
}

// Ranks of charts, in the order of the page: losses (training, then validation, then per byte),
// scores, what every run logs, then the rest by name.
const (
	rankTrainingLoss = iota
	rankValidationLoss
	rankBits
	rankLoss
	rankScore
	rankLearningRate
	rankGradient
	rankSpeed
	rankOther
)

func chartRank(name string) int {
	words := nameWords(name)
	has := func(want ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(want, w) })
	}
	isLoss := has("loss", "perplexity", "bits")
	switch {
	case isLoss && splitOf(name) == "train":
		return rankTrainingLoss
	case has("bits") && splitOf(name) == "validation":
		return rankBits
	case isLoss && splitOf(name) == "validation":
		return rankValidationLoss
	case isLoss:
		return rankLoss
	case slices.ContainsFunc(words, isProbeWord):
		return rankScore
	case has("lr", "rate"):
		return rankLearningRate
	case has("grad", "gradient"):
		return rankGradient
	case has("tok", "throughput", "tps") || strings.Contains(name, "tokens_per"):
		return rankSpeed
	}
	return rankOther
}

// compareNames orders names as a reader would: "layers.2" before "layers.10".
func compareNames(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == "" || y == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		p, q := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if order := cmp.Or(cmp.Compare(len(p), len(q)), strings.Compare(p, q)); order != 0 {
			return order
		}
		a, b = a[len(x):], b[len(y):]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is the number that text begins with, "" if it begins otherwise.
func digits(text string) string {
	return text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
}
