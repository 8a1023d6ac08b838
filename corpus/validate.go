package corpus

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Validate reports the first mistake that the configuration alone shows; no file
// is looked at. Defaults must have been filled in.
func (c Config) Validate() error {
	if len(c.Sources) == 0 {
		return fmt.Errorf("corpus.sources: at least one source of text is needed (tasks draw their words from it)")
	}
	names := c.names()
	if len(names) > 255 {
		return fmt.Errorf("corpus: %d sources and tasks, at most 255 are possible", len(names))
	}
	for i, name := range names {
		if name == "" {
			return fmt.Errorf("corpus: a source or task has no name")
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("corpus: two sources or tasks are named %q", name)
		}
	}
	if !(c.ValidationShare > 0 && c.ValidationShare <= 0.5) {
		return fmt.Errorf("corpus.validation_share: %v is not in (0,0.5]", c.ValidationShare)
	}
	if c.Tokenizer.File == "" && (c.Tokenizer.Vocab < firstMerge || c.Tokenizer.TrainBytes < 1) {
		return fmt.Errorf("corpus.tokenizer: vocab %d must be at least %d and train_bytes %d at least 1", c.Tokenizer.Vocab, firstMerge, c.Tokenizer.TrainBytes)
	}
	for _, s := range c.Sources {
		if err := s.validate(); err != nil {
			return fmt.Errorf("corpus.sources: %q: %w", s.Name, err)
		}
	}
	for _, t := range c.Tasks {
		if err := t.Validate(); err != nil {
			return fmt.Errorf("corpus.tasks: %q: %w", t.Name, err)
		}
	}
	return c.validatePhases(names)
}

// names lists sources, then tasks.
func (c Config) names() []string {
	var names []string
	for _, s := range c.Sources {
		names = append(names, s.Name)
	}
	for _, t := range c.Tasks {
		names = append(names, t.Name)
	}
	return names
}

func (s Source) validate() error {
	if !slices.Contains(s.Kind.Values(), string(s.Kind)) {
		return fmt.Errorf("kind %q is none of %s", s.Kind, strings.Join(s.Kind.Values(), ", "))
	}
	globs := append(slices.Clone(s.Include), s.Exclude...)
	switch {
	case s.Kind == GoTree && s.Path != "":
		return fmt.Errorf("path has no meaning for gotree, which finds the toolchain by itself")
	case s.Kind != GoTree && s.Path == "":
		return fmt.Errorf("path is missing")
	case (s.Kind == Text || s.Kind == JSONL) && len(globs) > 0:
		return fmt.Errorf("include and exclude have no meaning for %s; path may be a glob", s.Kind)
	case s.Kind != Text && s.Separator != "":
		return fmt.Errorf("separator has no meaning for %s", s.Kind)
	case s.Kind == JSONL && s.Field == "":
		return fmt.Errorf("field is missing")
	case s.MaxBytes < 0:
		return fmt.Errorf("max_bytes is negative")
	}
	for _, glob := range globs {
		if !doublestar.ValidatePattern(glob) {
			return fmt.Errorf("glob %q is malformed", glob)
		}
	}
	return nil
}

func (c Config) validatePhases(names []string) error {
	before := 0.0
	for i, p := range c.Phases {
		if !(p.Until > before && p.Until <= 1) {
			return fmt.Errorf("corpus.phases: phase %d ends at %v; ends must rise, up to 1", i+1, p.Until)
		}
		before = p.Until
		sum := 0.0
		for name, w := range p.Weights {
			if !slices.Contains(names, name) {
				return fmt.Errorf("corpus.phases: phase %d weighs %q, which is no source or task; valid names: %s", i+1, name, strings.Join(names, ", "))
			}
			if !(w >= 0) || math.IsInf(w, 0) {
				return fmt.Errorf("corpus.phases: phase %d gives %q the weight %v", i+1, name, w)
			}
			sum += w
		}
		if !(sum > 0) {
			return fmt.Errorf("corpus.phases: phase %d has no weight above 0", i+1)
		}
	}
	if len(c.Phases) > 0 && before != 1 {
		return fmt.Errorf("corpus.phases: the last phase ends at %v, must end at 1 (100%%)", before)
	}
	return nil
}
