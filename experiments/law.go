package experiments

import (
	"math"
	"strconv"

	"harness/nn"
)

// PaperTau is how many tokens of training the paper found an expert to need for each
// of its parameters (section 6.1).
const PaperTau = 502

// slowPace is the k^2/E below which an expert's parameters see so many fewer tokens
// than dense ones that too many experts are a warning and no mere information.
const slowPace = 0.25

// Law is the paper's budget law (section 6.1) applied to a spec: an expert sees N*k/E
// of N tokens, and needs Tau for each of its P_e parameters, so E <= N*k/(Tau*P_e).
// It assumes that routing spreads its tokens evenly. Shared experts are outside it:
// they see every token.
type Law struct {
	Tau          float64
	Layers       []int
	Of           int // layers of the model
	TopK         int
	DModel, DFF  int
	ExpertParams int64 // P_e, of one expert in one layer
	Method       nn.GrowthMethod
	Tokens       int64 // of the whole training; 0 if not known
	Points       []LawPoint
	Growth       []LawGrowth
}

// LawPoint is what experts have had by the end of a phase of the curriculum or of a
// stage, which is the time between two growth steps. Figures that need an unknown
// number of tokens are NaN.
type LawPoint struct {
	What        string // what ends or begins there
	Tokens      int64  // N, of training so far; 0 if not known
	StageTokens int64  // since the mixtures have as many experts; 0 if not known
	Experts     int    // E, until there
	EndsStage   bool

	// Tokens that one of the youngest experts has had: since it is there, and over its
	// lineage. Children of a split inherit what their parent saw, inserted experts begin
	// with nothing.
	Own, Lineage float64
	Bound        float64 // N*k/(Tau*P_e): the most experts for N tokens
	Needs        float64 // E*Tau*P_e/k: the fewest tokens for E experts
	Pace         float64 // k^2/E: tokens per expert parameter over those per dense parameter
}

// LawGrowth is when the law would allow a growth step.
type LawGrowth struct {
	At          int64
	Experts     int
	AllowedFrom float64 // tokens of training from which the law allows as many
	OwnFrom     float64 // tokens from which they have had Tau per parameter after the growth alone
	Happens     bool    // false where training ends first
}

// LawVerdict says how a point stands to the law.
type LawVerdict string

const (
	UnderLaw   LawVerdict = "under"
	ByLineage  LawVerdict = "lineage" // more than N allows, but children inherited enough
	AboveLaw   LawVerdict = "above"
	UnknownLaw LawVerdict = "?" // tokens are not known
)

// NewLaw applies the law to a spec that trains on tokens, 0 if that is not known. It
// is nil for a dense model.
func NewLaw(s *Spec, tau float64, tokens int64) *Law {
	step := int64(s.Train.StepTokens)
	steps := (tokens + step - 1) / step
	// As in a run: growth comes between two steps, the last of which may pass tokens.
	return newLaw(s, tau, tokens, func(g nn.Growth) bool { return tokens == 0 || (steps-1)*step >= g.At })
}

// newLaw is NewLaw where happens says which growth steps training gets to.
func newLaw(s *Spec, tau float64, tokens int64, happens func(nn.Growth) bool) *Law {
	c := s.Model
	if len(c.MoE.Layers) == 0 {
		return nil
	}
	l := &Law{Tau: tau, Layers: c.MoE.Layers, Of: len(c.Layers), TopK: c.MoE.TopK, DModel: c.DModel, DFF: c.MoE.DFF,
		ExpertParams: int64(3 * c.DModel * c.MoE.DFF), Tokens: tokens}
	experts, from, inherited := c.MoE.Experts, int64(0), 0.0
	phases := phaseEnds(s, tokens)
	// point takes stock at n tokens, 0 if that is not known.
	point := func(n int64, ends bool, what string) {
		k, e, params := float64(l.TopK), float64(experts), float64(l.ExpertParams)
		p := LawPoint{What: what, Tokens: n, Experts: experts, EndsStage: ends, Own: math.NaN(), Lineage: math.NaN(),
			Bound: math.NaN(), Needs: e * tau * params / k, Pace: k * k / e}
		if n > 0 {
			p.StageTokens = n - from
			p.Own = float64(p.StageTokens) * k / e
			p.Lineage = inherited + p.Own
			p.Bound = float64(n) * k / (tau * params)
		}
		l.Points = append(l.Points, p)
	}
	for _, g := range s.Grow {
		l.Method = g.Method
		needs := float64(g.Experts) * tau * float64(l.ExpertParams) / float64(l.TopK)
		step := LawGrowth{At: g.At, Experts: g.Experts, AllowedFrom: needs, OwnFrom: float64(g.At) + needs, Happens: happens(g)}
		l.Growth = append(l.Growth, step)
		if !step.Happens {
			continue
		}
		for ; len(phases) > 0 && phases[0].tokens <= g.At; phases = phases[1:] {
			point(phases[0].tokens, false, phases[0].what)
		}
		point(g.At, true, "growth to "+strconv.Itoa(g.Experts))
		if inherited = l.Points[len(l.Points)-1].Lineage; g.Method == nn.InsertZero {
			inherited = 0
		}
		experts, from = g.Experts, g.At
	}
	for _, p := range phases {
		point(p.tokens, false, p.what)
	}
	point(tokens, true, "end")
	return l
}

type phaseEnd struct {
	what   string
	tokens int64
}

// phaseEnds lists where the curriculum changes; the last phase ends with the training.
func phaseEnds(s *Spec, tokens int64) (ends []phaseEnd) {
	for i, p := range s.Corpus.Phases {
		n := int64(math.Round(p.Until * float64(tokens)))
		if n > 0 && n < tokens {
			ends = append(ends, phaseEnd{"phase " + strconv.Itoa(i+1), n})
		}
	}
	return ends
}

// PerParameter is tokens of an expert over its parameters.
func (l *Law) PerParameter(tokens float64) float64 { return tokens / float64(l.ExpertParams) }

// Verdict says how a point stands to the law.
func (l *Law) Verdict(p LawPoint) LawVerdict {
	switch {
	case p.Tokens == 0:
		return UnknownLaw
	case p.Lineage < l.Tau*float64(l.ExpertParams):
		return AboveLaw
	case float64(p.Tokens) < p.Needs:
		return ByLineage
	}
	return UnderLaw
}

// Warns reports whether what stands above the law there is worth a warning by its
// numbers alone.
func (l *Law) Warns(p LawPoint) bool { return l.Verdict(p) == AboveLaw && p.Pace < slowPace }

// Stages are the points at which a stage ends.
func (l *Law) Stages() (ends []LawPoint) {
	for _, p := range l.Points {
		if p.EndsStage {
			ends = append(ends, p)
		}
	}
	return ends
}
