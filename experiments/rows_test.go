package experiments

import (
	"fmt"
	"strings"
	"testing"

	"harness/amx"
	"harness/nn"
	"harness/nn/optim"
)

// modelOf builds the model that a spec ends with; nothing touches its memory.
func modelOf(t *testing.T, spec *Spec) *nn.Model {
	t.Helper()
	k, err := amx.Select("portable")
	if err != nil {
		t.Fatal(err)
	}
	return nn.New(spec.Model, spec.Corpus.Tokenizer.Vocab, k, spec.Grow...)
}

// accounting is a spec's accounting as text, a line for each row.
func accounting(t *testing.T, path string, overrides ...string) (text string, cells map[string]string) {
	t.Helper()
	spec := load(t, path, overrides...)
	cells = map[string]string{}
	var b strings.Builder
	for _, row := range accountRows(modelOf(t, spec).Account(spec.Train.Loss), spec) {
		line := strings.Join(row[1:], " | ")
		cells[row[0]] = line
		fmt.Fprintf(&b, "%s | %s\n", row[0], line)
	}
	return b.String(), cells
}

func TestAccountingOfTheReleasedShapes(t *testing.T) {
	var all strings.Builder
	for _, path := range []string{"paper/release-dense.yaml", "paper/release-moe-e256.yaml", "paper/follow-up-e64.yaml", "paper/window-e128.yaml"} {
		text, _ := accounting(t, path)
		fmt.Fprintf(&all, "%s\n%s\n", path, text)
	}
	golden(t, "accounting.golden", []byte(all.String()))
}

// What the golden file says, from the shapes in the paper.
func TestAccountingOfTheReleasedMixturesByHand(t *testing.T) {
	const (
		body, embedding = 3_298_144, 16_384 * 256 // of the dense model
		expert          = 3 * 256 * 160
		mlp             = 3 * 256 * 640
		readout         = 68 * 256
	)
	for path, x := range map[string]struct{ experts, active, stored int }{
		"paper/release-moe-e256.yaml": {256, 3_316_320, 100_956_515},
		"paper/follow-up-e64.yaml":    {64, 3_315_744, 30_029_420},
	} {
		_, cells := accounting(t, path)
		router := x.experts * 256
		stored := body + embedding + 3*(x.experts*expert+expert+router+256-mlp)
		active := body - 3*mlp + 3*4*expert + readout + 3*router/256
		for part, want := range map[string][]string{
			"body":             {count(body - 3*mlp)},
			"shared experts":   {count(3 * expert)},
			"router":           {count(3 * (router + 256))},
			"experts active":   {count(3 * 4 * expert)},
			"experts stored":   {count(3 * x.experts * expert)},
			"stored":           {count(stored)},
			"published active": {count(x.active), "ours " + count(active) + " ", fmt.Sprintf("(difference %d)", active-x.active)},
			"published stored": {count(x.stored), "ours " + count(stored) + " ", "(difference " + count(stored-x.stored) + ")", "assumed: "},
		} {
			for _, s := range want {
				if !strings.Contains(cells[part], s) {
					t.Errorf("%s: %s: %q does not say %q", path, part, cells[part], s)
				}
			}
		}
		if active != x.active {
			t.Errorf("%s: %d active, published %d", path, active, x.active)
		}
	}
}

// What acts stays as it was at the start; what it is chosen from grows.
func TestAccountingOfAGrownModelSaysItsExperts(t *testing.T) {
	for grow, want := range map[string]string{
		"grow=[]":                        "2 experts of 8, in each of 2 layers",
		"grow=[{at: 1M, experts: 16}]":   "2 experts of 16, in each of 2 layers",
		"grow=[{at: 1M, experts: 4096}]": "2 experts of 4,096, in each of 2 layers",
		"grow[1].experts=32":             "2 experts of 32, in each of 2 layers",
		"grow=[{at: 1M, experts: 11, method: insert_zero}]": "2 experts of 11, in each of 2 layers",
	} {
		text, cells := accounting(t, "testdata/growing.yaml", grow)
		if cells["experts active"] != count(2*2*3*128*80)+" | "+want {
			t.Errorf("%s:\n%s", grow, text)
		}
	}
}

// count is a number with a comma at every thousand.
func count(n int) string {
	if n < 0 {
		return "-" + count(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", count(n/1000), n%1000)
}

func TestAShapeThatWasNotReleasedIsComparedWithNothing(t *testing.T) {
	for _, overrides := range [][]string{
		{"model.moe.top_k=2"}, {"model.moe.experts=128"}, {"model.moe.layers=[0, 3]"}, {"model.moe.d_ff=80"}, {"model.moe.shared=2"}, {"model.moe.shared=0"},
		{"model.d_ff=320"}, {"model.layers=[lin, swa]", "model.moe.layers=[0, 1]"},
	} {
		if text, _ := accounting(t, "paper/release-moe-e256.yaml", overrides...); strings.Contains(text, "published") {
			t.Errorf("%q:\n%s", overrides, text)
		}
	}
	// Another vocabulary is another model, but compared: the difference says so.
	if _, cells := accounting(t, "paper/release-moe-e256.yaml", "corpus.tokenizer.vocab=8192"); !strings.Contains(cells["published stored"], "a vocabulary of 8,192 instead of 16,384") {
		t.Errorf("%q", cells["published stored"])
	}
}

// What --dry-run prints of memory is what training allocates, and small for the largest
// released model: gradients are those of the experts alone that a step touches.
func TestMemoryIsThatOfTheBuffersInTraining(t *testing.T) {
	for _, c := range []struct {
		path      string
		overrides []string
	}{
		{"paper/release-moe-e256.yaml", nil},
		{"paper/release-dense.yaml", nil},
		{"testdata/growing.yaml", nil},
		{"testdata/growing.yaml", []string{"grow=[{at: 1M, experts: 16}, {at: 2M, experts: 256}]"}},
	} {
		spec := load(t, c.path, c.overrides...)
		m := modelOf(t, spec)
		o := optim.New(spec.Train.Optimizer, m)
		rows := nn.NewRows(m, spec.Train.Loss, make([]int64, m.V), spec.Train.StepTokens)
		a := nn.NewActivations(m, spec.Train.StepTokens, true)
		state, gradients := 0, 4*cap(rows.Grad)
		for _, p := range m.Params() {
			state += 4 * len(p.Data)
			gradients += 4 * len(p.Grad)
		}
		s := o.State()
		for _, x := range s.Moments {
			state += 4 * (len(x.First) + len(x.Second))
		}
		for _, x := range s.Lazy {
			state += 8 * (len(x.Clock) + len(x.Steps))
		}
		for i := range m.Layers {
			if x := m.Layers[i].Mixture; x != nil {
				state += 8 * len(x.Load)
				gradients += 4 * (cap(a.Touched(i).GateUp) + cap(a.Touched(i).Down))
			}
		}
		if gotState, gotGradients := memory(spec, m); gotState != int64(state) || gotGradients != int64(gradients) {
			t.Errorf("%s %q: %d bytes of state and %d of gradients, counted %d and %d", c.path, c.overrides, gotState, gotGradients, state, gradients)
		}
		if state+gradients > 1_800_000_000 {
			t.Errorf("%s: %d bytes", c.path, state+gradients)
		}
	}
}
