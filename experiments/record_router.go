package experiments

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"harness/nn"
	"harness/runs"
)

// deadLoad is the share of an equal load below which an expert counts as dead.
const deadLoad = 0.01

// routerMetric names a metric of a layer's mixture.
func routerMetric(layer int, what string) string { return fmt.Sprintf("router/%d/%s", layer, what) }

// recordRouters writes how the mixtures were routed: means since the last record, and
// the running load as it stands.
func (a *attempt) recordRouters(step, tokens int64) {
	w := a.t.window // across a growth the means are over both numbers of experts
	if len(w.entropy) == 0 {
		return
	}
	at, balance := 0, 0.0
	for i := range a.t.model.Layers {
		x := a.t.model.Layers[i].Mixture
		if x == nil {
			continue
		}
		if w.routed[0] > 0 {
			a.rec.Metric(routerMetric(i, "entropy"), step, tokens, w.entropy[at]/float64(w.routed[0]))
		}
		effective, dead := spread(x.Load)
		a.rec.Metric(routerMetric(i, "effective"), step, tokens, effective)
		a.rec.Metric(routerMetric(i, "dead"), step, tokens, float64(dead))
		balance += w.balance[at]
		at++
	}
	if w.routed[0] > 0 {
		a.rec.Metric("router/balance", step, tokens, balance/float64(w.routed[0]))
	}
	a.rec.Metric("router/first_share", step, tokens, float64(w.first[0])/float64(w.first[0]+w.routed[0]))
}

// spread is how many experts a load amounts to, and how many it leaves dead.
func spread(load []float64) (effective float64, dead int) {
	entropy := 0.0
	for _, f := range load {
		if f > 0 {
			entropy -= f * math.Log(f)
		}
		if f < deadLoad/float64(len(load)) {
			dead++
		}
	}
	return math.Exp(entropy), dead
}

// routerTables record every mixture's load as it stands at a probe.
func (a *attempt) routerTables(step int64) {
	routers := runs.Table{Step: step, Name: "router",
		Columns: []string{"layer", "experts", "effective", "dead", "least load", "median load", "most load"}}
	loads := runs.Table{Step: step, Name: "expert load", Columns: []string{"layer", "expert", "load"}}
	for i := range a.t.model.Layers {
		x := a.t.model.Layers[i].Mixture
		if x == nil {
			continue
		}
		share := make([]float64, len(x.Load)) // in multiples of an equal one
		for e, f := range x.Load {
			share[e] = f * float64(len(x.Load))
			loads.Rows = append(loads.Rows, []string{strconv.Itoa(i), strconv.Itoa(e), fmt.Sprintf("%.3f", share[e])})
		}
		slices.Sort(share)
		n := len(share)
		effective, dead := spread(x.Load)
		routers.Rows = append(routers.Rows, []string{strconv.Itoa(i), strconv.Itoa(n), fmt.Sprintf("%.1f", effective), strconv.Itoa(dead),
			fmt.Sprintf("%.3f", share[0]), fmt.Sprintf("%.3f", (share[(n-1)/2]+share[n/2])/2), fmt.Sprintf("%.3f", share[n-1])})
	}
	if len(routers.Rows) > 0 {
		a.rec.Table(routers)
		a.rec.Table(loads)
	}
}

// ablate records what routing otherwise costs the finished model.
func (a *attempt) ablate(ctx context.Context) error {
	costs, err := a.eval.ablate(ctx)
	if err != nil || len(costs) == 0 {
		return err
	}
	table := runs.Table{Step: a.t.step, Name: "routing ablations", Columns: []string{"layer", "ablation", "cost nats/token", "low", "high", "n"}}
	for _, c := range costs {
		table.Rows = append(table.Rows, []string{strconv.Itoa(c.Layer), c.Kind, fmt.Sprintf("%.5f", c.Cost),
			fmt.Sprintf("%.5f", c.Low), fmt.Sprintf("%.5f", c.High), strconv.Itoa(c.N)})
	}
	a.rec.Table(table)
	return nil
}

// grow takes a growth step that is due, and records where each expert comes from.
func (a *attempt) grow(g nn.Growth) {
	var before int
	for i := range a.t.model.Layers {
		if x := a.t.model.Layers[i].Mixture; x != nil {
			before = x.Experts()
		}
	}
	a.t.grow(g)
	a.eval.grown()
	var parents []string
	for _, p := range g.Parents(before) {
		if p < 0 {
			parents = append(parents, "-")
			continue
		}
		parents = append(parents, strconv.Itoa(p))
	}
	jitter := "-" // where no row is copied
	if g.Method != nn.InsertZero {
		jitter = fmt.Sprint(g.Jitter)
	}
	a.rec.Table(runs.Table{Step: a.t.step, Name: "lineage", Columns: []string{"method", "experts before", "experts after", "jitter", "parents"},
		Rows: [][]string{{string(g.Method), strconv.Itoa(before), strconv.Itoa(g.Experts), jitter, strings.Join(parents, " ")}}})
	a.account()
	text := fmt.Sprintf("%s: %d experts become %d in every mixture", g.Method, before, g.Experts)
	a.rec.Event(a.t.step, "growth", text)
	a.options.note(fmt.Sprintf("growth before step %d, %s", a.t.step+1, text))
}
