package reports

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"harness/runs"
)

func newRunPage(r record) RunPage {
	page := RunPage{
		Title:       r.run.Name,
		State:       r.run.State,
		Notes:       r.run.Notes,
		Tags:        r.run.Tags,
		Facts:       headerFacts(r),
		Scores:      latestScores(r.scores),
		Generations: generationSteps(r.generations, r.scores),
		Charts:      newCharts(append(slices.Clip(r.series), scoreSeries(r.scores, r.series)...), r.run.Attempts),
		Tables:      latestTables(r.tables),
		Attempts:    attemptTable(r.run.Attempts),
		Events:      eventTable(r.events),
		Artifacts:   artifactTable(r.artifacts, r.run.ID),
		Spec:        r.run.Spec,
		Provenance:  provenance(r.run),
	}
	if page.Title == "" {
		page.Title = r.run.ID
	}
	if n := len(r.run.Attempts); n > 0 && r.run.State != runs.Finished && r.run.State != runs.Running {
		page.Problem = r.run.Attempts[n-1].Message
	}
	return page
}

// headerFacts are the figures a reader looks for first.
func headerFacts(r record) []Fact {
	var facts []Fact
	loss, hasLoss := finalValidationLoss(r.series)
	if hasLoss {
		facts = append(facts, Fact{"validation loss", withUnit(number(loss.Value), "nats"), "last, at " + humanize.Comma(loss.Tokens) + " tokens"})
	}
	if entropy, ok := unigramEntropy(r); ok {
		fact := Fact{Label: "unigram entropy", Value: withUnit(number(entropy), "nats")}
		if below := entropy - loss.Value; hasLoss && finite(below) {
			fact.Note = fmt.Sprintf("loss is %.2f below", below)
			if below < 0 {
				fact.Note = fmt.Sprintf("loss is %.2f above", -below)
			}
		}
		facts = append(facts, fact)
	}
	facts = append(facts,
		Fact{"trained on", humanize.Comma(r.run.Tokens) + " tokens", humanize.Comma(r.run.Step) + " steps"},
		trainingTime(r.run),
		Fact{"created", minute(r.run.Created), ""},
		Fact{"seed", strconv.FormatInt(r.run.Seed, 10), ""},
		Fact{"run", r.run.ID, ""},
	)
	return slices.DeleteFunc(facts, func(f Fact) bool { return f.Value == "" })
}

// trainingTime adds up the attempts. One without an end counts to its last heartbeat.
func trainingTime(run runs.Run) Fact {
	var total time.Duration
	for _, a := range run.Attempts {
		total += attemptTime(a)
	}
	if total == 0 {
		return Fact{}
	}
	fact := Fact{Label: "took", Value: elapsed(total)}
	if n := len(run.Attempts); n > 1 {
		fact.Note = fmt.Sprintf("%d attempts", n)
	}
	return fact
}

func attemptTime(a runs.Attempt) time.Duration {
	end := a.Ended
	if end.IsZero() {
		end = a.Heartbeat
	}
	if end.Before(a.Started) {
		return 0
	}
	return end.Sub(a.Started)
}

// finalValidationLoss takes the last point of the validation loss; among several
// (one per source) the shortest name is the overall one.
func finalValidationLoss(series []runs.Series) (runs.Point, bool) {
	var found *runs.Series
	for i, s := range series {
		if splitOf(s.Name) != "validation" || !slices.Contains(nameWords(s.Name), "loss") || len(s.Points) == 0 {
			continue
		}
		if found == nil || len(s.Name) < len(found.Name) {
			found = &series[i]
		}
	}
	if found == nil {
		return runs.Point{}, false
	}
	return found.Points[len(found.Points)-1], true
}

// unigramEntropy looks for it among the metrics, then among the tables, where a
// row labelled so holds it in a later cell.
func unigramEntropy(r record) (float64, bool) {
	isUnigram := func(name string) bool { return slices.Contains(nameWords(name), "unigram") }
	for _, s := range r.series {
		if isUnigram(s.Name) && len(s.Points) > 0 {
			return s.Points[len(s.Points)-1].Value, true
		}
	}
	for _, t := range slices.Backward(r.tables) {
		for _, row := range t.Rows {
			if len(row) < 2 || !isUnigram(row[0]) {
				continue
			}
			for _, cell := range row[1:] {
				if v, ok := cellNumber(cell); ok {
					return v, true
				}
			}
		}
	}
	return 0, false
}

