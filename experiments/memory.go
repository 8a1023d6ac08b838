package experiments

import (
	"bufio"
	"fmt"
	"os"

	"github.com/dustin/go-humanize"
)

// checkMemory refuses a model that this machine cannot hold, before anything is
// allocated: the runtime would end with a trace, after growth hours into a run.
func checkMemory(s *Spec) error {
	needs, has := 3*4*s.parameters()+s.activations(), physicalMemory()
	if has == 0 || needs < float64(has) {
		return nil
	}
	after := ""
	if len(s.Grow) > 0 {
		after = " after growth"
	}
	return fmt.Errorf("model, optimizer and activations need %s%s, this machine has %s of memory: lower model.d_model, model.d_ff, the mixtures or train.step_tokens",
		humanize.IBytes(uint64(needs)), after, humanize.IBytes(has))
}

// activations is about what a training step keeps of its forward, in bytes: the inputs
// of every MLP and expert that acts, and the residual stream.
func (s *Spec) activations() float64 {
	m, floats := s.Model, 0
	for i := range m.Layers {
		width := m.DFF
		if m.MoE.Has(i) {
			width = m.MoE.SharedWidth() + m.MoE.TopK*m.MoE.DFF
		}
		floats += 2*width + 4*m.DModel
	}
	return 4 * float64(s.Train.StepTokens) * float64(floats)
}

// physicalMemory is in bytes, 0 where the system does not say.
func physicalMemory() uint64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var kilobytes uint64
		if n, _ := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kilobytes); n == 1 {
			return 1024 * kilobytes
		}
	}
	return 0
}
