package experiments

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// minimal is the shortest valid spec: six lines, to which cases add.
const minimal = `name: a
budget: 1M
corpus:
  sources:
    - name: go
      kind: gotree
`

func TestErrorsOfASpec(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "exp.yaml: the spec is empty"},
		{"comments only", "# nothing\n", "exp.yaml: the spec is empty"},
		{"null", "~\n", "exp.yaml: the spec is empty"},
		{"not a mapping", "- a\n", "exp.yaml:1: want keys and values, got a list"},
		{"text", "hello\n", `exp.yaml:1: want keys and values, got "hello"`},
		{"syntax", minimal + "seed: [1\n", "exp.yaml:7: not YAML: did not find expected ',' or ']'"},
		{"syntax inside", minimal + "train:\n  sequence: 8\n loss: {}\n", "exp.yaml:9: not YAML: did not find expected key"},
		{"syntax at the end", minimal + "seed: ]\n", "exp.yaml:7: not YAML: did not find expected node content"},
		{"syntax on line 1", "a: b: c\n", "exp.yaml:1: not YAML: mapping values are not allowed in this context"},
		{"tab", minimal + "train:\n\tsequence: 1\n", "exp.yaml:8: not YAML: found character that cannot start any token"},
		{"two documents", minimal + "---\n" + minimal, "exp.yaml:7: a second YAML document starts here, a spec is one"},
		{"anchor", minimal + "notes: &a x\n", "exp.yaml:7: anchors (&name) are not allowed in a spec"},
		{"alias", minimal + "tags: &a [x]\nnotes: *a\n", "exp.yaml:7: anchors (&name) are not allowed in a spec\nexp.yaml:8: aliases (*name) are not allowed in a spec"},
		{"merge", minimal + "<<: {seed: 1}\n", "exp.yaml:7: merge keys (<<) are not allowed in a spec"},
		{"tag", minimal + "seed: !!int 5\n", "exp.yaml:7: tags (!name) are not allowed in a spec"},
		{"duplicate", minimal + "name: b\n", `exp.yaml:7: key "name" is already on line 1`},
		{"duplicate below", minimal + "train:\n  loss: {kind: full,\n    kind: full}\n", `exp.yaml:9: train.loss: key "kind" is already on line 8`},
		{"key that is no name", minimal + "? [a]\n: b\n", "exp.yaml:7: a key must be a name, got a list"},

		{"by spelling", minimal + "modle: {}\n",
			`exp.yaml:7: unknown key "modle" at the top level; did you mean "model"? valid keys: name, notes, tags, base, seed, budget, corpus, model, grow, train, probes`},
		{"by meaning", minimal + "train:\n  optimizer:\n    lerning_rate: 1e-3\n",
			`exp.yaml:9: unknown key "lerning_rate" in train.optimizer; did you mean "lr"? valid keys: lr, min_ratio, warmup_steps, beta1, beta2, eps, weight_decay, norm_decay, clip_norm`},
		{"beginning of a word", minimal + "train:\n  loss: {neg: 4}\n",
			`exp.yaml:8: unknown key "neg" in train.loss; did you mean "negatives"? valid keys: kind, negatives, power, floor`},
		{"elsewhere", minimal + "train:\n  loss: {lr: 4}\n",
			`exp.yaml:8: unknown key "lr" in train.loss; it belongs in train.optimizer; valid keys: kind, negatives, power, floor`},
		{"nothing near", minimal + "train:\n  loss: {zzzzzz: 4}\n",
			`exp.yaml:8: unknown key "zzzzzz" in train.loss; valid keys: kind, negatives, power, floor`},
		{"case counts", minimal + "train:\n  loss: {Kind: full}\n",
			`exp.yaml:8: unknown key "Kind" in train.loss; did you mean "kind"? valid keys: kind, negatives, power, floor`},
		{"line breaks in a key", minimal + "train:\n  loss: {\"a\\nb\": full}\n",
			`exp.yaml:8: unknown key "a\nb" in train.loss; valid keys: kind, negatives, power, floor`},

		{"missing at the top", "seed: 1\n" + minimal[strings.Index(minimal, "corpus"):],
			"exp.yaml:1: required key \"name\" is missing (short name of the run)\n" +
				`exp.yaml:1: required key "budget" is missing (how long to train: tokens (259M, 4.91B) or wall clock (90s, 9h))`},
		{"missing in a list", minimal + "    - name: b\n", `exp.yaml:7: corpus.sources[1]: required key "kind" is missing (how it is read: gotree (the Go toolchain's own source), tree (a directory with globs, a document per file), text (files), jsonl (a field of every line; .zst and .gz too))`},
		{"required but empty", minimal + "  phases:\n    - until: 1\n      weights:\n",
			`exp.yaml:8: corpus.phases[0]: required key "weights" is missing (share of tokens by source or task name; need not add up to 1)`},

		{"word for a count", minimal + "seed: abc\n", `exp.yaml:7: seed: want a whole number such as 4096, 16k, 259M or 1e6, got "abc"`},
		{"boolean for a count", minimal + "seed: on\n", `exp.yaml:7: seed: want a whole number such as 4096, 16k, 259M or 1e6, got "on"`},
		{"octal", minimal + "seed: 010\n", `exp.yaml:7: seed: want a whole number such as 4096, 16k, 259M or 1e6, got "010"`},
		{"fraction", minimal + "seed: 1.5\n", `exp.yaml:7: seed: "1.5" is not a whole number`},
		{"list for a count", minimal + "seed: [1]\n", "exp.yaml:7: seed: want one value, got a list"},
		{"mapping for text", minimal + "notes: {a: b}\n", "exp.yaml:7: notes: want one value, got keys and values"},
		{"no value", minimal + "seed:\n", "exp.yaml:7: seed: no value; leave the key out to get its default"},
		{"text for a list", minimal + "tags: a\n", `exp.yaml:7: tags: want a list, got "a"`},
		{"text for a section", minimal + "train: fast\n", `exp.yaml:7: train: want keys and values, got "fast"`},
		{"list for weights", minimal + "  phases: [{until: 1, weights: [1]}]\n", "exp.yaml:7: corpus.phases[0].weights: want names and numbers, got a list"},
		{"infinite", minimal + "train: {optimizer: {lr: .inf}}\n", `exp.yaml:7: train.optimizer.lr: want a number such as 0.5, 1e-3 or 5%, got ".inf"`},
		{"budget", strings.Replace(minimal, "1M", "2d", 1), `exp.yaml:2: budget: want tokens such as 259M or 4.91B, or a time such as 90s, 9h or 1h30m, got "2d"`},
		{"size", minimal + "      max_bytes: 8M\n", `exp.yaml:7: corpus.sources[0].max_bytes: want a size such as 4096, 8MB or 100MiB, got "8M"`},

		{"below", minimal + "seed: -1\n", "exp.yaml:7: seed: -1 is outside [0,9e15]"},
		{"at an open end", minimal + "train: {optimizer: {lr: 0}}\n", "exp.yaml:7: train.optimizer.lr: 0 is outside (0,1]"},
		{"above", minimal + "train: {optimizer: {lr: 200%}}\n", "exp.yaml:7: train.optimizer.lr: 200% is outside (0,1]"},
		{"at the upper open end", minimal + "train: {optimizer: {beta1: 1}}\n", "exp.yaml:7: train.optimizer.beta1: 1 is outside [0,1)"},
		{"enumeration", minimal + "model: {activation: relu}\n", `exp.yaml:7: model.activation: unknown value "relu"; did you mean "relu2"? valid values: relu2, silu`},
		{"enumeration in a list", minimal + "model:\n  layers:\n    - lin\n    - gru\n", `exp.yaml:10: model.layers[1]: unknown value "gru"; valid values: swa, lin`},

		{"all at once", "name: a\nbudget: 1M\nsede: 1\ncorpus:\n  sources:\n    - {name: go, kind: gotre}\ntrain: {loss: {power: 3}}\n",
			`exp.yaml:3: unknown key "sede" at the top level; did you mean "seed"? valid keys: name, notes, tags, base, seed, budget, corpus, model, grow, train, probes` + "\n" +
				`exp.yaml:6: corpus.sources[0].kind: unknown value "gotre"; did you mean "gotree"? valid values: gotree, tree, text, jsonl` + "\n" +
				"exp.yaml:7: train.loss.power: 3 is outside [0,2]"},
	} {
		expectProblems(t, c.name, c.text, nil, c.want)
	}
}

