package main

import (
	"math"

	"harness/reports"
)

type comparisonJSON struct {
	Title    string        `json:"title"`
	Baseline string        `json:"baseline,omitempty"`
	Arms     []armJSON     `json:"arms"`
	Notes    []string      `json:"notes"`
	LeftOut  []leftOutJSON `json:"left_out"`
}

type estimateJSON struct {
	Mean number `json:"mean"`
	Low  number `json:"low"` // of the 95% t interval; "NaN" if there is none
	High number `json:"high"`
	N    int    `json:"n"`
}

type armJSON struct {
	Name       string          `json:"name"`
	Loss       estimateJSON    `json:"validation_loss_nats"`
	Difference *differenceJSON `json:"difference,omitempty"`
	Scores     []armScoreJSON  `json:"scores"`
	Runs       []armRunJSON    `json:"runs"`
}

type differenceJSON struct {
	estimateJSON
	Verdict string `json:"verdict,omitempty"`
	But     string `json:"but,omitempty"` // what the verdict is to be read with
	Why     string `json:"why_none,omitempty"`
}

// armScoreJSON is the mean over an arm's runs.
type armScoreJSON struct {
	Task    string `json:"task"`
	Value   number `json:"value"`
	Low     number `json:"low"`
	High    number `json:"high"`
	Chance  number `json:"chance"`
	N       int    `json:"n"` // prompts of all runs together
	Verdict string `json:"verdict"`
}

type armRunJSON struct {
	ID      string      `json:"id"`
	Seed    int64       `json:"seed"`
	Loss    number      `json:"validation_loss_nats"`
	Step    int64       `json:"validation_step"`
	Tokens  int64       `json:"tokens"`
	Stored  int64       `json:"stored_parameters,omitempty"`
	Active  int64       `json:"active_body_parameters,omitempty"`
	Speed   number      `json:"training_tokens_per_second"`
	Shared  bool        `json:"shared_machine"`
	Seconds float64     `json:"seconds"` // all attempts together
	Corpus  string      `json:"corpus_hash,omitempty"`
	Kernels string      `json:"kernels,omitempty"`
	Scores  []scoreJSON `json:"scores"`
}

type leftOutJSON struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	Seed int64  `json:"seed"`
	Why  string `json:"why"`
}

func newComparisonJSON(page reports.ArmsPage) comparisonJSON {
	estimate := func(e reports.Estimate) estimateJSON {
		return estimateJSON{number(e.Mean), number(e.Low()), number(e.High()), e.N}
	}
	j := comparisonJSON{Title: page.Title, Baseline: page.Baseline, Notes: append([]string{}, page.Notes...), LeftOut: []leftOutJSON{}}
	for _, a := range page.Arms {
		arm := armJSON{Name: a.Name, Loss: estimate(a.Loss)}
		if d := a.Difference; d.N > 0 || d.Why != "" {
			arm.Difference = &differenceJSON{estimate(d.Estimate), d.Verdict(), d.But, d.Why}
		}
		arm.Scores = []armScoreJSON{}
		for _, s := range a.Scores {
			if !math.IsNaN(s.Value) {
				arm.Scores = append(arm.Scores, armScoreJSON{s.Name, number(s.Value), number(s.Low), number(s.High), number(s.Chance), s.N, verdict(s.Score)})
			}
		}
		for _, r := range a.Runs {
			arm.Runs = append(arm.Runs, armRunJSON{ID: r.ID, Seed: r.Seed, Loss: number(r.Loss.Value), Step: r.Loss.Step, Tokens: r.Tokens,
				Stored: r.Stored, Active: r.Active, Speed: number(r.Speed), Shared: r.Shared, Seconds: r.Time.Seconds(),
				Corpus: r.Corpus(), Kernels: r.Kernels(), Scores: scoresJSON(r.Scores)})
		}
		j.Arms = append(j.Arms, arm)
	}
	for _, l := range page.LeftOut {
		j.LeftOut = append(j.LeftOut, leftOutJSON{l.Arm, l.ID, l.Seed, l.Why})
	}
	return j
}
