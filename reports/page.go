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
	Problem string
	// Resume is the command that goes on with a run that ended before its first step,
	// "" for others.
	Resume        string
	Facts         []Fact
	Scores        []ScoreRow
	Samples       *Table // prompts of the newest probing and how they were answered; nil if none
	Charts        []Chart
	Mixture       *Mixture         // of experts; nil for a dense run
	Taskless      bool             // the spec has no tasks, so that there are no scores
	Generations   []GenerationStep // newest first
	GenerationKey string           // explains the scores of generations, "" where there is nothing to explain
	Inputs        []Table          // of the model and of the corpus
	Tables        []Table          // the others
	Spec          string           // resolved, YAML
	Attempts      Table
	Events        Table
	Artifacts     Table
	Provenance    []Fact
	Libraries     []Fact // versions of the modules the program was built from
}

// Fact is one labelled figure of the header or of the provenance list.
type Fact struct {
	Label string
	Value string
	Note  string // where the figure comes from, or what it compares with
}

// ScoreRow is the newest score of one task, beside its chance level.
type ScoreRow struct {
	runs.Score
	Asks string // what the task asks, "" where unknown
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
	Meaning string // one sentence on what the columns mean, "" where they speak for themselves
	Columns []string
	Numeric []bool
	Rows    [][]string
	Older   []Table // earlier versions of the same table, newest first
}