func TestContradictionsInASpec(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"blank name", strings.Replace(minimal, "name: a", "name: ' '", 1), "exp.yaml:1: name: want one line of 1 to 100 bytes"},
		{"step", minimal + "train:\n  sequence: 512\n  step_tokens: 1000\n", "exp.yaml:9: train.step_tokens: step_tokens 1000 is not a multiple of sequence 512"},
		{"step by default", minimal + "train:\n  sequence: 1000\n", "exp.yaml:8: train.sequence: step_tokens 4096 is not a multiple of sequence 1000"},
		{"step, one bad", minimal + "train:\n  sequence: 1\n", "exp.yaml:8: train.sequence: 1 is outside [8,1000000]"},
		{"budget below a step", strings.Replace(minimal, "1M", "4095", 1), "exp.yaml:2: budget: a budget of 4095 tokens is less than one step of 4096"},
		{"no layers", minimal + "model:\n  layers: []\n", "exp.yaml:8: model.layers: want 1 to 256 layers, got 0"},
		{"odd head", minimal + "model:\n  head_width: 33\n", "exp.yaml:8: model.head_width: 33 is odd, rotary positions turn pairs"},
		{"no sources", "name: a\nbudget: 1M\ncorpus:\n  sources: []\n", "exp.yaml:4: corpus.sources: want at least one source of text"},
		{"no corpus", "name: a\nbudget: 1M\n", "exp.yaml:1: corpus.sources: want at least one source of text"},
		{"source without a path", minimal + "    - {name: b, kind: text}\n", "exp.yaml:7: corpus.sources[1]: a source of kind text needs a path"},
		{"gotree with a path", minimal + "      path: /usr\n", "exp.yaml:7: corpus.sources[0].path: a source of kind gotree finds its own path"},
		{"globs of a text", minimal + "    - {name: b, kind: text, path: x,\n       include: ['*']}\n", "exp.yaml:8: corpus.sources[1].include: a source of kind text has no globs"},
		{"bad glob", minimal + "      exclude: ['*.go', '[']\n", `exp.yaml:7: corpus.sources[0].exclude[1]: "[" is not a glob`},
		{"two sources of one name", minimal + "    - {name: go, kind: gotree}\n", `exp.yaml:7: corpus.sources[1].name: "go" is already the name of corpus.sources[0]`},
		{"task named as a source", minimal + "  tasks: [{name: go, kind: copy}]\n", `exp.yaml:7: corpus.tasks[0].name: "go" is already the name of corpus.sources[0]`},
		{"name with a path in it", minimal + "  tasks: [{name: ../x, kind: copy}]\n", `exp.yaml:7: corpus.tasks[0].name: "../x" is not a name: letters, digits, - and _`},
		{"no name", minimal + "  tasks: [{name: '', kind: copy}]\n", `exp.yaml:7: corpus.tasks[0].name: "" is not a name: letters, digits, - and _`},
		{"task range", minimal + "  tasks: [{name: c, kind: copy, min: 9, max: 8}]\n", "exp.yaml:7: corpus.tasks[0].min: 9 is more than max, which is 8"},
		{"phases not ascending", minimal + "  phases:\n    - {until: 50%, weights: {go: 1}}\n    - {until: 50%, weights: {go: 1}}\n    - {until: 1, weights: {go: 1}}\n",
			"exp.yaml:9: corpus.phases[1].until: 0.5 is not after the phase before, which ends at 0.5"},
		{"phases end early", minimal + "  phases:\n    - {until: 90%, weights: {go: 1}}\n", "exp.yaml:8: corpus.phases[0].until: the last phase must end at 100%, not 0.9"},
		{"weight of nothing", minimal + "  phases:\n    - {until: 1, weights: {go: 1, goo: 1}}\n", `exp.yaml:8: corpus.phases[0].weights.goo: no source or task is named "goo"; did you mean "go"? names: go`},
		{"negative weight", minimal + "  phases:\n    - {until: 1, weights: {go: -1}}\n", "exp.yaml:8: corpus.phases[0].weights.go: a weight of -1 is negative"},
		{"no weight", minimal + "  phases:\n    - {until: 1, weights: {go: 0}}\n", "exp.yaml:8: corpus.phases[0].weights: the weights add up to 0, want more"},
	} {
		expectProblems(t, c.name, c.text, nil, c.want)
	}
}

