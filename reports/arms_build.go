package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"gopkg.in/yaml.v3"
)

func newArmsPage(loaded []ArmRun, leftOut []LeftOut, sel Selection) (ArmsPage, error) {
	page := ArmsPage{Title: sel.title(), Baseline: sel.Baseline, LeftOut: leftOut}
	for _, r := range loaded {
		i := slices.IndexFunc(page.Arms, func(a Arm) bool { return a.Name == r.Name })
		if i < 0 {
			i = len(page.Arms)
			page.Arms = append(page.Arms, Arm{Name: r.Name})
		}
		page.Arms[i].Runs = append(page.Arms[i].Runs, r)
	}
	if sel.Baseline != "" && page.baseline() == nil {
		var names []string
		for _, a := range page.Arms {
			names = append(names, a.Name)
		}
		slices.SortFunc(names, compareNames)
		return ArmsPage{}, fmt.Errorf("%w: no finished run among the chosen ones is named %q; there are %s", ErrNoBaseline, sel.Baseline, listOf(names, 10))
	}
	for i := range page.Arms {
		a := &page.Arms[i]
		slices.SortStableFunc(a.Runs, func(x, y ArmRun) int { return cmp.Compare(x.Seed, y.Seed) })
		var losses []float64
		for _, r := range a.Runs {
			losses = append(losses, r.Loss.Value)
		}
		a.Loss = estimate(losses)
	}
	slices.SortStableFunc(page.Arms, func(a, b Arm) int {
		return cmp.Or(cmp.Compare(page.place(a), page.place(b)), cmp.Compare(a.Loss.Mean, b.Loss.Mean), compareNames(a.Name, b.Name))
	})
	slices.SortStableFunc(page.LeftOut, func(a, b LeftOut) int {
		return cmp.Or(compareNames(a.Arm, b.Arm), cmp.Compare(a.Seed, b.Seed), strings.Compare(a.ID, b.ID))
	})
	page.compare()
	page.Tasks = tasksOf(page.Arms)
	for i := range page.Arms {
		for _, task := range page.Tasks {
			page.Arms[i].Scores = append(page.Arms[i].Scores, page.Arms[i].scoreOf(task))
		}
	}
	for i := range page.Tasks {
		page.Tasks[i].Chance = page.chanceOf(i)
	}
	page.Notes = page.notes()
	return page, nil
}

// place is that of an arm: the baseline goes first.
func (page ArmsPage) place(a Arm) int {
	if a.Name == page.Baseline {
		return 0
	}
	return 1
}

// title names what was chosen.
func (sel Selection) title() string {
	var parts []string
	if len(sel.Runs) > 0 {
		parts = append(parts, listOf(sel.Runs, 4))
	}
	chosen := ""
	if sel.Tag != "" {
		chosen = "tag " + sel.Tag
	}
	if sel.Prefix != "" {
		chosen = strings.TrimSpace(chosen + " names " + sel.Prefix + "…")
	}
	if chosen != "" {
		parts = append(parts, chosen)
	}
	return "Arms: " + strings.Join(parts, "; ")
}

// baseline is the arm that the others are compared with, nil if there is none.
func (page ArmsPage) baseline() *Arm {
	i := slices.IndexFunc(page.Arms, func(a Arm) bool { return a.Name == page.Baseline })
	if page.Baseline == "" || i < 0 {
		return nil
	}
	return &page.Arms[i]
}

// compare sets every other arm against the baseline.
func (page *ArmsPage) compare() {
	baseline := page.baseline()
	if baseline == nil {
		return
	}
	for i := range page.Arms {
		if a := &page.Arms[i]; a.Name != page.Baseline {
			a.Difference = paired(*a, *baseline)
		}
	}
}

// tasksOf lists what the arms were probed for, in the order of their first scores.
func tasksOf(arms []Arm) []Task {
	var tasks []Task
	for _, a := range arms {
		for _, r := range a.Runs {
			questions := taskQuestions(r.Spec)
			for _, s := range r.Scores {
				i := slices.IndexFunc(tasks, func(t Task) bool { return t.Name == s.Name })
				if i < 0 {
					tasks = append(tasks, Task{Name: s.Name, Asks: questions[s.Name], N: s.N})
					continue
				}
				t := &tasks[i]
				if asks := questions[s.Name]; asks != t.Asks {
					t.Asks = "" // the arms do not ask the same
				}
				if s.N != t.N {
					t.N = 0
				}
			}
		}
	}
	return tasks
}

// chanceOf is the level of guessing that the arms' scores of a task have in common, as
// it is printed: it varies with the prompts, and those with the seed. NaN if none.
func (page ArmsPage) chanceOf(task int) float64 {
	common, shown := math.NaN(), ""
	for _, a := range page.Arms {
		s := a.Scores[task]
		switch {
		case math.IsNaN(s.Value):
		case shown == "":
			common, shown = s.Chance, s.Guessing()
		case shown != s.Guessing():
			return math.NaN()
		}
	}
	return common
}

