package main

import (
	"time"

	"harness/runs"
)

type benchJSON struct {
	ID         string            `json:"bench"`
	Kind       string            `json:"kind"`
	Started    time.Time         `json:"started"`
	Choice     choiceJSON        `json:"auto"`
	Changed    bool              `json:"auto_changed"`
	Before     string            `json:"auto_before,omitempty"`
	Results    []measurementJSON `json:"results"`
	Provenance map[string]string `json:"provenance"`
	Report     string            `json:"report,omitempty"`
	ReportURL  string            `json:"report_url,omitempty"`
}

type measurementJSON struct {
	Group  string            `json:"group"`
	Name   string            `json:"name"`
	Value  number            `json:"value"`
	Unit   string            `json:"unit"`
	Low    number            `json:"low"`
	High   number            `json:"high"`
	N      int               `json:"n"`
	Detail map[string]string `json:"detail"`
}

func measurementsJSON(results []runs.Measurement) []measurementJSON {
	all := []measurementJSON{}
	for _, r := range results {
		all = append(all, measurementJSON{r.Group, r.Name, number(r.Value), r.Unit, number(r.Low), number(r.High), r.N, r.Detail})
	}
	return all
}

func (m machineBench) json() benchJSON {
	j := benchJSON{ID: m.bench.ID, Kind: m.bench.Kind, Started: m.bench.Started, Choice: newChoiceJSON(m.choice, ""), Changed: m.changed(),
		Before: m.before.Set.Name, Results: measurementsJSON(m.bench.Results), Provenance: m.bench.Provenance, Report: m.report}
	if m.report != "" {
		j.ReportURL = fileURL(m.report)
	}
	return j
}
