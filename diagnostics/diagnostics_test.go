package diagnostics

import (
	"math"
	"math/rand/v2"
	"testing"

	"harness/amx"
	"harness/nn"
)

func TestParticipationOfKnownGains(t *testing.T) {
	one := make([]float32, 10)
	one[4] = 3
	equal := []float32{2, -2, 2, 2}
	for name, x := range map[string]struct {
		w    []float32
		want float64
	}{"one alone": {one, 1}, "all equal": {equal, 4}, "two and two half": {[]float32{1, 1, 0.5, 0.5}, 6.25 / 2.125}, "dead": {make([]float32, 5), 0}} {
		if got := participation(name, x.w).Ratio; math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, got, x.want)
		}
	}
}

func TestBranchSharesFindADeadBranch(t *testing.T) {
	m := nn.New(nn.Config{DModel: 8, Layers: []nn.Mixer{nn.Lin, nn.SWA}, DFF: 12, Heads: 2, HeadWidth: 4, StateWidth: 4, Window: 4, RopeBase: 100}, 19, amx.Reference())
	m.Init(rand.New(rand.NewPCG(1, 2)))
	clear(m.Layers[1].Down.Data)
	b := nn.Batch{Tokens: []int32{1, 5, 7, 2, 9}, Targets: []int32{5, 7, 2, 9, -1}, Starts: []int32{0}}
	a := nn.NewActivations(m, 5, true)
	m.Forward(a, b)
	shares := map[string]float64{}
	for _, s := range BranchShares(m, a) {
		shares[s.Name] = s.Share
	}
	if len(shares) != 4 || shares["layers.1.mlp"] != 0 || shares["layers.0.mlp"] == 0 || shares["layers.1.swa"] == 0 {
		t.Errorf("shares %v: only layers.1.mlp is dead", shares)
	}
	ratios := ParticipationRatios(m)
	if len(ratios) != 6 { // two norms a layer, lin's head norm, the final norm
		t.Fatalf("%d gains: %v", len(ratios), ratios)
	}
	for _, r := range ratios {
		if r.Ratio != float64(r.Of) || r.RMS != 1 {
			t.Errorf("%s starts at ones: %+v", r.Name, r)
		}
	}
}

// By hand: embeddings of +-1 (rms 1), documents of one token, values and readout of
// attention the identity and half of it. The mixer adds half of a stream of rms 1,
// which leaves 1.5: a share of a third. The MLP's matrices are zero.
func TestBranchSharesByHand(t *testing.T) {
	const d = 8
	m := nn.New(nn.Config{DModel: d, Layers: []nn.Mixer{nn.SWA}, DFF: 12, Activation: nn.ReLU2, Heads: 1, HeadWidth: d, StateWidth: 4, Window: 4, RopeBase: 100}, 5, amx.Reference())
	l := m.Layers[0]
	for i := range d {
		l.MixNorm.Data[i], l.FFNNorm.Data[i], m.FinalNorm.Data[i] = 1, 1, 1
		l.In.Data[i*3*d+2*d+i] = 1 // columns q | k | v
		l.Out.Data[i*d+i] = 0.5
	}
	for i := range m.Embedding.Data {
		m.Embedding.Data[i] = float32(1 / math.Sqrt(d)) // inputs are multiplied by sqrt(D)
		if i%3 == 0 {
			m.Embedding.Data[i] *= -1
		}
	}
	b := nn.Batch{Tokens: []int32{1, 4, 2}, Targets: []int32{-1, -1, -1}, Starts: []int32{0, 1, 2}}
	a := nn.NewActivations(m, 3, true)
	m.Forward(a, b)
	for i, want := range []float64{1.0 / 3, 0} {
		if got := BranchShares(m, a)[i]; math.Abs(got.Share-want) > 1e-5 {
			t.Errorf("%s: %.6f, by hand %.6f", got.Name, got.Share, want)
		}
	}
}