// notes say what keeps the arms from being compared plainly.
func (page ArmsPage) notes() []string {
	var notes []string
	add := func(note string) {
		if note != "" {
			notes = append(notes, note)
		}
	}
	add(page.differ("Corpora or tokenizers differ, and losses over them cannot be compared", func(r ArmRun) string { return short(r.Corpus()) }))
	add(page.differ("Budgets differ", func(r ArmRun) string { return humanize.Comma(r.Tokens) + " tokens" }))
	add(page.differ("Kernel sets differ, which changes the bits of a training", ArmRun.Kernels))
	add(page.differ("Versions of the code differ", func(r ArmRun) string {
		version := short(r.Provenance["code_version"])
		if r.Provenance["code_dirty"] == "true" {
			version += " dirty"
		}
		return version
	}))
	for _, a := range page.Arms {
		if keys := mixedSpecs(a); len(keys) > 0 {
			notes = append(notes, fmt.Sprintf("The runs of %s have different specs, besides the seed: %s.", a.Name, listOf(keys, 6)))
		}
		if slices.ContainsFunc(a.Runs, func(r ArmRun) bool { return r.Grown }) {
			notes = append(notes, fmt.Sprintf("The mixtures of %s grew: its stored parameters are those of the start.", a.Name))
		}
		for _, r := range a.Runs {
			if r.Loss.Step < r.Step {
				notes = append(notes, fmt.Sprintf("The last validation of %s, seed %d, is of step %s, before its end at %s.", a.Name, r.Seed, humanize.Comma(r.Loss.Step), humanize.Comma(r.Step)))
			}
		}
	}
	for _, a := range page.Arms {
		if _, shared := a.speed(); shared {
			add("†: runs of the arm shared their machine with other runs of the store; such speeds and times cannot be compared.")
			break
		}
	}
	add(page.differ("Speeds and times are of different CPUs", func(r ArmRun) string { return r.Provenance["cpu"] }))
	if n := page.compared(); n >= 3 {
		notes = append(notes, fmt.Sprintf("Every interval is a 95%% one by itself: of %d differences that are none, one in twenty would still be called better or worse.", n))
	}
	return notes
}

// compared is how many arms are compared with the baseline by an interval.
func (page ArmsPage) compared() (n int) {
	for _, a := range page.Arms {
		if a.Difference.N > 1 {
			n++
		}
	}
	return n
}

// Corpus is the hash of what a run was trained and validated on, as its tokenizer has it.
func (r ArmRun) Corpus() string { return r.Provenance[corpusHash] }

// Kernels are the kernel sets of a run's attempts.
func (r ArmRun) Kernels() string {
	var sets []string
	for _, a := range r.Attempts {
		if a.Kernels != "" && !slices.Contains(sets, a.Kernels) {
			sets = append(sets, a.Kernels)
		}
	}
	return cmp.Or(strings.Join(sets, "+"), r.Provenance[kernelSet])
}

// differ says which arms have which value, "" if all runs have the same.
func (page ArmsPage) differ(what string, of func(ArmRun) string) string {
	var values []string
	arms := map[string][]string{}
	for _, a := range page.Arms {
		for _, r := range a.Runs {
			v := cmp.Or(of(r), "unknown")
			if !slices.Contains(values, v) {
				values = append(values, v)
			}
			if !slices.Contains(arms[v], a.Name) {
				arms[v] = append(arms[v], a.Name)
			}
		}
	}
	if len(values) < 2 {
		return ""
	}
	var parts []string
	for _, v := range values {
		parts = append(parts, fmt.Sprintf("%s (%s)", v, listOf(arms[v], 6)))
	}
	return what + ": " + listOf(parts, 6) + "."
}

// short is the beginning of a hash.
func short(hash string) string { return hash[:min(len(hash), 12)] }

// mixedSpecs lists the keys in which the specs of an arm's runs differ, but for the seed.
func mixedSpecs(a Arm) []string {
	var first map[string]string
	differing := map[string]bool{}
	for _, r := range a.Runs {
		var root yaml.Node
		if err := yaml.Unmarshal([]byte(r.Spec), &root); err != nil {
			continue // the page of the run shows it as it is
		}
		values := map[string]string{}
		flatten(&root, "", values)
		for key := range values {
			if top, _, _ := strings.Cut(key, "["); top == "seed" || top == "notes" || top == "tags" {
				delete(values, key) // no part of what is trained
			}
		}
		if first == nil {
			first = values
			continue
		}
		for _, pair := range [][2]map[string]string{{first, values}, {values, first}} {
			for key, v := range pair[0] {
				if other, is := pair[1][key]; !is || other != v {
					differing[key] = true
				}
			}
		}
	}
	return sortedNames(differing)
}

// flatten spells a spec out as paths and values; what a sequence holds goes by its place.
func flatten(n *yaml.Node, path string, into map[string]string) {
	switch n.Kind {
	case yaml.DocumentNode:
		for _, c := range n.Content {
			flatten(c, path, into)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			flatten(n.Content[i+1], strings.TrimPrefix(path+"."+n.Content[i].Value, "."), into)
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			flatten(c, fmt.Sprintf("%s[%d]", path, i), into)
		}
	default:
		into[path] = n.Value
	}
}

func sortedNames(set map[string]bool) []string {
	var names []string
	for name := range set {
		names = append(names, name)
	}
	slices.SortFunc(names, compareNames)
	return names
}
