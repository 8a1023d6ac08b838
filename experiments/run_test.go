package experiments

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"harness/amx"
	"harness/nn/checkpoint"
	"harness/runs"
)

// tinySpec writes a corpus of invented sentences and a spec that trains on it in
// about a second, and returns the spec's path. Extra lines go into train.
func tinySpec(t testing.TB, train string) string {
	t.Helper()
	if !strings.Contains(train, "optimizer:") {
		train += "\n  optimizer: {lr: 1e-2, warmup_steps: 5}"
	}
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.Mkdir(text, 0o755); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	words := strings.Fields("the a small large core model token learns reads writes one two never often slowly under over machine window")
	for i := range 60 {
		var b strings.Builder
		for range 80 {
			b.WriteString(words[rng.IntN(len(words))])
			b.WriteByte(" \n"[rng.IntN(2)])
		}
		if err := os.WriteFile(filepath.Join(text, fmt.Sprintf("%d.txt", i)), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	spec := fmt.Sprintf(`name: tiny
budget: 20k
corpus:
  tokenizer: {vocab: 300}
  sources:
    - {name: words, kind: tree, path: text}
  tasks:
    - {name: shift, kind: shift, min: 3, max: 4}
  phases:
    - {until: 50%%, weights: {words: 2, shift: 1}}
    - {until: 100%%, weights: {words: 1, shift: 2}}
  validation_share: 0.2
model: {d_model: 16, layers: [lin, swa], d_ff: 24, heads: 2, head_width: 8, state_width: 8, window: 16}
train:
  sequence: 64
  step_tokens: 128
  validation_tokens: 512
  checkpoint_every: 10%%
  loss: {kind: sampled, negatives: 200}
%s
probes: {n: 20, generations: 1, prompt_tokens: 4, new_tokens: 4, every: 50%%}
`, train)
	path := filepath.Join(dir, "tiny.yaml")
	if err := os.WriteFile(path, []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t testing.TB, path string, overrides ...string) *Spec {
	t.Helper()
	spec, err := Load(path, overrides)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func run(t testing.TB, spec *Spec, store string) *Outcome {
	t.Helper()
	out, err := Run(context.Background(), spec, Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRunFillsTheStore(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	out := run(t, load(t, tinySpec(t, "")), dir)
	if out.State != runs.Finished || out.Tokens != 20_096 || out.Steps != 157 {
		t.Fatalf("state %s after %d tokens, %d steps: %s", out.State, out.Tokens, out.Steps, out.Message)
	}
	if !(out.Validation < out.Unigram) || out.Unigram < 1 {
		t.Errorf("validation %.3f, unigram %.3f: nothing was learned", out.Validation, out.Unigram)
	}
	s, err := runs.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	series, err := s.Series(ctx, out.Run.ID)
	if err != nil {
		t.Fatal(err)
	}
	points := map[string]int{}
	for _, x := range series {
		points[x.Name] = len(x.Points)
	}
	for name, want := range map[string]int{"train/sampled_loss": 157, "validation/loss": 21, "validation/bits_per_byte": 21, "learning_rate": 157, "throughput": 157, "probe/shift": 3} {
		if got := points[name]; got < want-1 || got > want+1 {
			t.Errorf("%s has %d points, want about %d (all: %v)", name, got, want, points)
		}
	}
	events, _ := s.Events(ctx, out.Run.ID)
	phases := map[int64]string{}
	for _, e := range events {
		if e.Kind == "phase" {
			phases[e.Step] = e.Text
		}
	}
	if len(phases) != 2 || !strings.HasPrefix(phases[0], "phase 1 of 2: shift 1, words 2") || !strings.HasPrefix(phases[79], "phase 2 of 2: shift 2, words 1") {
		t.Errorf("phases %v", phases)
	}
	if out.Epochs < 0.5 || out.Epochs > 5 || out.ValidatedAt != out.Steps {
		t.Errorf("%g epochs, validated at step %d", out.Epochs, out.ValidatedAt)
	}
	scores, _ := s.Scores(ctx, out.Run.ID)
	generations, _ := s.Generations(ctx, out.Run.ID)
	tables, _ := s.Tables(ctx, out.Run.ID)
	artifacts, _ := s.Artifacts(ctx, out.Run.ID)
	if len(scores) < 2 || len(generations) < 2 || len(tables) < 4 || len(artifacts) < 10 {
		t.Errorf("%d scores, %d generations, %d tables, %d artifacts", len(scores), len(generations), len(tables), len(artifacts))
	}
	if kept, _ := filepath.Glob(filepath.Join(checkpointDir(s, out.Run.ID), "*.safetensors")); len(kept) != 3 {
		t.Errorf("%d checkpoints kept, want 3: %v", len(kept), kept)
	}
	trained, err := LoadTrained(ctx, dir, out.Run.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	if trained.Step != 157 || trained.Checkpoint != out.Checkpoint {
		t.Errorf("trained model of step %d from %s", trained.Step, trained.Checkpoint)
	}
}

func TestSameSpecAndSeedGiveTheSameWeights(t *testing.T) {
	path := tinySpec(t, "")
	first := run(t, load(t, path), t.TempDir())
	second := run(t, load(t, path), t.TempDir())
	other := run(t, load(t, path, "seed=2"), t.TempDir())
	if first.Weights != second.Weights {
		t.Errorf("same spec, other weights: %s and %s", first.Weights, second.Weights)
	}
	if first.Weights == other.Weights {
		t.Error("another seed gave the same weights")
	}
	// Probes, validations and generations must not perturb training.
	quiet := run(t, load(t, path, "probes.every=100%", "train.validate_every=100%", "probes.n=1", "probes.generations=0"), t.TempDir())
	if quiet.Weights != first.Weights {
		t.Error("probing more often changed the trained weights")
	}
}

// poison makes one value of a checkpoint's tensor infinite.
func poison(t *testing.T, path, tensor string) {
	t.Helper()
	f, err := checkpoint.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []checkpoint.Tensor
	for _, name := range f.Names() {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if name == tensor {
			x.F32[0] = float32(math.Inf(1))
		}
		all = append(all, x)
	}
	if _, err := checkpoint.Write(path, f.Meta, all); err != nil {
		t.Fatal(err)
	}
}

func TestDivergenceEndsTheRunAndKeepsTheLastCheckpoint(t *testing.T) {
	for tensor, says := range map[string]string{
		"layers.0.mlp.down": "loss or gradient is not finite at step 73",
		// The row of PAD, which training reads only as a rare negative: no loss shows it
		// before the next checkpoint.
		"embedding": "a parameter or moment is not finite after step 80",
	} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		out, err := Run(ctx, load(t, tinySpec(t, "")), Options{Store: dir, Observe: func(u Update) {
			if u.Done == 72 {
				cancel()
			}
		}})
		if err != nil || out.Steps != 72 {
			t.Fatalf("%d steps, error %v", out.Steps, err)
		}
		poison(t, out.Checkpoint, tensor)
		again, err := Resume(context.Background(), out.Run.ID, Options{Store: dir})
		if err != nil {
			t.Fatal(err)
		}
		if again.State != runs.Diverged || !strings.Contains(again.Message, says) {
			t.Errorf("%s: state %s, message %q, want %q", tensor, again.State, again.Message, says)
		}
		if again.Checkpoint != out.Checkpoint {
			t.Errorf("%s: the newest checkpoint is %s, want none after %s", tensor, again.Checkpoint, out.Checkpoint)
		}
		if kept, _ := filepath.Glob(filepath.Join(filepath.Dir(out.Checkpoint), "*.safetensors")); len(kept) != 3 {
			t.Errorf("%s: checkpoints left: %v", tensor, kept)
		}
		if _, err := Resume(context.Background(), out.Run.ID, Options{Store: dir}); err == nil || !strings.Contains(err.Error(), "diverged") {
			t.Errorf("resume of a diverged run: %v", err)
		}
	}
}

// A wall-clock budget is calibrated once: a resume trains for the steps that the
// provenance has, also where no checkpoint was written yet.
func TestWallClockBudgetBecomesTokensOnce(t *testing.T) {
	dir := t.TempDir()
	var notes []string
	var total int64
	ctx, cancel := context.WithCancel(context.Background())
	observe := func(u Update) {
		notes = append(notes, u.Note)
		if u.Stage == StageTrain {
			total = u.Total
			cancel()
		}
	}
	out, err := Run(ctx, load(t, tinySpec(t, ""), "budget=1s"), Options{Store: dir, Observe: observe})
	if err != nil || out.State != runs.Interrupted {
		t.Fatalf("%+v, %v", out, err)
	}
	steps, err := strconv.ParseInt(out.Run.Provenance[metaSteps], 10, 64)
	if err != nil || steps < 2 || total != steps {
		t.Fatalf("provenance has %q steps, %d were planned", out.Run.Provenance[metaSteps], total)
	}
	if !strings.Contains(strings.Join(notes, "\n"), "calibrated") {
		t.Errorf("nothing was said of the calibration: %q", notes)
	}
	s, err := runs.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	events, _ := s.Events(context.Background(), out.Run.ID)
	if !slices.ContainsFunc(events, func(e runs.Event) bool { return strings.Contains(e.Text, "calibrated") }) {
		t.Errorf("the calibration is not on record: %v", events)
	}
	if err := os.Remove(out.Checkpoint); err != nil {
		t.Fatal(err)
	}
	notes = nil
	again, err := Resume(context.Background(), out.Run.ID, Options{Store: dir, Observe: observe})
	if err != nil || again.State != runs.Finished {
		t.Fatalf("%+v, %v", again, err)
	}
	if again.Steps != steps || total != steps || strings.Contains(strings.Join(notes, "\n"), "calibrat") {
		t.Errorf("resumed for %d of %d steps, %d in the provenance; notes %q", again.Steps, total, steps, notes)
	}
}

func TestProvenanceSaysWhatTheRunRanOn(t *testing.T) {
	dir := t.TempDir()
	spec := load(t, tinySpec(t, ""), "budget=1k", "train.kernels=portable")
	tr := openTrainer(t, spec, 8)
	out := run(t, spec, dir)
	stored, body := 0, 0
	for _, p := range tr.model.Params() {
		stored += len(p.Data)
		if p.Name != "embedding" {
			body += len(p.Data)
		}
	}
	for key, want := range map[string]string{"kernels": "portable", "cpu": amx.DetectMachine().CPUModel, "corpus_hash": tr.corpus.Hash(),
		"tokenizer_hash": tr.corpus.Tokenizer.Hash(), "vocabulary": "300", "steps": "8",
		"parameters": strconv.Itoa(stored), "body_parameters": strconv.Itoa(body)} {
		if got := out.Run.Provenance[key]; got != want || want == "" {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

func TestDryRunAccountsForTheReleasedShape(t *testing.T) {
	spec := load(t, "paper/release-dense.yaml", "train.sequence=64", "train.step_tokens=64", "train.loss.negatives=64")
	plan, err := DryRun(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	cells := map[string]string{}
	for _, row := range plan.Accounting {
		cells[row[0]] = row[1] + " " + row[2]
	}
	for part, want := range map[string]string{"body": "3,298,144", "stored": "7,492,448", "published active": "difference 0", "published stored": "difference 0"} {
		if !strings.Contains(cells[part], want) {
			t.Errorf("%s: %q does not say %q", part, cells[part], want)
		}
	}
	if plan.TokensPerSecond <= 0 || math.IsInf(plan.TokensPerSecond, 0) || plan.Time <= 0 {
		t.Errorf("speed %g, time %s", plan.TokensPerSecond, plan.Time)
	}
}

func TestAnErrorBeforeTheRunLeavesNoRun(t *testing.T) {
	path, dir := tinySpec(t, ""), t.TempDir()
	spec := load(t, path, "corpus.sources.words.include=[\"*.none\"]")
	if _, err := Run(context.Background(), spec, Options{Store: dir}); err == nil {
		t.Fatal("an empty corpus was trained on")
	} else if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %v", err)
	}
	s, err := runs.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if all, _ := s.Runs(context.Background()); len(all) != 0 {
		t.Errorf("%d runs in the store", len(all))
	}
}
