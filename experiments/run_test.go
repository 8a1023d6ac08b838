package experiments

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	for name, want := range map[string]int{"train/sampled_loss": 157, "validation/loss": 20, "learning_rate": 157, "throughput": 157, "probe/shift": 3} {
		if got := points[name]; got < want-1 || got > want+1 {
			t.Errorf("%s has %d points, want about %d (all: %v)", name, got, want, points)
		}
	}
	scores, _ := s.Scores(ctx, out.Run.ID)
	generations, _ := s.Generations(ctx, out.Run.ID)
	tables, _ := s.Tables(ctx, out.Run.ID)
	artifacts, _ := s.Artifacts(ctx, out.Run.ID)
	if len(scores) < 2 || len(generations) < 4 || len(tables) < 4 || len(artifacts) < 10 {
		t.Errorf("%d scores, %d generations, %d tables, %d artifacts", len(scores), len(generations), len(tables), len(artifacts))
	}
	if kept, _ := filepath.Glob(filepath.Join(checkpointDir(s, out.Run.ID), "*.safetensors")); len(kept) != 3 {
		t.Errorf("%d checkpoints kept, want 3: %v", len(kept), kept)
	}
	trained, err := LoadTrained(ctx, dir, out.Run.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	if trained.Step != "157" || trained.Checkpoint != out.Checkpoint {
		t.Errorf("trained model of step %s from %s", trained.Step, trained.Checkpoint)
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

// compareMetrics fails unless both runs have the same points of every metric that
// the machine's speed does not enter.
// TestMain lets the test binary be a run that can be killed.
// childRun runs, or resumes, telling its parent of every step on standard output.
// killAt starts a child and kills it with SIGKILL once it has told of the given
// step, after a further delay. It reports whether the child was still running.
func TestDivergenceEndsTheRunAndKeepsTheLastCheckpoint(t *testing.T) {
	dir := t.TempDir()
	out := run(t, load(t, tinySpec(t, "  optimizer: {lr: 1, clip_norm: 0, weight_decay: 100}")), dir)
	if out.State != runs.Diverged {
		t.Fatalf("state %s, validation %g", out.State, out.Validation)
	}
	if !strings.Contains(out.Message, fmt.Sprintf("at step %d", out.Steps+1)) {
		t.Errorf("message %q after %d good steps", out.Message, out.Steps)
	}
	if _, err := Resume(context.Background(), out.Run.ID, Options{Store: dir}); err == nil || !strings.Contains(err.Error(), "diverged") {
		t.Errorf("resume of a diverged run: %v", err)
	}
}

func TestWallClockBudgetBecomesTokens(t *testing.T) {
	dir := t.TempDir()
	start := time.Now()
	out := run(t, load(t, tinySpec(t, ""), "budget=2s"), dir)
	if out.State != runs.Finished || out.Tokens < 128 {
		t.Fatalf("state %s after %d tokens", out.State, out.Tokens)
	}
	if took := time.Since(start); took > 60*time.Second {
		t.Errorf("took %s", took)
	}
	s, err := runs.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	events, _ := s.Events(context.Background(), out.Run.ID)
	said := ""
	for _, e := range events {
		said += e.Text + "\n"
	}
	if !strings.Contains(said, "calibrated over") {
		t.Errorf("the calibration is not on record: %s", said)
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
