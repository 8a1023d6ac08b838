package experiments

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"unicode/utf8"

	"harness/corpus"
	"harness/nn"
	"harness/nn/optim"
	"harness/probes"
)

// Spec is one experiment, resolved: what a YAML file and its overrides say, with
// every default filled in. Packages own their Config; Spec composes them. Paths in a
// Spec (sources, tokenizer file) are absolute.
type Spec struct {
	Name   string        `yaml:"name" required:"true" doc:"short name of the run"`
	Notes  string        `yaml:"notes" doc:"what the run is for"`
	Tags   []string      `yaml:"tags" doc:"labels to find the run by"`
	Base   string        `yaml:"base" doc:"directory that relative paths count from; the spec file's own if left out, as it should be"`
	Seed   int64         `yaml:"seed" default:"1" range:"[0,9e15]" doc:"seed of initialisation, batches and probes"`
	Budget Budget        `yaml:"budget" required:"true" doc:"how long to train: tokens (259M, 4.91B) or wall clock (90s, 9h)"`
	Corpus corpus.Config `yaml:"corpus" doc:"which text and tasks become batches"`
	Model  nn.Config     `yaml:"model" doc:"the shape of the model"`
	Grow   []nn.Growth   `yaml:"grow" doc:"when the mixtures of experts get more experts, and how"`
	Train  Train         `yaml:"train" doc:"how the model is trained"`
	Probes probes.Config `yaml:"probes" doc:"what is asked of a checkpoint, and when"`

	// written maps absolute paths to how the spec spells them, so that the resolved
	// YAML and the hash do not depend on where a repository lies.
	written map[string]string
}

// Train is how the model is trained.
type Train struct {
	Sequence   int           `yaml:"sequence" default:"1024" range:"[8,1000000]" doc:"tokens of one packed window"`
	StepTokens int           `yaml:"step_tokens" default:"4096" range:"[8,100000000]" doc:"tokens of one optimizer step, a multiple of sequence"`
	Kernels    string        `yaml:"kernels" default:"auto" doc:"kernel set, or auto for the fastest here"`
	Loss       nn.LossConfig `yaml:"loss" doc:"the training loss"`
	Optimizer  optim.Config  `yaml:"optimizer" doc:"AdamW, its schedule and the clip"`

	ValidateEvery    float64 `yaml:"validate_every" default:"0.05" range:"(0,1]" doc:"share of the budget between two validations"`
	ValidationTokens int     `yaml:"validation_tokens" default:"65536" range:"[1,1e9]" doc:"validation tokens per validation"`
	CheckpointEvery  float64 `yaml:"checkpoint_every" default:"0.1" range:"(0,1]" doc:"share of the budget between two checkpoints"`
	KeepCheckpoints  int     `yaml:"keep_checkpoints" default:"3" range:"[1,1000]" doc:"how many checkpoints stay on disk"`
}

// Load reads the spec file at path and applies overrides ("train.optimizer.lr=1e-3",
// "corpus.sources[0].max_bytes=1MB", "corpus.tasks.shift.max=12") in order. Errors
// about the contents are Problems, all of them at once.
func Load(path string, overrides []string) (*Spec, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load spec: %w", err)
	}
	return Parse(path, text, overrides)
}

// Parse is Load for a text in hand. The name file goes into messages; relative paths
// count from its directory unless the text says otherwise by base, as every resolved
// spec does.
func Parse(file string, text []byte, overrides []string) (*Spec, error) {
	d := newDecoder(file)
	spec := &Spec{}
	if root := d.parseYAML(text); root != nil {
		for _, o := range overrides {
			d.override(root, o)
		}
		d.decode(root, reflect.ValueOf(spec).Elem(), field{}, "")
		d.resolvePaths(spec)
		d.check(spec)
	}
	if len(d.problems) > 0 {
		d.problems.sort()
		if d.unsaid > 0 {
			d.problems = append(d.problems, Problem{File: file, Text: fmt.Sprintf("and %d more problems", d.unsaid)})
		}
		return nil, d.problems
	}
	return spec, nil
}

// resolvePaths makes the spec's paths absolute: a resumed run starts anywhere.
func (d *decoder) resolvePaths(s *Spec) {
	base, err := filepath.Abs(filepath.Dir(d.file))
	if err != nil {
		d.problem(d.at[""], "base", "base: %v", err)
		return
	}
	if filepath.IsAbs(s.Base) {
		base = filepath.Clean(s.Base)
	} else {
		base = filepath.Join(base, s.Base)
	}
	if !utf8.ValidString(base) {
		d.problem(d.at[""], "base", "the directory %q is not valid UTF-8", base)
		return
	}
	s.Base = base
	for _, path := range s.paths() {
		if *path == "" {
			continue
		}
		as := filepath.ToSlash(filepath.Clean(*path))
		if !filepath.IsAbs(*path) {
			*path = filepath.Join(base, *path)
		} else {
			*path = filepath.Clean(*path)
		}
		if s.written == nil {
			s.written = map[string]string{}
		}
		s.written[*path] = as
	}
}

// paths points at every field that names a file.
func (s *Spec) paths() []*string {
	list := []*string{&s.Corpus.Tokenizer.File}
	for i := range s.Corpus.Sources {
		list = append(list, &s.Corpus.Sources[i].Path)
	}
	return list
}
