package experiments

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"harness/corpus"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/dustin/go-humanize"
	"gopkg.in/yaml.v3"
)

// Limits of what is named or listed by hand.
const (
	maxName   = 100
	maxLayers = 256
)

// fail reports a problem of the value at a key path, at the line of that value or of
// the nearest thing around it that the file does have.
func (d *decoder) fail(path, format string, args ...any) {
	d.problem(d.nearest(path), path, "%s%s", label(path), fmt.Sprintf(format, args...))
}

func (d *decoder) nearest(path string) *yaml.Node {
	for {
		if n := d.at[path]; n != nil {
			return n
		}
		if path == "" {
			return &yaml.Node{}
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// sound reports whether the values at paths were read without a problem: a check of
// several values together says nothing new where one of them is already wrong.
func (d *decoder) sound(paths ...string) bool {
	for _, path := range paths {
		for bad := range d.bad {
			if bad == "" || bad == path || within(bad, path) || within(path, bad) {
				return false
			}
		}
	}
	return true
}

// within reports whether path lies under parent.
func within(path, parent string) bool {
	rest, ok := strings.CutPrefix(path, parent)
	return ok && rest != "" && (rest[0] == '.' || rest[0] == '[')
}

// culprit is the one of several paths to report a contradiction at: what an override
// said, or else the first that the file does say.
func (d *decoder) culprit(paths ...string) string {
	for _, path := range paths {
		if d.origin[d.at[path]] != "" {
			return path
		}
	}
	for _, path := range paths {
		if !d.implied[d.at[path]] {
			return path
		}
	}
	return paths[0]
}

// check finds what no single value shows.
func (d *decoder) check(s *Spec) {
	if d.full() {
		return
	}
	if d.sound("name") && (strings.TrimSpace(s.Name) == "" || len(s.Name) > maxName || strings.ContainsFunc(s.Name, unicode.IsControl)) {
		d.fail("name", "want one line of 1 to %d bytes", maxName)
	}
	if d.sound("name") && s.Name == "latest" {
		d.fail("name", "\"latest\" always means the newest run")
	}
	d.checkTrain(s)
	d.checkModel(s)
	d.checkMoE(s)
	d.checkSources(s.Corpus)
	d.checkTasks(s.Corpus)
	d.checkNames(s.Corpus)
	d.checkPhases(s.Corpus)
}

func (d *decoder) checkTrain(s *Spec) {
	const sequence, step = "train.sequence", "train.step_tokens"
	if d.sound(sequence, step) && s.Train.StepTokens%s.Train.Sequence != 0 {
		d.fail(d.culprit(step, sequence), "step_tokens %d is not a multiple of sequence %d", s.Train.StepTokens, s.Train.Sequence)
	}
	// The decay clock sums log(1 - lr*decay): a step that decays everything away has none.
	for _, key := range []string{"weight_decay", "norm_decay"} {
		const rate = "train.optimizer.lr"
		path, decay := "train.optimizer."+key, s.Train.Optimizer.WeightDecay
		if key == "norm_decay" {
			decay = s.Train.Optimizer.NormDecay
		}
		if d.sound(rate, path) && s.Train.Optimizer.LR*decay >= 1 {
			d.fail(d.culprit(path, rate), "lr %s times %s %s is a decay of all there is in one step, want less than 1",
				formatRatio(s.Train.Optimizer.LR), key, formatRatio(decay))
		}
	}
	if d.sound("budget", step) && s.Budget.Tokens > 0 && s.Budget.Tokens < int64(s.Train.StepTokens) {
		d.fail(d.culprit("budget", step), "a budget of %s tokens is less than one step of %d", s.Budget, s.Train.StepTokens)
	}
}

func (d *decoder) checkModel(s *Spec) {
	const layers, width = "model.layers", "model.head_width"
	if d.sound(layers) && (len(s.Model.Layers) == 0 || len(s.Model.Layers) > maxLayers) {
		d.fail(layers, "want 1 to %d layers, got %d", maxLayers, len(s.Model.Layers))
	}
	if d.sound(width) && s.Model.HeadWidth%2 != 0 {
		d.fail(width, "%d is odd, rotary positions turn pairs", s.Model.HeadWidth)
	}
	d.checkSize(s)
}

// maxParameters keeps what a run holds in memory, 12 bytes a parameter, below what any
// machine of this kind has: a slip of the pen must not end in a crash.
const maxParameters = 4e9

// checkSize refuses models that are no small ones, by their largest parts.
func (d *decoder) checkSize(s *Spec) {
	const model, vocab, grow = "model", "corpus.tokenizer.vocab", "grow"
	if !d.sound(model, vocab, grow) {
		return
	}
	if size := s.parameters(); size > maxParameters {
		d.fail(model, "%s parameters or more: want at most %s: lower d_model, d_ff, moe.experts or moe.d_ff", humanize.Comma(int64(size)), humanize.Comma(maxParameters))
	}
}

// parameters is about how many the model stores after all growth: those of its largest
// parts, before any is allocated.
func (s *Spec) parameters() float64 {
	m := s.Model
	experts := m.MoE.Experts
	for _, g := range s.Grow {
		experts = max(experts, g.Experts)
	}
	width := float64(m.DFF*(len(m.Layers)-len(m.MoE.Layers)) + (experts*m.MoE.DFF+m.MoE.SharedWidth())*len(m.MoE.Layers))
	return float64(m.DModel) * (3*width + float64(s.Corpus.Tokenizer.Vocab))
}

func (d *decoder) checkSources(c corpus.Config) {
	if d.sound("corpus.sources") && len(c.Sources) == 0 {
		d.fail("corpus.sources", "want at least one source of text")
	}
	for i, source := range c.Sources {
		path := fmt.Sprintf("corpus.sources[%d]", i)
		if !d.sound(path) {
			continue
		}
		isTree := source.Kind == corpus.Tree || source.Kind == corpus.GoTree
		if source.Kind != corpus.GoTree && source.Path == "" {
			d.fail(path, "a source of kind %s needs a path", source.Kind)
		}
		if source.Kind == corpus.GoTree && source.Path != "" {
			d.fail(path+".path", "a source of kind gotree finds its own path")
		}
		if source.Kind != corpus.Text && source.Separator != "" {
			d.fail(path+".separator", "a source of kind %s is not cut into documents", source.Kind)
		}
		for _, key := range []string{"include", "exclude"} {
			globs := source.Include
			if key == "exclude" {
				globs = source.Exclude
			}
			if !isTree && len(globs) > 0 {
				d.fail(join(path, key), "a source of kind %s has no globs", source.Kind)
			}
			for j, glob := range globs {
				if !doublestar.ValidatePattern(glob) {
					d.fail(fmt.Sprintf("%s.%s[%d]", path, key, j), "%q is not a glob", glob)
				}
			}
		}
	}
}

func (d *decoder) checkTasks(c corpus.Config) {
	for i, task := range c.Tasks {
		path := fmt.Sprintf("corpus.tasks[%d]", i)
		if !d.sound(path) {
			continue
		}
		if task.Max > 0 && task.Min > task.Max {
			d.fail(path+".min", "%d is more than max, which is %d", task.Min, task.Max)
		} else if err := task.Validate(); err != nil {
			d.fail(path, "%s", err)
		}
	}
}

// checkNames makes sure that a weight or an override means one thing.
func (d *decoder) checkNames(c corpus.Config) {
	first := map[string]string{}
	one := func(path, name string) {
		switch {
		case !d.sound(path):
		case !isName(name):
			d.fail(path, "%q is not a name: letters, digits, - and _", name)
		case first[name] != "":
			d.fail(path, "%q is already the name of %s", name, first[name])
		default:
			first[name] = strings.TrimSuffix(path, ".name")
		}
	}
	for i, source := range c.Sources {
		one(fmt.Sprintf("corpus.sources[%d].name", i), source.Name)
	}
	for i, task := range c.Tasks {
		one(fmt.Sprintf("corpus.tasks[%d].name", i), task.Name)
	}
}

func isName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_'
	})
}

