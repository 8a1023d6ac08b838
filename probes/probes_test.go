package probes

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness/amx"
	"harness/corpus"
	"harness/nn"
)

// openCorpus makes a small corpus of invented words with every task.
func openCorpus(t *testing.T) *corpus.Corpus {
	t.Helper()
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 40 {
		var b strings.Builder
		for range 200 {
			fmt.Fprintf(&b, "%c%c%c%d ", 'a'+rng.IntN(26), 'a'+rng.IntN(26), 'a'+rng.IntN(26), rng.IntN(100))
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.txt", i)), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cfg := corpus.Config{Tokenizer: corpus.TokenizerConfig{Vocab: 320, TrainBytes: 1e6}, ValidationShare: 0.2,
		Sources: []corpus.Source{{Name: "words", Kind: corpus.Tree, Path: dir, Field: "text"}},
		Tasks: []corpus.Task{{Name: "induct", Kind: corpus.Induct, Queries: 1}, {Name: "shift", Kind: corpus.Shift},
			{Name: "copy", Kind: corpus.Copy}, {Name: "before", Kind: corpus.Before}, {Name: "add", Kind: corpus.Add}}}
	c, err := corpus.Open(context.Background(), cfg, "", t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func untrained(vocab int, seed uint64) *nn.Model {
	m := nn.New(nn.Config{DModel: 16, Layers: []nn.Mixer{nn.Lin, nn.SWA}, DFF: 16, Heads: 2, HeadWidth: 8, StateWidth: 8, Window: 16, RopeBase: 100}, vocab, amx.Reference())
	m.Init(rand.New(rand.NewPCG(seed, 2)))
	return m
}

// An untrained model guesses: its interval must not lie above chance. At 95% a
// fair guesser exceeds it in 2.5% of tests; the seeds are fixed.
func TestUntrainedModelsAreNotAboveChance(t *testing.T) {
	c := openCorpus(t)
	for seed := range uint64(2) {
		results, err := Tasks(context.Background(), untrained(c.Tokenizer.Vocab(), seed), c, c.Config.Tasks, 100, 1, 512)
		if err != nil {
			t.Fatal(err)
		}
		if len(results) != 5 {
			t.Fatalf("%d results", len(results))
		}
		for _, r := range results {
			if r.N != 100 || len(r.Samples) != samplesKept {
				t.Errorf("%s: n %d, %d samples", r.Task, r.N, len(r.Samples))
			}
			if r.Low > r.Chance {
				t.Errorf("%s, seed %d: %.2f [%.2f, %.2f] is above chance %.2f untrained", r.Task, seed, r.Accuracy(), r.Low, r.High, r.Chance)
			}
			// induct: 1 of 14 words; before: mean of 1/n over 2..14; shift: the mean over
			// asked words of 1 over those not yet said, H(14)/14; copy: the same over 6..12.
			want := map[string]float64{"induct": 1.0 / 14, "before": 0.173, "shift": 0.232, "copy": 0.323, "add": 0.0111}[r.Task]
			if math.Abs(r.Chance-want) > 0.06 {
				t.Errorf("%s: chance %.3f, want about %.3f", r.Task, r.Chance, want)
			}
		}
	}
}

// score must count a model that answers right. Readout rows are rigged so that
// one id always wins, and examples made whose answer is that id.
func TestScoreCountsRightAnswers(t *testing.T) {
	const winner = 7
	m := untrained(40, 3)
	for i := range m.FinalNorm.Data { // a constant hidden state of ones
		m.FinalNorm.Data[i] = 0
	}
	right := corpus.Example{Tokens: []int32{1, 5, 6, 0, winner}, Answer: 4, Chance: 0.25}
	wrong := corpus.Example{Tokens: []int32{1, 5, 6, 0, 9}, Answer: 4, Chance: 0.5}
	var examples []corpus.Example
	for range 30 {
		examples = append(examples, right, right, wrong)
	}
	// With a zero hidden state every logit is 0 and ties go to id 0: all wrong.
	a := nn.NewActivations(m, 64, false)
	task := corpus.Task{Name: "x", Kind: corpus.Before}
	if r := score(m, a, task, examples, 1, 64); r.Correct != 0 {
		t.Errorf("%d right of an indifferent model", r.Correct)
	}
	for i := range m.FinalNorm.Data {
		m.FinalNorm.Data[i] = 1
	}
	// Make the winner's row parallel to whatever hidden state arises: use the row
	// of the state itself, large.
	b := nn.Batch{Tokens: right.Tokens[:4], Targets: []int32{-1, -1, -1, winner}, Starts: []int32{0}}
	m.Forward(a, b)
	d := m.DModel
	for i := range d {
		m.Embedding.Data[winner*d+i] = 100 * a.Hidden[3*d+i]
	}
	r := score(m, a, task, examples, 1, 64)
	if r.Correct != 60 || math.Abs(r.Chance-(0.25*60+0.5*30)/90) > 1e-9 {
		t.Errorf("%d right of 60, chance %.4f", r.Correct, r.Chance)
	}
	if !r.Samples[0].Correct || r.Samples[0].Answer[0] != winner || len(r.Samples[0].Prompt) != 4 {
		t.Errorf("sample %+v", r.Samples[0])
	}
}

func TestWilson(t *testing.T) {
	// Reference values of the score interval without continuity correction.
	for _, x := range []struct {
		correct, n int
		low, high  float64
	}{{0, 10, 0, 0.2775}, {10, 10, 0.7225, 1}, {15, 30, 0.3315, 0.6685}, {250, 500, 0.4564, 0.5436}} {
		low, high := Wilson(x.correct, x.n)
		if math.Abs(low-x.low) > 1e-4 || math.Abs(high-x.high) > 1e-4 {
			t.Errorf("%d of %d: [%.4f, %.4f], want [%.4f, %.4f]", x.correct, x.n, low, high, x.low, x.high)
		}
	}
}

func TestGenerationsStandBesideTheScoreOfTheReference(t *testing.T) {
	m := untrained(40, 4)
	documents := [][]int32{{1, 5, 6, 7, 8, 9, 10, 11}, {1, 9, 9, 9, 2, 3, 4, 5}}
	got, err := Generations(context.Background(), m, documents, 3, 5, nil)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d generations, %v", len(got), err)
	}
	for i, g := range got {
		if len(g.Prompt) != 3 || len(g.Tokens) != 5 || len(g.Reference) != 5 {
			t.Errorf("lengths %d, %d, %d", len(g.Prompt), len(g.Tokens), len(g.Reference))
		}
		// The batched forward must give the same teacher-forced loss.
		a := nn.NewActivations(m, 8, false)
		b := nn.Batch{Tokens: documents[i], Targets: []int32{-1, -1, -1, -1, -1, -1, -1, -1}, Starts: []int32{0}}
		for j := 2; j < 7; j++ {
			b.Targets[j] = documents[i][j+1]
		}
		m.Forward(a, b)
		if want := m.Evaluate(a, b, nil).Mean(); math.Abs(g.ReferenceNats-want) > 1e-4 {
			t.Errorf("reference %.6f nats a token, batched %.6f", g.ReferenceNats, want)
		}
	}
}

// By hand: a final gain of zero makes every logit 0, so that id 0 is always written
// and every token costs ln V. Of the reference 0 9 0 5, half is the argmax; of five
// tokens generated, one is distinct.
func TestGenerationScoresByHand(t *testing.T) {
	const vocab = 40
	m := untrained(vocab, 5)
	clear(m.FinalNorm.Data)
	got, err := Generations(context.Background(), m, [][]int32{{1, 5, 6, 0, 9, 0, 5}}, 3, 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := got[0]
	if math.Abs(g.ReferenceTop1-0.5) > 1e-12 || math.Abs(g.Distinct-0.2) > 1e-12 || math.Abs(g.ReferenceNats-math.Log(vocab)) > 1e-9 {
		t.Errorf("top-1 %g, distinct %g, %g nats; by hand 0.5, 0.2, %g", g.ReferenceTop1, g.Distinct, g.ReferenceNats, math.Log(vocab))
	}
	// Where 0 stops, nothing is written, and nothing is distinct.
	if got, err = Generations(context.Background(), m, [][]int32{{1, 5, 6, 0}}, 3, 5, []int32{0}); err != nil || len(got[0].Tokens) != 0 || got[0].Distinct != 0 {
		t.Errorf("stopped at once: %+v, %v", got, err)
	}
}
