package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"harness/nn"
	"harness/runs"
)

// What stored tables must show for experts to count as dead. A branch in use adds
// more than a hundredth of the stream; a swap of experts that surely costs less than a
// thousandth of a nat leaves them interchangeable.
// A gain of noise alone has a participation of a third of its width, so that a tenth
// is no accident; but a branch can die at more than that, so it confirms and never
// denies.
const (
	deadShare     = 0.01
	swapNoise     = 0.001
	participation = 0.1
)

// MixtureHealth is what a run's tables show of one layer's mixture of experts. What
// was not recorded is NaN.
type MixtureHealth struct {
	Layer             int
	Share             float64 // rms of what the branch adds over rms of the stream after it
	Swap              float64 // nats a token that it costs to swap in other experts
	SwapLow, SwapHigh float64 // 95% interval
	Windows           string  // n of the swap
	Participation, Of float64 // of the gain before the branch
	Dead, LeastLoad   float64 // of the router: experts hardly used, load of the least used
	AllAct            bool    // on every token: there is none to swap in, the share alone tells
}

// Life says whether experts do something.
type Life string

const (
	Alive       Life = "alive"
	Dead        Life = "dead"
	UnknownLife Life = "unknown" // no table says so, or not surely
)

// Life judges by branch share and swap cost. A permutation of the assignments is no
// evidence: it cost the paper's model nothing although its experts differed.
func (h MixtureHealth) Life() Life {
	switch {
	case h.Share < deadShare || h.SwapHigh < swapNoise && !h.AllAct:
		return Dead
	case h.Share >= deadShare && (h.SwapLow > 0 || h.AllAct):
		return Alive
	}
	return UnknownLife
}

// Wide says whether the interval of the swap is too wide to tell: it holds 0 and costs
// that matter.
func (h MixtureHealth) Wide() bool {
	return h.SwapLow <= 0 && h.SwapHigh >= swapNoise && !h.AllAct
}

// Collapsed says whether a tenth of the gain's entries, or fewer, carry its energy.
func (h MixtureHealth) Collapsed() bool { return h.Participation < participation*h.Of }

// RunExperts is what the store holds of a run's experts.
type RunExperts struct {
	Run     runs.Run
	Spec    *Spec
	Step    int64 // of the last tables, of which all figures are; 0 if there are none
	Tokens  int64 // trained on by then
	Experts int   // at that step
	Law     *Law  // for those tokens, by the spec; nil for a dense model
	Layers  []MixtureHealth
	Life    Life // dead if any layer is, alive if all are
}

// ReadExperts reads a run's experts from its stored tables.
func ReadExperts(ctx context.Context, s *runs.Store, run runs.Run, tau float64) (*RunExperts, error) {
	spec, err := Parse("spec of run "+run.ID, []byte(run.Spec), nil)
	if err != nil {
		return nil, errors.New(err.Error()) // a run is no file of the user's to mend
	}
	r := &RunExperts{Run: run, Spec: spec, Tokens: run.Tokens, Life: UnknownLife}
	tables, err := s.Tables(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		if t.Name == "branches" || t.Name == "router" {
			r.Step = max(r.Step, t.Step)
		}
	}
	if r.Step > 0 {
		r.Tokens = r.Step * int64(spec.Train.StepTokens)
	}
	for _, layer := range spec.Model.MoE.Layers {
		r.Layers = append(r.Layers, MixtureHealth{layer, math.NaN(), math.NaN(), math.NaN(), math.NaN(), "", math.NaN(), math.NaN(), math.NaN(), math.NaN(), false})
	}
	if len(r.Layers) == 0 {
		return r, nil
	}
	for _, t := range tables {
		if t.Step == r.Step {
			r.read(t)
		}
	}
	for i := range r.Layers {
		r.Layers[i].AllAct = r.Experts == spec.Model.MoE.TopK
	}
	r.Life = lifeOf(r.Layers)
	return r, r.place(tau)
}

func lifeOf(layers []MixtureHealth) Life {
	life := Alive
	for _, h := range layers {
		switch h.Life() {
		case Dead:
			return Dead
		case UnknownLife:
			life = UnknownLife
		}
	}
	return life
}

// read takes from a table what it says of the mixtures.
func (r *RunExperts) read(t runs.Table) {
	column := func(row []string, name string) string {
		i := slices.IndexFunc(t.Columns, func(c string) bool { return c == name || strings.HasPrefix(c, name+" (") })
		if i >= 0 && i < len(row) {
			return row[i]
		}
		return ""
	}
	number := func(row []string, name string) float64 { return cellNumber(column(row, name)) }
	for i := range r.Layers {
		h := &r.Layers[i]
		for _, row := range t.Rows {
			switch layer := strconv.Itoa(h.Layer); {
			case t.Name == "branches" && isMixture(column(row, "branch"), layer):
				h.Share = number(row, "share of the stream")
			case t.Name == "norm gains" && column(row, "gain") == "layers."+layer+".ffn_norm":
				h.Participation, h.Of = number(row, "participation"), number(row, "of")
			case t.Name == "router" && column(row, "layer") == layer:
				h.Dead, h.LeastLoad = number(row, "dead"), number(row, "least load")
				if e := number(row, "experts"); e > 0 {
					r.Experts = int(e)
				}
			case t.Name == "routing ablations" && column(row, "layer") == layer && column(row, "ablation") == "swap":
				h.Swap, h.SwapLow, h.SwapHigh, h.Windows = number(row, "cost nats/token"), number(row, "low"), number(row, "high"), column(row, "n")
			}
		}
	}
}

// isMixture reports whether a branch is that of a layer's MLP, which the mixture is.
func isMixture(branch, layer string) bool {
	return branch == "layers."+layer+".moe" || branch == "layers."+layer+".mlp"
}

// cellNumber reads a cell of a table; NaN if it holds no number.
func cellNumber(cell string) float64 {
	v, err := strconv.ParseFloat(strings.ReplaceAll(cell, ",", ""), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// place applies the law at the step of the tables. A growth step due just there may
// come after them: how many experts there were is what the router's table says.
func (r *RunExperts) place(tau float64) error {
	step := int64(r.Spec.Train.StepTokens)
	r.Law = newLaw(r.Spec, tau, r.Tokens, func(g nn.Growth) bool {
		grown := (g.At + step - 1) / step * step
		return grown < r.Tokens || grown == r.Tokens && g.Experts <= r.Experts
	})
	told := r.Last().Experts
	if r.Experts == 0 {
		r.Experts = told
	}
	if r.Experts != told {
		return fmt.Errorf("run %s: its router table of step %d has %d experts where its spec has %d after %d tokens", r.Run.ID, r.Step, r.Experts, told, r.Tokens)
	}
	return nil
}

// Last is how the law stands at the step of the tables.
func (r *RunExperts) Last() LawPoint { return r.Law.Points[len(r.Law.Points)-1] }

// Ratio is the tokens per parameter that the youngest experts have had, over their
// lineage.
func (r *RunExperts) Ratio() float64 { return r.Law.PerParameter(r.Last().Lineage) }