func sortedScores(scores []runs.Score) []runs.Score {
	return slices.SortedStableFunc(slices.Values(scores), func(a, b runs.Score) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.Step, b.Step))
	})
}

// latestScores keeps the newest score of each task and probe seed.
func latestScores(scores []runs.Score) []ScoreRow {
	var rows []ScoreRow
	for _, s := range sortedScores(scores) {
		row := newScoreRow(s)
		if n := len(rows); n > 0 && rows[n-1].Name == s.Name && rows[n-1].Seed == s.Seed {
			rows[n-1] = row
			continue
		}
		rows = append(rows, row)
	}
	return rows
}

func newScoreRow(s runs.Score) ScoreRow {
	return ScoreRow{Name: s.Name, Value: s.Value, Low: s.Low, High: s.High, Chance: s.Chance,
		N: s.N, Seed: s.Seed, Step: s.Step, Tokens: s.Tokens, Unit: s.Unit}
}

func generationSteps(generations []runs.Generation, scores []runs.Score) []GenerationStep {
	byStep := map[int64]*GenerationStep{}
	for _, g := range generations {
		at := byStep[g.Step]
		if at == nil {
			at = &GenerationStep{Step: g.Step, Tokens: g.Tokens}
			byStep[g.Step] = at
		}
		sample := Sample{Index: g.Index, Prompt: g.Prompt, Text: g.Text, Reference: g.Reference}
		for _, name := range slices.Sorted(maps.Keys(g.Scores)) {
			sample.Scores = append(sample.Scores, Fact{Label: name, Value: number(g.Scores[name])})
		}
		at.Samples = append(at.Samples, sample)
	}
	for _, s := range sortedScores(scores) {
		if at := byStep[s.Step]; at != nil {
			at.Scores = append(at.Scores, newScoreRow(s))
		}
	}
	var steps []GenerationStep
	for _, step := range slices.Backward(slices.Sorted(maps.Keys(byStep))) {
		at := byStep[step]
		slices.SortStableFunc(at.Samples, func(a, b Sample) int { return cmp.Compare(a.Index, b.Index) })
		steps = append(steps, *at)
	}
	return steps
}

// latestTables keeps one table per name, the newest, with the earlier ones behind it.
func latestTables(tables []runs.Table) []Table {
	var latest []Table
	place := map[string]int{}
	newestFirst := slices.SortedStableFunc(slices.Values(tables), func(a, b runs.Table) int { return cmp.Compare(b.Step, a.Step) })
	for _, t := range newestFirst {
		table := Table{Title: t.Name, Columns: t.Columns, Rows: t.Rows, Numeric: numericColumns(len(t.Columns), t.Rows)}
		if t.Step > 0 {
			table.Note = "at step " + humanize.Comma(t.Step)
		}
		if i, seen := place[t.Name]; seen {
			latest[i].Older = append(latest[i].Older, table)
			continue
		}
		place[t.Name] = len(latest)
		latest = append(latest, table)
	}
	slices.SortStableFunc(latest, func(a, b Table) int { return strings.Compare(a.Title, b.Title) })
	return latest
}

// numericColumns finds the columns in which every filled cell is a number.
func numericColumns(columns int, rows [][]string) []bool {
	numeric := make([]bool, columns)
	for c := range numeric {
		filled := 0
		numeric[c] = true
		for _, row := range rows {
			if c >= len(row) || strings.TrimSpace(row[c]) == "" {
				continue
			}
			filled++
			if _, ok := cellNumber(row[c]); !ok {
				numeric[c] = false
			}
		}
		numeric[c] = numeric[c] && filled > 0
	}
	return numeric
}

// cellNumber reads a number from the start of a cell: "7,492,448", "6.05 nats", "12 %".
func cellNumber(cell string) (float64, bool) {
	fields := strings.Fields(cell)
	if len(fields) == 0 || len(fields) > 2 {
		return math.NaN(), false
	}
	v, err := strconv.ParseFloat(strings.TrimSuffix(strings.ReplaceAll(fields[0], ",", ""), "%"), 64)
	return v, err == nil
}

func withUnit(value, unit string) string { return value + " " + unit }
