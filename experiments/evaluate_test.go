package experiments

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"harness/corpus"
	"harness/runs"
)

// twoSources is tinySpec with a second source of text, made of a sixth of the first.
func twoSources(t *testing.T) string {
	t.Helper()
	path := tinySpec(t, "")
	text := filepath.Join(filepath.Dir(path), "text")
	names, err := os.ReadDir(text)
	if err != nil {
		t.Fatal(err)
	}
	verse := filepath.Join(filepath.Dir(path), "verse")
	if err := os.Mkdir(verse, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if i%6 == 0 {
			if err := os.Rename(filepath.Join(text, name.Name()), filepath.Join(verse, name.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	spec, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const words = "    - {name: words, kind: tree, path: text}\n"
	both := strings.Replace(string(spec), words, words+"    - {name: verse, kind: tree, path: verse}\n", 1)
	if err := os.WriteFile(path, []byte(both), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestValidationIsSharedAndSplitBySource(t *testing.T) {
	spec, dir := load(t, twoSources(t), "budget=2k"), t.TempDir()
	tr := openTrainer(t, spec, 16)
	e, err := newEvaluator(tr)
	if err != nil {
		t.Fatal(err)
	}
	// Tokens are shared by what the sources hold, and unigrams counted over all batches.
	held := map[string]float64{}
	for _, s := range tr.corpus.Manifest.Sources {
		held[s.Name] = float64(s.Validation.Tokens)
	}
	counts := tr.corpus.Counts()
	total := -1 - float64(counts[corpus.BOS])
	for _, n := range counts {
		total += float64(n) + 1
	}
	targets, batches, nats := map[string]float64{}, 0, 0.0
	for _, v := range e.validation {
		tokens := 0
		for _, b := range v.batches {
			batches++
			for i, id := range b.Targets {
				if b.Tokens[i] != corpus.PAD {
					tokens++
				}
				if id >= 0 {
					targets[v.name]++
					nats -= math.Log(float64(counts[id]+1) / total)
				}
			}
		}
		want := max(spec.Train.Sequence, int(held[v.name]/(held["words"]+held["verse"])*float64(spec.Train.ValidationTokens)))
		if tokens != want {
			t.Errorf("%s: %d validation tokens, want %d", v.name, tokens, want)
		}
	}
	all := targets["words"] + targets["verse"]
	if len(targets) != 2 || targets["words"] < 1.5*targets["verse"] || batches < 3 {
		t.Fatalf("targets %v in %d batches: the test shows nothing", targets, batches)
	}
	if want := nats / all; math.Abs(e.Unigram-want) > 1e-9 {
		t.Errorf("unigram %.9f, by hand over all batches %.9f", e.Unigram, want)
	}

	out := run(t, spec, dir)
	series := seriesOf(t, dir, out.Run.ID)
	whole, words, verse := series[validationLoss], series[validationLoss+"/words"], series[validationLoss+"/verse"]
	if len(whole) < 3 || len(words) != len(whole) || len(verse) != len(whole) {
		t.Fatalf("%d points of the whole, %d of words, %d of verse", len(whole), len(words), len(verse))
	}
	for i, p := range whole {
		want := (words[i].Value*targets["words"] + verse[i].Value*targets["verse"]) / all
		if math.Abs(p.Value-want) > 1e-9 {
			t.Errorf("step %d: %.9f, the sources' mean by token %.9f", p.Step, p.Value, want)
		}
		if words[i].Value == verse[i].Value {
			t.Errorf("step %d: both sources have the loss %g", p.Step, verse[i].Value)
		}
	}
}

// A sampled training loss, an exact one and a validation loss are three things: no
// name begins with another's, so that no page draws two of them as one.
func TestLossesShareNoName(t *testing.T) {
	names := []string{validationLoss}
	for _, kind := range []string{"sampled", "full"} {
		spec := load(t, tinySpec(t, ""), "train.loss.kind="+kind)
		names = append(names, (&attempt{workplace: &workplace{spec: spec}}).lossName())
	}
	if !slices.Equal(names, []string{"validation/loss", "train/sampled_loss", "train/loss"}) {
		t.Errorf("names %v", names)
	}
	for i, a := range names {
		for j, b := range names {
			if i != j && strings.HasPrefix(a, b) {
				t.Errorf("%s begins with %s", a, b)
			}
		}
	}
	spec, dir := load(t, twoSources(t), "budget=1k"), t.TempDir()
	out := run(t, spec, dir)
	for name := range seriesOf(t, dir, out.Run.ID) {
		under := 0
		for _, prefix := range names {
			if name == prefix || strings.HasPrefix(name, prefix+"/") {
				under++
			}
		}
		if strings.Contains(name, "loss") && under != 1 || strings.HasPrefix(name, "train/loss") {
			t.Errorf("a run with a sampled loss has the metric %s", name)
		}
	}
}

// A task is asked once it has been trained, not before.
func TestATaskIsProbedOnlyOnceItsPhaseHasBegun(t *testing.T) {
	spec, dir := load(t, tinySpec(t, ""), "budget=10k", "probes.every=20%",
		"corpus.phases=[{until: 50%, weights: {words: 1}}, {until: 100%, weights: {words: 1, shift: 1}}]"), t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	out, err := Run(ctx, spec, Options{Store: dir, Observe: func(u Update) {
		if u.Done == 36 { // phases meet after step 40 (of 79), probings are every 16
			cancel()
		}
	}})
	if err != nil || out.State != runs.Interrupted {
		t.Fatalf("%v, %v", out, err)
	}
	if len(out.Generations) == 0 {
		t.Fatal("not probed before the interrupt: the test shows nothing")
	}
	if len(out.Scores) != 0 || len(out.Samples) != 0 {
		t.Errorf("scores %v of a task whose phase has not begun", out.Scores)
	}
	if out, err = Resume(context.Background(), out.Run.ID, Options{Store: dir}); err != nil || len(out.Scores) != 1 || out.Scores[0].Task != "shift" {
		t.Fatalf("after both phases: %+v, %v", out, err)
	}
	s, err := runs.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	scores, err := s.Scores(context.Background(), out.Run.ID)
	if err != nil {
		t.Fatal(err)
	}
	var steps []int64
	for _, x := range scores {
		steps = append(steps, x.Step)
	}
	if !slices.Equal(steps, []int64{48, 64, 79}) {
		t.Errorf("scores at steps %v, want 48, 64, 79", steps)
	}
}

func TestPromptsAreTakenInTurn(t *testing.T) {
	a, b, c := []int32{1}, []int32{2}, []int32{3}
	for _, x := range []struct {
		sources [][][]int32
		n       int
		want    [][]int32
	}{
		{[][][]int32{{a, b}, {c}}, 3, [][]int32{a, c, b}},
		{[][][]int32{{}, {a, b, c}}, 2, [][]int32{a, b}},
		{[][][]int32{{a}, {}}, 4, [][]int32{a}},
		{[][][]int32{{a}}, 0, nil},
	} {
		if got := takeInTurn(x.sources, x.n); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%d of %v: %v, want %v", x.n, x.sources, got, x.want)
		}
	}
}
