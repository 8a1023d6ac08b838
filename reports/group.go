package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"harness/runs"
)

// maxCurvesPerChart keeps a chart readable; a larger group is split in order.
const maxCurvesPerChart = 8

// maxPeakRatio is how far the peaks of metrics without a unit may lie apart on one
// axis; the lower one would be a flat line beyond it.
const maxPeakRatio = 100

// newCharts groups the series of a run into charts. Metrics share an axis only if
// they have the same name prefix, the same unit and the same side of the
// train/validation split: a sampled training loss is not comparable with a
// validation loss. Where no unit says that scales agree, they must be siblings
// whose values do.
func newCharts(series []runs.Series, attempts []runs.Attempt) []Chart {
	series = inheritUnits(series)
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
		if k.unit == "" {
			parts = splitByPeak(group)
		}
		for _, part := range parts {
			slices.SortStableFunc(part, func(a, b runs.Series) int { return strings.Compare(a.Name, b.Name) })
			groups = append(groups, part)
		}
	}
	slices.SortFunc(groups, func(a, b []runs.Series) int {
		return cmp.Or(cmp.Compare(chartRank(a[0].Name), chartRank(b[0].Name)),
			strings.Compare(a[0].Name, b[0].Name), strings.Compare(a[0].Unit, b[0].Unit))
	})
	var charts []Chart
	for _, group := range groups {
		for part := range slices.Chunk(group, maxCurvesPerChart) {
			chart := newChart(part)
			chart.Marks = append(attemptMarks(chart.Axis, series, attempts), chart.Marks...)
			chart.ID = fmt.Sprintf("chart-%d", len(charts)+1)
			charts = append(charts, chart)
		}
	}
	shareAxes(charts)
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
				left, right = min(left, m.X), max(right, m.X)
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

// scoreSeries turns probe scores into series, so that they are drawn by the same
// code as metrics. A task that is also logged as a metric is left to it, and one
// measured only once to the score table.
func scoreSeries(scores []runs.Score, metrics []runs.Series) []runs.Series {
	logged := map[string]bool{}
	for _, s := range metrics {
		if prefix, task, grouped := strings.Cut(s.Name, "/"); grouped && isProbeWord(prefix) {
			logged[task] = true
		}
	}
	type probe struct {
		task string
		seed int64
	}
	byProbe := map[probe]*runs.Series{}
	seeds := map[string]int{}
	for _, s := range sortedScores(scores) {
		p := probe{s.Name, s.Seed}
		if logged[s.Name] {
			continue
		}
		if byProbe[p] == nil {
			name := "score/" + s.Name
			if seeds[s.Name]++; seeds[s.Name] > 1 {
				name += fmt.Sprintf(" (seed %d)", s.Seed)
			}
			byProbe[p] = &runs.Series{Name: name, Unit: s.Unit}
		}
		byProbe[p].Points = append(byProbe[p].Points, runs.Point{Step: s.Step, Tokens: s.Tokens, Value: s.Value, Attempt: s.Attempt})
	}
	var series []runs.Series
	for _, s := range byProbe {
		if len(s.Points) > 1 {
			series = append(series, *s)
		}
	}
	return series
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

// chartRank orders the page: losses first (training, then validation), then
// scores, then what every run logs, then the rest by name.
func chartRank(name string) int {
	words := nameWords(name)
	has := func(want ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(want, w) })
	}
	switch {
	case has("loss", "perplexity") && splitOf(name) == "train":
		return 0
	case has("loss", "perplexity") && splitOf(name) == "validation":
		return 1
	case has("loss", "perplexity"):
		return 2
	case slices.ContainsFunc(words, isProbeWord):
		return 3
	case has("lr", "rate"):
		return 4
	case has("grad", "gradient"):
		return 5
	case has("tok", "throughput", "tps") || strings.Contains(name, "tokens_per"):
		return 6
	}
	return 7
}