func expectProblems(t *testing.T, name, text string, overrides []string, want string) {
	t.Helper()
	spec, err := Parse("exp.yaml", []byte(text), overrides)
	var problems Problems
	if spec != nil || !errors.As(err, &problems) {
		t.Errorf("%s: got %+v, %v, want problems", name, spec, err)
		return
	}
	if got := err.Error(); got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
	}
	if lines := strings.Count(err.Error(), "\n") + 1; lines != len(problems) {
		t.Errorf("%s: %d problems in %d lines", name, len(problems), lines)
	}
}

// A key that is missing from a section that is missing is missed where the sections
// around it begin.
func TestRequiredInAnAbsentSection(t *testing.T) {
	type inner struct {
		Need int `yaml:"need" required:"true" doc:"d"`
	}
	type outer struct {
		A struct {
			B inner `yaml:"b"`
		} `yaml:"a"`
	}
	for origin, want := range map[string]string{
		"":    `f:4: a.b: required key "need" is missing (d)`,
		"a=b": `override "a=b": a.b: required key "need" is missing (d)`,
	} {
		d := newDecoder("f")
		root := &yaml.Node{Kind: yaml.MappingNode, Line: 4}
		if origin != "" {
			d.origin[root] = origin
		}
		d.decode(root, reflect.ValueOf(&outer{}).Elem(), field{}, "")
		if got := d.problems.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// An alias bomb must cost nothing: it is refused before anything is expanded.
func TestBombsAreBounded(t *testing.T) {
	bomb := "a0: &a0 [x]\n"
	for i := range 30 {
		a, b := string(rune('a'+i%26))+strings.Repeat("x", i), "l"+strings.Repeat("y", i)
		bomb += b + ": &" + b + " [*a0, *a0]\n" + a + ": 1\n"
	}
	if _, err := Parse("exp.yaml", []byte(bomb), nil); err == nil || !strings.Contains(err.Error(), "anchors") {
		t.Errorf("aliases: %v", err)
	}
	if _, err := Parse("exp.yaml", make([]byte, maxSpec+1), nil); err == nil || err.Error() != "exp.yaml: a spec of 1048577 bytes is too large, the limit is 1048576" {
		t.Errorf("size: %v", err)
	}
	if _, err := Parse("exp.yaml", []byte(strings.Repeat("[", 20000)), nil); err == nil {
		t.Error("depth was accepted")
	}
	_, err := Parse("exp.yaml", []byte(strings.Repeat("seed: 1\n", 301)), nil)
	if err == nil || !strings.HasSuffix(err.Error(), "\nexp.yaml: and 102 more problems") {
		t.Errorf("301 times a key: %v", err)
	}
	long := strings.Repeat("k", 100000)
	if _, err := Parse("exp.yaml", []byte(long+": 1\n"), nil); err == nil || len(err.Error()) > 2000 {
		t.Errorf("a long key gives a message of %d bytes", len(err.Error()))
	}
}
