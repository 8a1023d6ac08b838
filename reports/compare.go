package reports

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"harness/runs"
)

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
	for _, s := range scores {
		p := probe{s.Name, s.Seed}
		if logged[s.Name] {
			continue
		}
		if byProbe[p] == nil {
			name := "score/" + s.Name
			if seeds[s.Name]++; seeds[s.Name] > 1 {
				name = "score/" + seededName(s)
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

// takeUnigram takes the validation text's unigram entropy out of the series, if it
// is one and the same all along and there is a loss to compare it with: such a level
// is a line in the loss's chart and no curve.
func takeUnigram(series []runs.Series) (rest []runs.Series, level Level) {
	if _, ok := finalValidationLoss(series); !ok {
		return series, Level{}
	}
	for i, s := range series {
		if !isUnigram(s.Name) || splitOf(s.Name) != "validation" || len(s.Points) == 0 {
			continue
		}
		value := s.Points[0].Value
		constant := !slices.ContainsFunc(s.Points, func(p runs.Point) bool { return p.Value != value })
		if constant && finite(value) {
			return slices.Delete(slices.Clone(series), i, i+1), Level{Label: "unigram entropy", Value: value}
		}
	}
	return series, Level{}
}

// compareWithUnigram draws the unigram entropy where the overall validation loss is.
func compareWithUnigram(charts []Chart, unigram Level) {
	var overall *Curve
	for i := range charts {
		for j, curve := range charts[i].Curves {
			if isValidationLoss(curve.Name) && len(curve.Points) > 0 && (overall == nil || len(curve.Name) < len(overall.Name)) {
				overall = &charts[i].Curves[j]
			}
		}
	}
	if overall != nil {
		overall.Level = unigram
	}
}

// compareWithChance gives probe curves the chance level and the intervals of the
// scores that they are drawn from.
func compareWithChance(charts []Chart, scores []runs.Score) {
	for i := range charts {
		chart := &charts[i]
		for j := range chart.Curves {
			curve := &chart.Curves[j]
			prefix, task, grouped := strings.Cut(curve.Name, "/")
			if !grouped || !isProbeWord(prefix) {
				continue
			}
			for _, s := range scores {
				if task != s.Name && task != seededName(s) {
					continue
				}
				if finite(s.Chance) {
					curve.Level = Level{Label: "chance", Value: s.Chance}
				}
				at := Point{X: chart.Axis.of(runs.Point{Step: s.Step, Tokens: s.Tokens}), Value: s.Value}
				if finite(s.Low) && finite(s.High) && slices.Contains(curve.Points, at) {
					curve.Intervals = append(curve.Intervals, Interval{X: at.X, Low: s.Low, High: s.High})
				}
			}
		}
	}
}

// seededName tells the scores of one task with several seeds apart.
func seededName(s runs.Score) string { return fmt.Sprintf("%s (seed %d)", s.Name, s.Seed) }

// paletteSize is how many curve colours the page's style defines.
const paletteSize = 8

// colourBits chooses those bits of a name's hash in which the names of the kinds of
// task differ, so that their curves do too.
const colourBits = 14

// assignColours gives each curve the colour of its own name, the last part of it, on
// whatever page and chart it is drawn; within a chart a colour that is taken yields
// to the next one.
func assignColours(curves []Curve) {
	taken := [paletteSize]bool{}
	for i := range curves {
		name := curves[i].Name
		sum := fnv.New32a()
		sum.Write([]byte(name[strings.LastIndexByte(name, '/')+1:]))
		colour := int(sum.Sum32() >> colourBits % paletteSize)
		for range paletteSize - 1 {
			if !taken[colour] {
				break
			}
			colour = (colour + 1) % paletteSize
		}
		curves[i].Colour, taken[colour] = colour, true
	}
}
