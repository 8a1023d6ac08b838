package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"harness/experiments"
)

// printPlan prints what a run would be.
func printPlan(cmd *cobra.Command, spec *experiments.Spec, asJSON bool) error {
	plan, err := experiments.DryRun(cmd.Context(), spec)
	if err != nil {
		return err
	}
	if asJSON {
		j, err := newPlanJSON(plan)
		if err != nil {
			return err
		}
		return writeJSON(cmd.OutOrStdout(), j)
	}
	writePlan(cmd.OutOrStdout(), plan, spec.Budget.Wall > 0, resultWidth(cmd.OutOrStdout()))
	return nil
}

// writePlan prints a plan; isTime says that the budget is wall-clock time.
func writePlan(w io.Writer, p *experiments.Plan, isTime bool, width int) {
	fmt.Fprintf(w, "# resolved spec, sha256 %s\n%s\n", p.Hash, visibleLines(strings.TrimRight(p.Spec, "\n")+"\n"))
	var rows []table.Row
	for _, row := range p.Accounting {
		if _, is := published(row); !is {
			rows = append(rows, table.Row{visible(row[0]), visible(row[1]), visible(row[2])})
		}
	}
	writeTable(w, width, table.Row{"part", "parameters", "meaning"}, rows, "parameters")
	for _, row := range p.Accounting {
		if name, is := published(row); is {
			fmt.Fprintf(w, "\n%s\n", paragraph(visible(fmt.Sprintf("The paper publishes %s parameters %s: %s.", row[1], name, row[2])), width))
		}
	}
	budget, time := count(p.Budget)+" tokens", "about "+duration(p.Time)+" of training, excluding validation and probes"
	if isTime {
		budget, time = "at most about "+budget+", less what validation and probes cost", duration(p.Time)+", including validation and probes"
	}
	fmt.Fprintln(w)
	writeFacts(w, [][2]string{
		{"kernels", p.Kernels},
		{"work", fmt.Sprintf("%.2f MFLOP per training token", p.TrainFLOP/1e6)},
		{"speed", speedLine(p)},
		{"budget", budget},
		{"time", time},
		{"memory", memoryLine(p)},
	})
}

func speedLine(p *experiments.Plan) string {
	line := count(int64(p.TokensPerSecond)) + " tokens/s, measured here on random tokens"
	if p.GrownPerSecond > 0 {
		line += "; " + count(int64(p.GrownPerSecond)) + " after growth"
	}
	return line
}

func memoryLine(p *experiments.Plan) string {
	when := ""
	if p.Grown > 0 {
		when = ", after growth"
	}
	return fmt.Sprintf("%s model and optimizer, %s gradients of a step at most%s",
		humanize.IBytes(uint64(p.StateBytes)), humanize.IBytes(uint64(p.GradientBytes)), when)
}

// published tells the rows of an accounting that compare it with the paper, and
// which of the paper's totals such a row is about: "active" or "stored".
func published(row []string) (total string, is bool) { return strings.CutPrefix(row[0], "published ") }

type planJSON struct {
	Spec       string          `json:"spec"`
	Hash       string          `json:"spec_sha256"`
	Kernels    string          `json:"kernels"`
	Parameters accountJSON     `json:"parameters"`
	Grown      int             `json:"stored_after_growth,omitempty"`
	Published  []publishedJSON `json:"published,omitempty"`
	TrainFLOP  float64         `json:"flop_per_training_token"`
	Speed      float64         `json:"tokens_per_second"`
	GrownSpeed float64         `json:"tokens_per_second_after_growth,omitempty"`
	Budget     int64           `json:"budget_tokens"`
	Seconds    float64         `json:"training_seconds"` // without validation and probes
	StateBytes int64           `json:"state_bytes"`      // parameters and optimizer
	Gradients  int64           `json:"gradient_bytes"`   // of one step, at most
}

type accountJSON struct {
	Body           int `json:"body"`
	Shared         int `json:"shared_experts"`
	Router         int `json:"router"`
	ExpertsActive  int `json:"experts_active"`
	ExpertsStored  int `json:"experts_stored"`
	RouteBlock     int `json:"route_block"` // tokens that share a routing
	RowsTraining   int `json:"rows_scored_in_training"`
	RowsGeneration int `json:"rows_scored_in_generation"`
	EmbeddingRow   int `json:"row"` // parameters of a row
	Stored         int `json:"stored"`
}

type publishedJSON struct {
	Total      string `json:"total"`
	Parameters int64  `json:"parameters"`
	Comparison string `json:"comparison"`
}

func newPlanJSON(p *experiments.Plan) (planJSON, error) {
	j := planJSON{Spec: p.Spec, Hash: p.Hash, Kernels: p.Kernels, Parameters: accountJSON(p.Account), Grown: p.Grown, TrainFLOP: p.TrainFLOP,
		Speed: p.TokensPerSecond, GrownSpeed: p.GrownPerSecond, Budget: p.Budget, Seconds: p.Time.Seconds(), StateBytes: p.StateBytes, Gradients: p.GradientBytes}
	for _, row := range p.Accounting {
		name, is := published(row)
		if !is {
			continue
		}
		n, err := strconv.ParseInt(strings.ReplaceAll(row[1], ",", ""), 10, 64)
		if err != nil {
			return j, fmt.Errorf("read the published parameters: %w", err)
		}
		j.Published = append(j.Published, publishedJSON{name, n, row[2]})
	}
	return j, nil
}
