package experiments

import (
	"slices"
	"strings"
	"testing"

	"harness/corpus"
	"harness/nn"
)

const withTasks = minimal + `  tasks:
    - {name: shift, kind: shift, max: 9}
    - {name: copy, kind: copy}
`

func TestOverrides(t *testing.T) {
	spec, err := Parse("/specs/exp.yaml", []byte(withTasks), []string{
		"train.optimizer.lr=1e-3",
		"train.optimizer.lr=2e-3", // the last one counts
		"corpus.sources[0].max_bytes=1MB",
		"corpus.tasks.shift.max=12",
		"corpus.tasks.copy.min=3",
		"corpus.tasks[1].name=echo",
		"corpus.tasks.echo.max=5",
		"corpus.phases=[{until: 30%, weights: {go: 1}}, {until: 1, weights: {go: 1, echo: 1}}]",
		"corpus.phases[1].weights.shift=2",
		"model.layers[1]=lin",
		"train.loss={kind: sampled, power: 1}",
		"budget=90s",
		"notes=",
		"name=a=b",
		"tags=[x, on]",
	})
	if err != nil {
		t.Fatal(err)
	}
	if spec.Train.Optimizer.LR != 2e-3 || spec.Corpus.Sources[0].MaxBytes != 1e6 || spec.Budget.Wall.Seconds() != 90 ||
		spec.Name != "a=b" || spec.Notes != "" || !slices.Equal(spec.Tags, []string{"x", "on"}) {
		t.Errorf("scalars: %+v", spec)
	}
	if shift, echo := spec.Corpus.Tasks[0], spec.Corpus.Tasks[1]; shift.Max != 12 || echo.Name != "echo" || echo.Min != 3 || echo.Max != 5 || echo.Kind != corpus.Copy {
		t.Errorf("tasks: %+v", spec.Corpus.Tasks)
	}
	if phases := spec.Corpus.Phases; len(phases) != 2 || phases[0].Until != 0.3 || len(phases[1].Weights) != 3 || phases[1].Weights["shift"] != 2 {
		t.Errorf("phases: %+v", phases)
	}
	if want := []nn.Mixer{nn.Lin, nn.Lin, nn.SWA, nn.Lin, nn.SWA, nn.Lin}; !slices.Equal(spec.Model.Layers, want) {
		t.Errorf("layers: %v, want the default with one changed: %v", spec.Model.Layers, want)
	}
	if loss := spec.Train.Loss; loss.Kind != nn.SampledSoftmax || loss.Power != 1 || loss.Negatives != 4096 {
		t.Errorf("loss: %+v", loss)
	}
}

func TestErrorsOfOverrides(t *testing.T) {
	for _, c := range []struct{ override, want string }{
		{"train.optimizer.lerning_rate=1", `unknown key "lerning_rate" in train.optimizer; did you mean "lr"? valid keys: lr, min_ratio, warmup_steps, beta1, beta2, eps, weight_decay, norm_decay, clip_norm`},
		{"train.loss={knd: full}", `unknown key "knd" in train.loss; did you mean "kind"? valid keys: kind, negatives, power, floor`},
		{"lr=1", `unknown key "lr" at the top level; it belongs in train.optimizer; valid keys: name, notes, tags, base, seed, budget, corpus, model, grow, train, probes`},
		{"train.optimizer.lr", "want key.path=value"},
		{"=1", `"" is not a key path such as train.optimizer.lr or corpus.sources[0].path`},
		{"train..lr=1", `"train..lr" is not a key path such as train.optimizer.lr or corpus.sources[0].path`},
		{"corpus.sources[x].path=1", `"corpus.sources[x].path" is not a key path: [x] is no index`},
		{"corpus.sources[0.path=1", `"corpus.sources[0.path" is not a key path: [0 is no index`},
		{"corpus.sources[]=1", `"corpus.sources[]" is not a key path: [] is no index`},
		{"corpus.sources[=1", `"corpus.sources[" is not a key path: [ is no index`},
		{"train.optimizer.lr=2", "train.optimizer.lr: 2 is outside (0,1]"},
		{"train.optimizer.lr=", `train.optimizer.lr: want a number such as 0.5, 1e-3 or 5%, got ""`},
		{"train.optimizer.lr=~", "train.optimizer.lr: no value; leave the key out to get its default"},
		{"train.optimizer.lr=[", "the value is not YAML: did not find expected node content"},
		{"train.optimizer.lr=&a 1", "anchors (&name) are not allowed in a spec"},
		{"seed.x=1", `seed is a single value, it has no "x"`},
		{"seed[0]=1", "seed is not a list"},
		{"corpus.sources[7].kind=text", "corpus.sources has no entry [7], it has 1"},
		{"corpus.tasks.shfit.max=1", `corpus.tasks has no entry named "shfit"; did you mean "shift"? names: shift, copy`},
		{"corpus.tasks.foo.max=1", `corpus.tasks has no entry named "foo"; names: shift, copy`},
		{"corpus.phases.a.until=1", `corpus.phases has no entry named "a"; give an index such as corpus.phases[0]`},
		{"corpus.tasks.shift.min=10", "corpus.tasks[0].min: 10 is more than max, which is 9"},
		{"train.sequence=1000", "train.sequence: step_tokens 4096 is not a multiple of sequence 1000"},
		{"model.layers[0]=gru", `model.layers[0]: unknown value "gru"; valid values: swa, lin`},
	} {
		// The problem is the override's even where the file has something to do with it.
		expectProblems(t, c.override, withTasks, []string{c.override}, `override "`+c.override+`": `+c.want)
	}
	expectProblems(t, "file and override", minimal+"seed: -1\n", []string{"tags=x", "budget=0"},
		"exp.yaml:7: seed: -1 is outside [0,9e15]\n"+`override "tags=x": tags: want a list, got "x"`+"\n"+`override "budget=0": budget: "0" is no tokens at all`)
	expectProblems(t, "contradicts the file", minimal+"train:\n  step_tokens: 4096\n", []string{"train.sequence=1000"},
		`override "train.sequence=1000": train.sequence: step_tokens 4096 is not a multiple of sequence 1000`)
	expectProblems(t, "adds a section", "name: a\nbudget: 1M\n", []string{"corpus.validation_share=10%"},
		"exp.yaml:1: corpus.sources: want at least one source of text")
	expectProblems(t, "nothing to enter", minimal+"train: 5\n", []string{"train.sequence=8"},
		`exp.yaml:7: train: want keys and values, got "5"`+"\n"+`override "train.sequence=8": train is "5" in exp.yaml`)
}

func TestOverridesFixWhatTheFileHasWrong(t *testing.T) {
	text := strings.Replace(minimal, "1M", "never", 1)
	if _, err := Parse("exp.yaml", []byte(text), []string{"budget=1M"}); err != nil {
		t.Error(err)
	}
}
