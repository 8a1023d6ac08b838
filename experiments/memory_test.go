package experiments

import (
	"strings"
	"testing"

	"harness/nn"
)

func TestAModelLargerThanTheMachineIsRefused(t *testing.T) {
	if physicalMemory() == 0 {
		t.Skip("this system does not say how much memory it has")
	}
	if err := checkMemory(load(t, tinySpec(t, ""))); err != nil {
		t.Errorf("a tiny model: %v", err)
	}
	// Activations of 100M tokens through MLPs of 65,536 are hundreds of terabytes.
	large := load(t, tinySpec(t, ""), "model.d_ff=65536", "train.sequence=1000", "train.step_tokens=100M", "budget=200M")
	if err := checkMemory(large); err == nil || !strings.Contains(err.Error(), "this machine has") {
		t.Errorf("a step of 100M tokens: %v", err)
	}
	if _, err := DryRun(t.Context(), large); err == nil || !strings.Contains(err.Error(), "this machine has") {
		t.Errorf("its dry run: %v", err)
	}
}

// By hand: an MLP of 6 wide beside a mixture of 5, after growth 12, of 4 and two shared
// of 4: 3 * 8 * (6 + 12*4 + 2*4) and 300 rows of 8.
func TestParametersOfASpecByHand(t *testing.T) {
	s := &Spec{}
	s.Model.DModel, s.Model.DFF, s.Model.Layers = 8, 6, []nn.Mixer{nn.SWA, nn.Lin}
	s.Model.MoE = nn.MoE{Layers: []int{1}, Experts: 5, TopK: 2, DFF: 4, Shared: 2}
	s.Corpus.Tokenizer.Vocab = 300
	s.Grow = []nn.Growth{{Experts: 12}}
	if got, want := s.parameters(), float64(3*8*(6+12*4+2*4)+300*8); got != want {
		t.Errorf("%g parameters, by hand %g", got, want)
	}
	// Gate and up of 6, and of 2 experts of 4 and the shared 8; 4 rows of the stream a layer.
	s.Train.StepTokens = 10
	if got, want := s.activations(), float64(4*10*(2*6+4*8+2*(2*4+8)+4*8)); got != want {
		t.Errorf("activations of %g bytes, by hand %g", got, want)
	}
}
