package reports

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"harness/runs"
)

func newRunPage(r record) RunPage {
	page := RunPage{
		Title:         r.run.Name,
		State:         r.run.State,
		Notes:         r.run.Notes,
		Tags:          r.run.Tags,
		Facts:         headerFacts(r),
		Scores:        latestScores(r.scores, taskQuestions(r.run.Spec)),
		Taskless:      len(r.scores) == 0 && taskless(r.run.Spec),
		Generations:   generationSteps(r.generations, r.scores),
		GenerationKey: GenerationKey(r.generations),
		Charts:        newCharts(append(slices.Clip(r.series), scoreSeries(r.scores, r.series)...), r),
		Attempts:      attemptTable(r.run.Attempts),
		Events:        eventTable(r.events),
		Artifacts:     artifactTable(r.artifacts, r.run.ID, r.gone),
		Spec:          r.run.Spec,
	}
	page.Provenance, page.Libraries = provenance(r.run)
	var mixtureTables []Table
	for _, t := range latestTables(r.tables) {
		switch t.Title {
		case probeSamples:
			page.Samples = oneLine(t)
		case "parameters", "corpus":
			page.Inputs = append(page.Inputs, t)
		case routerTable, loadTable, lineageTable, ablationTable:
			mixtureTables = append(mixtureTables, t)
		default:
			page.Tables = append(page.Tables, t)
		}
	}
	own := slices.IndexFunc(page.Charts, func(c Chart) bool { return c.Section != "" })
	if own < 0 {
		own = len(page.Charts)
	}
	page.Mixture = newMixture(r, page.Charts[own:], mixtureTables)
	page.Charts = page.Charts[:own]
	slices.SortStableFunc(page.Inputs, func(a, b Table) int { return strings.Compare(b.Title, a.Title) }) // parameters first
	if page.Title == "" {
		page.Title = r.run.ID
	}
	if n := len(r.run.Attempts); n > 0 && r.run.State != runs.Finished && r.run.State != runs.Running {
		page.Problem = r.run.Attempts[n-1].Message
	}
	if r.run.Step == 0 && slices.Contains([]runs.State{runs.Interrupted, runs.Failed, runs.Crashed}, r.run.State) {
		page.Resume = "harness resume " + r.run.ID
	}
	return page
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
	for _, s := range scores {
		if at := byStep[s.Step]; at != nil {
			at.Scores = append(at.Scores, ScoreRow{Score: s})
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
		table := Table{Title: t.Name, Columns: t.Columns, Rows: t.Rows, Numeric: numericColumns(len(t.Columns), t.Rows), Meaning: tableMeaning(t.Name)}
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

// probeSamples is the name of the table of prompts that the probes asked.
const probeSamples = "probe samples"

// tableMeaning says what the columns of a table of ours mean, "" for others.
func tableMeaning(name string) string {
	switch name {
	case "norm gains":
		return "Participation ratio (Σw²)² / Σw⁴ of a norm's gains: its width (the column “of”) if all entries are equal in size, 1 if one of them stands alone."
	case routerTable:
		return "Loads are running shares of the routed tokens, in multiples of an equal share; dead: experts below 0.01; effective: exp of the loads' entropy."
	case ablationTable:
		return "Cost: what the loss rises by where the blocks of one layer are routed otherwise, with its 95% interval over n windows. Swap: to experts, drawn at random, that the router did not choose; permute: the blocks of a document exchange their experts. Where the interval holds 0, nothing was seen to depend on the choice."
	case "branches":
		return "Share: " + shareMeaning + "."
	}
	return ""
}

// shareMeaning says what a branch's share is.
const shareMeaning = "rms of what a branch adds / rms of the residual stream after it"

// GenerationKey explains the scores of generations that are ours, "" if there are none.
func GenerationKey(generations []runs.Generation) string {
	has := func(name string) bool {
		return slices.ContainsFunc(generations, func(g runs.Generation) bool { _, is := g.Scores[name]; return is })
	}
	key := ""
	if has("distinct") {
		key = "distinct: distinct tokens / tokens generated (near 0: a loop)"
	}
	if has("reference nats/token") || has("reference top-1") {
		key = join(key, "reference nats/token and top-1: loss and accuracy on the true continuation, teacher-forced")
	}
	return key
}

// oneLine shows line breaks and tabs of a table's cells as arrows, so that a prompt of
// random tokens stays one line.
func oneLine(t Table) *Table {
	arrows := strings.NewReplacer("\r\n", "↵", "\n", "↵", "\t", "⇥")
	for i, row := range t.Rows {
		t.Rows[i] = slices.Clone(row)
		for c := range row {
			t.Rows[i][c] = arrows.Replace(row[c])
		}
	}
	t.Older = nil // the newest step shows what is asked
	return &t
}
