package nn

import "harness/amx"

// Account is what a model's size can honestly mean, each its own figure. Counts
// are taken from the tensors that exist.
type Account struct {
	Body           int // parameters every token passes through besides embedding rows: mixers, MLPs, norms
	Shared         int // of shared experts, which every token passes through too
	Router         int // router rows and first-block vectors, which act once per block of tokens
	ExpertsActive  int // of the k routed experts that act on a token
	ExpertsStored  int // of all routed experts
	RouteBlock     int // tokens that share one routing; 0 in a dense model
	RowsTraining   int // embedding rows scored per step in training
	RowsGeneration int // embedding rows scored per generated token
	EmbeddingRow   int // parameters of one row, D
	Stored         int // everything in a checkpoint
}

// Account counts the model's parameters under the given training loss.
func (m *Model) Account(loss LossConfig) Account {
	a := Account{RowsTraining: m.V, RowsGeneration: m.V, EmbeddingRow: m.DModel}
	for _, p := range m.params {
		a.Stored += len(p.Data)
		switch p.Kind {
		case Embedding:
		case Router, Vector:
			a.Router += len(p.Data)
		case Expert:
			a.ExpertsStored += len(p.Data)
			a.ExpertsActive += m.MoE.TopK * p.row()
		default:
			a.Body += len(p.Data)
		}
	}
	for i := range m.Layers {
		if l := &m.Layers[i]; l.Mixture != nil && l.dense() > 0 {
			a.Shared += len(l.GateUp.Data) + len(l.Down.Data)
		}
	}
	a.Body -= a.Shared
	if a.Router > 0 {
		a.RouteBlock = m.MoE.RouteBlock
	}
	if loss.Kind == SampledSoftmax {
		a.RowsTraining = min(m.V, loss.Negatives)
	}
	return a
}

// PerToken is the number of parameters, embedding rows aside, that multiply a token;
// the router's count as their share of a block.
func (a Account) PerToken() float64 {
	n := float64(a.Body + a.Shared + a.ExpertsActive)
	if a.RouteBlock > 0 {
		n += float64(a.Router) / float64(a.RouteBlock)
	}
	return n
}

// TrainFLOP is the floating-point work of one training token: 6 per parameter that
// acts on it, 6 per scored readout element, and the mixers' own products over
// windows and chunks (3 times their forward). It counts every position as having a
// target and every negative as a column of its own, which draws with repetition are
// not: TrainFLOPScoring takes what was scored.
func (m *Model) TrainFLOP(loss LossConfig) float64 {
	a := m.Account(loss)
	return m.TrainFLOPScoring(float64(a.RowsTraining * a.EmbeddingRow))
}

// TrainFLOPScoring is TrainFLOP for a mean of readout elements scored per token:
// columns times d_model times the share of positions that have a target.
func (m *Model) TrainFLOPScoring(elements float64) float64 {
	mixers := 0.0
	hd := float64(m.Heads * m.HeadWidth)
	for _, l := range m.Layers {
		if l.Mixer == SWA {
			mixers += 4 * hd * float64(m.Window)
			continue
		}
		s := float64(m.StateWidth)
		mixers += 2*amx.LinearChunk*(s+hd) + 4*s*hd
	}
	return 6*m.Account(LossConfig{}).PerToken() + 6*elements + 3*mixers
}
