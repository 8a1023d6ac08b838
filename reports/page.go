// Package reports turns a recorded run into a page to read.
//
// In: the runs store, and optionally echarts from the user's cache. Out: one HTML
// file that opens from the file system, asks no network for anything, and is
// complete without JavaScript. The way there is query (query.go), typed page
// (RunPage, built in build.go), rendering (render.go); only the last knows HTML.
// Whatever a run recorded is data here, model output above all: it is shown as it
// is and can never become markup or script.
// Non-goals: terminal output, computing metrics, editing runs.
package reports

import "harness/runs"

// RunPage is everything the page of one run shows, in the order it shows it.
// Texts in it are as recorded; rendering makes them safe.
type RunPage struct {
	Title string
	State runs.State
	Notes string
	Tags  []string
	// Problem says why the last attempt ended, where that was not its budget.
	Problem     string
	Facts       []Fact
	Scores      []ScoreRow
	Generations []GenerationStep // newest first
	Charts      []Chart
	Tables      []Table
	Attempts    Table
	Events      Table
	Artifacts   Table
	Spec        string // resolved, YAML
	Provenance  []Fact
}

// Fact is one labelled figure of the header or of the provenance list.
type Fact struct {
	Label string
	Value string
	Note  string // where the figure comes from, or what it compares with
}

// ScoreRow is the newest score of one task, beside its chance level.
type ScoreRow struct {
	Name                     string
	Value, Low, High, Chance float64 // NaN where unknown
	N                        int
	Seed                     int64
	Step, Tokens             int64
	Unit                     string
}

// GenerationStep is what the model wrote at one step, with the scores of then.
type GenerationStep struct {
	Step, Tokens int64
	Scores       []ScoreRow
	Samples      []Sample
}

// Sample is one generated text.
type Sample struct {
	Index                   int
	Prompt, Text, Reference string
	Scores                  []Fact
}

// Table is a table of text cells. Numeric says which columns align right.
type Table struct {
	Title   string
	Note    string
	Columns []string
	Numeric []bool
	Rows    [][]string
	Older   []Table // earlier versions of the same table, newest first
}
