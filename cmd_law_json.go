package main

import "harness/experiments"

type lawJSON struct {
	Name         string          `json:"name"`
	Dense        bool            `json:"dense"`
	Layers       []int           `json:"moe_layers,omitempty"`
	TopK         int             `json:"top_k,omitempty"`
	ExpertParams int64           `json:"expert_parameters,omitempty"`
	Tau          float64         `json:"tau,omitempty"`
	Tokens       *int64          `json:"tokens,omitempty"` // absent if not known
	Points       []lawPointJSON  `json:"points,omitempty"`
	Growth       []lawGrowthJSON `json:"growth,omitempty"`
	Run          *expertsJSON    `json:"run,omitempty"`
	Information  []string        `json:"information"`
	Warnings     []string        `json:"warnings"`
}

type lawPointJSON struct {
	At                  string `json:"at"`
	Tokens              *int64 `json:"tokens"` // null if not known, as the next
	StageTokens         *int64 `json:"stage_tokens"`
	Experts             int    `json:"experts"`
	EndsStage           bool   `json:"ends_stage"`
	Lineage             number `json:"expert_tokens"`
	LineagePerParameter number `json:"tokens_per_parameter"`
	Own                 number `json:"expert_tokens_in_stage"`
	OwnPerParameter     number `json:"tokens_per_parameter_in_stage"`
	Bound               number `json:"experts_allowed"`
	Needs               number `json:"tokens_needed"`
	Pace                number `json:"k2_over_e"`
	Law                 string `json:"law"`
}

type lawGrowthJSON struct {
	At          int64  `json:"at"`
	Experts     int    `json:"experts"`
	AllowedFrom number `json:"allowed_from_tokens"`
	OwnFrom     number `json:"own_tau_from_tokens"`
	Happens     bool   `json:"happens"`
}

type expertsJSON struct {
	ID           string        `json:"id"`
	Name         string        `json:"name"`
	Seed         int64         `json:"seed"`
	Step         int64         `json:"step"`
	Tokens       int64         `json:"tokens"`
	Experts      int           `json:"experts"`
	TopK         int           `json:"top_k"`
	ExpertParams int64         `json:"expert_parameters"`
	PerParameter number        `json:"tokens_per_parameter"`
	Life         string        `json:"life"`
	Layers       []mixtureJSON `json:"layers"`
}

type mixtureJSON struct {
	Layer         int    `json:"layer"`
	Share         number `json:"branch_share"`
	Swap          number `json:"swap_nats"`
	SwapLow       number `json:"swap_low"`
	SwapHigh      number `json:"swap_high"`
	Windows       string `json:"swap_n"`
	Participation number `json:"participation"`
	Of            number `json:"participation_of"`
	Dead          number `json:"unused_experts"`
	LeastLoad     number `json:"least_load"`
	Life          string `json:"life"`
}

func (v lawView) json() lawJSON {
	j := lawJSON{Name: v.spec.Name, Dense: v.law == nil, Information: []string{}, Warnings: []string{}}
	for _, l := range v.lines {
		if l.warning {
			j.Warnings = append(j.Warnings, l.text)
		} else {
			j.Information = append(j.Information, l.text)
		}
	}
	if v.law == nil {
		return j
	}
	l := v.law
	j.Layers, j.TopK, j.ExpertParams, j.Tau, j.Tokens = l.Layers, l.TopK, l.ExpertParams, l.Tau, known(l.Tokens, l.Tokens)
	for _, p := range l.Points {
		j.Points = append(j.Points, lawPointJSON{p.What, known(p.Tokens, p.Tokens), known(p.StageTokens, p.Tokens), p.Experts, p.EndsStage,
			number(p.Lineage), number(l.PerParameter(p.Lineage)), number(p.Own), number(l.PerParameter(p.Own)),
			number(p.Bound), number(p.Needs), number(p.Pace), string(l.Verdict(p))})
	}
	for _, g := range l.Growth {
		j.Growth = append(j.Growth, lawGrowthJSON{g.At, g.Experts, number(g.AllowedFrom), number(g.OwnFrom), g.Happens})
	}
	if v.run != nil && v.run.Law != nil {
		r := newExpertsJSON(v.run)
		j.Run = &r
	}
	return j
}

// known is n, or nil where tokens, which it was computed from, are not known.
func known(n, tokens int64) *int64 {
	if tokens == 0 {
		return nil
	}
	return &n
}

func newExpertsJSON(r *experiments.RunExperts) expertsJSON {
	j := expertsJSON{ID: r.Run.ID, Name: r.Run.Name, Seed: r.Run.Seed, Step: r.Step, Tokens: r.Tokens, Experts: r.Experts,
		TopK: r.Law.TopK, ExpertParams: r.Law.ExpertParams, PerParameter: number(r.Ratio()), Life: string(r.Life), Layers: []mixtureJSON{}}
	for _, h := range r.Layers {
		j.Layers = append(j.Layers, mixtureJSON{h.Layer, number(h.Share), number(h.Swap), number(h.SwapLow), number(h.SwapHigh), h.Windows,
			number(h.Participation), number(h.Of), number(h.Dead), number(h.LeastLoad), string(h.Life())})
	}
	return j
}

type tauJSON struct {
	N           int           `json:"n"`
	Low         *tauBoundJSON `json:"tau_more_than"` // null where no run is dead, as the next where none is alive
	High        *tauBoundJSON `json:"tau_at_most"`
	Overlap     bool          `json:"overlap"` // no threshold separates dead from alive: there are no bounds then
	Runs        []expertsJSON `json:"runs"`
	LeftOut     []string      `json:"left_out"`
	Differences []string      `json:"differences"`
	Verdict     []string      `json:"verdict"`
}

type tauBoundJSON struct {
	PerParameter number `json:"tokens_per_parameter"`
	Run          string `json:"run"`
}

func (v tauView) json() tauJSON {
	j := tauJSON{N: len(v.Dead) + len(v.Alive), Overlap: v.Overlap(), Runs: []expertsJSON{}, LeftOut: []string{},
		Differences: append([]string{}, v.Differences()...), Verdict: v.verdict()}
	bound := func(r *experiments.RunExperts) *tauBoundJSON {
		if r == nil || v.Overlap() {
			return nil
		}
		return &tauBoundJSON{number(r.Ratio()), r.Run.ID}
	}
	j.Low, j.High = bound(v.MostDead()), bound(v.LeastAlive())
	for _, r := range v.judged() {
		j.Runs = append(j.Runs, newExpertsJSON(r))
	}
	for _, r := range v.Left {
		j.LeftOut = append(j.LeftOut, r.Run.ID)
	}
	return j
}
