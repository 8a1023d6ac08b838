package reports

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"harness/runs"
)

// latestScores keeps the newest score of each task and probe seed, in the order in
// which they were first recorded.
func latestScores(scores []runs.Score, questions map[string]string) []ScoreRow {
	var rows []ScoreRow
	for _, s := range scores {
		row := ScoreRow{Score: s, Asks: questions[s.Name]}
		same := func(known ScoreRow) bool { return known.Name == s.Name && known.Seed == s.Seed }
		if i := slices.IndexFunc(rows, same); i < 0 {
			rows = append(rows, row)
		} else if s.Step >= rows[i].Step {
			rows[i] = row
		}
	}
	return rows
}

// taskQuestions says, by name, what the tasks of a resolved spec ask. A spec of another
// form has none; a name that is a kind is taken for that kind.
func taskQuestions(spec string) map[string]string {
	questions := map[string]string{}
	for _, kind := range []string{"induct", "before", "shift", "copy", "add"} {
		questions[kind] = question(kind)
	}
	var resolved struct {
		Corpus struct {
			Tasks []struct {
				Name, Kind string
				Min, Max   int
			}
		}
	}
	if err := yaml.Unmarshal([]byte(spec), &resolved); err != nil {
		return questions // the page shows the spec as it is
	}
	for _, t := range resolved.Corpus.Tasks {
		asks := question(t.Kind)
		unit := "words"
		if t.Kind == "induct" {
			unit = "pairs"
		}
		switch {
		case asks == "" || t.Max == 0 || t.Kind == "add":
		case t.Min == t.Max:
			asks += fmt.Sprintf(" (%d %s)", t.Max, unit)
		default:
			asks += fmt.Sprintf(" (%d to %d %s)", t.Min, t.Max, unit)
		}
		questions[t.Name] = asks
	}
	return questions
}

// taskless holds for a resolved spec that trains on text alone. It does not for one
// of another form, which may name its tasks elsewhere.
func taskless(spec string) bool {
	var resolved struct {
		Corpus *struct{ Tasks []any }
	}
	err := yaml.Unmarshal([]byte(spec), &resolved)
	return err == nil && resolved.Corpus != nil && len(resolved.Corpus.Tasks) == 0
}

// question is what a kind of task asks, "" for an unknown kind.
func question(kind string) string {
	switch kind {
	case "induct":
		return "pairs, then a key: its value"
	case "before":
		return "a marker: the word before it"
	case "shift":
		return "words, a marker: the same words again, fixed length"
	case "copy":
		return "words, a marker: the same words again, varying length"
	case "add":
		return "the sum of two numbers of two digits"
	}
	return ""
}

// isShare holds for scores that count right answers, and so are printed in percent.
func (r ScoreRow) isShare() bool {
	for _, v := range []float64{r.Value, r.Low, r.High, r.Chance} {
		if v < 0 || v > 1 {
			return false
		}
	}
	return slices.Contains([]string{"", "accuracy", "share"}, r.Unit)
}

// text prints one of the score's figures.
func (r ScoreRow) text(v float64) string {
	switch {
	case math.IsNaN(v):
		return "unknown"
	case r.isShare():
		return percent(v)
	case math.Abs(v) < 100:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return number(v)
}

// Figure prints the score itself, with its unit where it is no share.
func (r ScoreRow) Figure() string {
	if r.Unit == "" || r.isShare() {
		return r.text(r.Value)
	}
	return withUnit(r.text(r.Value), r.Unit)
}

// Guessing prints the chance level.
func (r ScoreRow) Guessing() string { return r.text(r.Chance) }

// Interval prints the score's confidence interval.
func (r ScoreRow) Interval() string {
	if math.IsNaN(r.Low) || math.IsNaN(r.High) {
		return "unknown"
	}
	return r.text(r.Low) + " to " + r.text(r.High)
}

// scoreBar draws the score, its interval and the chance level on a scale from 0
// to 1; it is empty for scores that are not shares.
func scoreBar(r ScoreRow) template.HTML {
	const width = 160.0
	isShare := func(v float64) bool { return v >= 0 && v <= 1 }
	if !isShare(r.Value) {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="bar" viewBox="-4 0 %g 14" aria-hidden="true"><line class="track" x1="0" y1="7" x2="%g" y2="7"/>`, width+8, width)
	if isShare(r.Chance) {
		fmt.Fprintf(&b, `<line class="chance" x1="%.1f" y1="1" x2="%.1f" y2="13"/>`, width*r.Chance, width*r.Chance)
	}
	if isShare(r.Low) && isShare(r.High) {
		low, high := width*r.Low, width*r.High
		fmt.Fprintf(&b, `<path class="interval" d="M%.1f 2V12M%.1f 7H%.1fM%.1f 2V12"/>`, low, low, high, high)
	}
	fmt.Fprintf(&b, `<circle class="value" cx="%.1f" cy="7" r="2.2"/></svg>`, width*r.Value)
	return template.HTML(b.String())
}