func (d *decoder) checkPhases(c corpus.Config) {
	var known []string
	for _, source := range c.Sources {
		known = append(known, source.Name)
	}
	for _, task := range c.Tasks {
		known = append(known, task.Name)
	}
	for i, phase := range c.Phases {
		path := fmt.Sprintf("corpus.phases[%d]", i)
		until := path + ".until"
		if i > 0 && d.sound(until, fmt.Sprintf("corpus.phases[%d].until", i-1)) && phase.Until <= c.Phases[i-1].Until {
			d.fail(until, "%s is not after the phase before, which ends at %s", formatRatio(phase.Until), formatRatio(c.Phases[i-1].Until))
		}
		if last := i == len(c.Phases)-1; last && d.sound(until) && phase.Until != 1 {
			d.fail(until, "the last phase must end at 100%%, not %s", formatRatio(phase.Until))
		}
		d.checkWeights(path+".weights", phase.Weights, known)
	}
}

func (d *decoder) checkWeights(path string, weights map[string]float64, known []string) {
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		if d.full() {
			return
		}
		at := join(path, name)
		if !slices.Contains(known, name) && d.sound("corpus.sources", "corpus.tasks") {
			hint := didYouMean(name, known)
			if hint == "" {
				hint = ";"
			}
			d.fail(at, "no source or task is named %q%s names: %s", name, hint, strings.Join(known, ", "))
		}
		if weights[name] < 0 {
			d.fail(at, "a weight of %s is negative", formatRatio(weights[name]))
		}
		sum += weights[name]
	}
	if d.sound(path) && sum <= 0 {
		d.fail(path, "the weights add up to %s, want more", formatRatio(sum))
	}
}
