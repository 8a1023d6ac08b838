package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"harness/runs"
)

// writeTiny writes a spec that trains in about a second, and its text.
func writeTiny(t *testing.T, dir, name string) (spec string) {
	t.Helper()
	for i := range 60 {
		write(t, filepath.Join(dir, "text", fmt.Sprintf("%02d.txt", i)), strings.Repeat(fmt.Sprintf("the number %d is what page %d is about; ", i*i, i), 20))
	}
	return write(t, filepath.Join(dir, name+".yaml"), `name: `+name+`
budget: 20k
tags: [tiny]
corpus:
  tokenizer: {vocab: 300}
  validation_share: 0.2
  sources:
    - {name: pages, kind: tree, path: text}
  tasks:
    - {name: shift, kind: shift, min: 2, max: 4, alphabet: 8}
  phases:
    - {until: 100%, weights: {pages: 1, shift: 1}}
model: {d_model: 16, layers: [lin, swa], d_ff: 32, heads: 2, head_width: 8, state_width: 8, window: 16}
train: {sequence: 64, step_tokens: 256, validation_tokens: 1024, optimizer: {lr: 3e-3, warmup_steps: 4}}
probes: {n: 20, generations: 1, prompt_tokens: 8, new_tokens: 8}
`)
}

func TestFromSpecToPage(t *testing.T) {
	dir := t.TempDir()
	spec, store := writeTiny(t, dir, "tiny"), filepath.Join(dir, "store")

	r := harness(t, store, "run", spec)
	if r.code != 0 {
		t.Fatalf("run: code %d, %s", r.code, r.stderr)
	}
	for _, want := range []string{"FINISHED", "validation loss", "unigram entropy", "shift", "95% interval", "reference",
		"step-", "weights     sha256 ", "report.html", "parameters, ", "bits/byte", "kernels ", "probe samples", "--prompt 'the number"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("the summary lacks %q: %s", want, r.stdout)
		}
	}
	if !strings.Contains(r.stderr, "train mix ") || !strings.Contains(r.stderr, "\ncorpus pages: ") {
		t.Errorf("no progress, or no line about the corpus: %s", r.stderr)
	}
	if got := strings.Count(r.stdout, "report.html"); got != 1 {
		t.Errorf("the page is named %d times", got)
	}

	var list []struct {
		ID, Name, State string
		Step, Steps     int64
		Loss            float64 `json:"validation_loss_nats"`
		Tags            []string
		Parameters      int64
		Speed           float64 `json:"training_tokens_per_second"`
		Scores          []struct{ Verdict string }
	}
	decode(t, harness(t, store, "ls", "--json"), &list)
	if len(list) != 1 || list[0].Name != "tiny" || list[0].State != "finished" || list[0].Step != list[0].Steps || list[0].Steps != 79 ||
		list[0].Loss <= 0 || list[0].Parameters != 9784 || list[0].Speed <= 0 || len(list[0].Scores) != 1 || list[0].Scores[0].Verdict == "" {
		t.Errorf("ls: %+v", list)
	}

	var shown struct {
		ID       string
		Spec     string
		Hash     string `json:"spec_sha256"`
		Attempts []struct{ State string }
		Latest   map[string]struct{ Value float64 }
		Scores   []struct {
			Task   string
			Chance float64
		}
		Samples     []struct{ Task, Expected string } `json:"probe_samples"`
		Generations []struct{ Text string }
		Artifacts   []struct{ Path string }
		Report      string
		Weights     string `json:"weights_sha256"`
	}
	decode(t, harness(t, store, "show", "latest", "--json"), &shown)
	if shown.ID != list[0].ID || len(shown.Attempts) != 1 || shown.Latest["validation/loss"].Value != list[0].Loss || len(shown.Scores) != 1 ||
		shown.Scores[0].Chance <= 0 || len(shown.Generations) == 0 || len(shown.Artifacts) == 0 || len(shown.Hash) != 64 || shown.Spec == "" ||
		len(shown.Samples) == 0 || shown.Samples[0].Task != "shift" || shown.Samples[0].Expected == "" || len(shown.Weights) != 64 {
		t.Errorf("show: %+v", shown)
	}
	if r := harness(t, store, "show", "tiny"); r.code != 0 || !strings.Contains(r.stdout, shown.Report) || !strings.Contains(r.stdout, "95% interval") {
		t.Errorf("show: code %d, %s %s", r.code, r.stdout, r.stderr)
	}
	if r := harness(t, store, "ls"); r.code != 0 || !strings.Contains(r.stdout, list[0].ID[:shortest]+"  tiny  finished  79/79") {
		t.Errorf("ls: %s", r.stdout)
	}

	page := filepath.Join(dir, "page.html")
	if r := harness(t, store, "report", "--out", page); r.code != 0 || !strings.Contains(r.stdout, page) {
		t.Errorf("report: code %d, %s %s", r.code, r.stdout, r.stderr)
	}
	for _, path := range []string{page, shown.Report} {
		if html, err := os.ReadFile(path); err != nil || !bytes.Contains(html, []byte(shown.ID)) {
			t.Errorf("%s is no page of the run: %v", path, err)
		}
	}

	greedy := harness(t, store, "generate", "tiny", "--prompt", "the number", "--tokens", "12")
	if greedy.code != 0 || len(greedy.stdout) < 2 {
		t.Errorf("generate: code %d, %q %s", greedy.code, greedy.stdout, greedy.stderr)
	}
	var generated struct {
		Step          int64
		Kernels, Text string
		TopP          float64 `json:"top_p"`
	}
	decode(t, harness(t, store, "generate", "tiny", "--prompt", "the number", "--json", "--temperature", "1", "--top-p", "0.5"), &generated)
	if generated.Step != 79 || generated.Kernels == "" || generated.Text == "" || generated.TopP != 0.5 {
		t.Errorf("generate: %+v", generated)
	}
	sampled := func(seed string) string {
		return harness(t, store, "generate", "tiny", "--prompt", "the number", "--temperature", "2", "--seed", seed).stdout
	}
	if sampled("1") != sampled("1") || sampled("1") == sampled("2") {
		t.Error("sampling does not depend on the seed alone")
	}
	truncate(t, shown.Artifacts[len(shown.Artifacts)-1].Path)
	if r := harness(t, store, "generate", "tiny", "--prompt", "the number"); r.code != 0 || !strings.Contains(r.stderr, "skipped a damaged checkpoint") || strings.Contains(r.stdout, "damaged") {
		t.Errorf("generate from a damaged checkpoint: code %d, %s", r.code, r.stderr)
	}
	if r := harness(t, store, "resume", "tiny"); r.code != exitError || !strings.Contains(r.stderr, "finished") {
		t.Errorf("resume of a finished run: code %d, %s", r.code, r.stderr)
	}
}

// truncate cuts a file short.
func truncate(t *testing.T, path string) {
	t.Helper()
	if err := os.Truncate(path, 1000); err != nil {
		t.Fatal(err)
	}
}

func decode(t *testing.T, r result, into any) {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("code %d: %s", r.code, r.stderr)
	}
	if err := json.Unmarshal([]byte(r.stdout), into); err != nil {
		t.Fatalf("%v in %s", err, r.stdout)
	}
}

// trigger acts once, when the program first reports training.
type trigger struct {
	text bytes.Buffer // not embedded: its ReadFrom would pass Write by
	once sync.Once
	act  func()
}

func (w *trigger) Write(p []byte) (int, error) {
	n, err := w.text.Write(p)
	if bytes.Contains(p, []byte("  train mix ")) {
		w.once.Do(w.act)
	}
	return n, err
}

func (w *trigger) String() string { return w.text.String() }

func TestInterruptAndResume(t *testing.T) {
	dir := t.TempDir()
	spec, store := writeTiny(t, dir, "stopped"), filepath.Join(dir, "store")
	whole := harness(t, filepath.Join(dir, "whole"), "run", spec, "--json")
	var want struct {
		Weights string `json:"weights_sha256"`
	}
	decode(t, whole, &want)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout bytes.Buffer
	stderr := &trigger{act: cancel}
	code := execute(ctx, []string{"harness", "run", spec, "--store", store}, &stdout, stderr)
	if code != exitInterrupted || !strings.Contains(stdout.String(), "INTERRUPTED") || !strings.Contains(stdout.String(), "harness resume ") {
		t.Fatalf("code %d, %s %s", code, stdout.String(), stderr.String())
	}
	if !strings.Contains(stdout.String(), "report.html") {
		t.Error("an interrupted run has no page")
	}
	var got struct {
		State, Weights string
		W              string `json:"weights_sha256"`
	}
	decode(t, harness(t, store, "resume", "latest", "--json", "--no-report"), &got)
	if got.State != "finished" || got.W != want.Weights {
		t.Errorf("resumed: %+v, uninterrupted: %+v", got, want)
	}
}

func TestDivergedRunHasItsCode(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	r := harness(t, store, "run", writeTiny(t, dir, "hot"), "budget=100k", "train.optimizer.lr=1", "train.optimizer.warmup_steps=0",
		"train.optimizer.beta1=0.999999", "train.optimizer.beta2=0.1", "train.optimizer.eps=1e-30", "train.optimizer.clip_norm=0")
	if r.code != exitDiverged || !strings.Contains(r.stdout, "DIVERGED") || !strings.Contains(r.stderr, "harness: run ") {
		t.Errorf("code %d, %s %s", r.code, r.stdout, r.stderr)
	}
	if !strings.Contains(r.stdout, "report.html") {
		t.Error("a diverged run has no page")
	}
}

func TestRunIsKeptWhereItsPageCannotBe(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	spec := writeTiny(t, dir, "pageless")
	// A directory stands where the page of the run would go, as soon as there is a run.
	stderr := &trigger{act: func() {
		s, err := runs.OpenReadOnly(store)
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		if run, err := s.Find(t.Context(), "latest"); err != nil || os.Mkdir(pagePath(s, run.ID), 0o755) != nil {
			t.Errorf("block the page: %v", err)
		}
	}}
	var stdout bytes.Buffer
	code := execute(t.Context(), []string{"harness", "run", spec, "--store", store}, &stdout, stderr)
	if code != 0 || !strings.Contains(stdout.String(), "FINISHED") || !strings.Contains(stderr.String(), "harness: warning: the run is kept") {
		t.Errorf("code %d, %s %s", code, stdout.String(), stderr.String())
	}
}

func TestStoreThatIsGoneAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	var stdout bytes.Buffer
	stderr := &trigger{act: func() { os.RemoveAll(store) }}
	code := execute(t.Context(), []string{"harness", "run", writeTiny(t, dir, "gone"), "--store", store}, &stdout, stderr)
	if code == 0 || strings.Contains(stdout.String()+stderr.String(), "is kept") || strings.Contains(stdout.String(), "try it with") || strings.Contains(stdout.String(), "go on with") {
		t.Errorf("code %d, %s %s", code, stdout.String(), stderr.String())
	}
}

func TestDryRun(t *testing.T) {
	dir := t.TempDir()
	r := harness(t, filepath.Join(dir, "store"), "run", writeTiny(t, dir, "dry"), "--dry-run", "--kernels", "reference")
	if r.code != 0 {
		t.Fatalf("code %d: %s", r.code, r.stderr)
	}
	_, figures, found := strings.Cut(r.stdout, "\n\n")
	if !found || !strings.Contains(r.stdout, "budget: 20000") || !strings.Contains(r.stdout, "kernels: reference") {
		t.Errorf("no resolved spec: %s", r.stdout)
	}
	var stable []string
	for line := range strings.Lines(figures) {
		if fields := strings.Fields(line); len(fields) > 0 && (fields[0] == "speed" || fields[0] == "time") {
			line = "  " + fields[0] + "\n" // depends on the machine
		}
		stable = append(stable, line)
	}
	golden(t, "dryrun.golden", strings.Join(stable, ""))
	if _, err := os.Stat(filepath.Join(dir, "store")); err == nil {
		t.Error("a dry run makes a store")
	}

	var plan struct {
		Spec    string
		Hash    string                       `json:"spec_sha256"`
		Seconds float64                      `json:"training_seconds"`
		Budget  int64                        `json:"budget_tokens"`
		Account struct{ Body, Stored int64 } `json:"parameters"`
	}
	decode(t, harness(t, dir, "run", filepath.Join(dir, "dry.yaml"), "--dry-run", "--json", "budget=5s"), &plan)
	if plan.Seconds != 5 || plan.Budget <= 0 || len(plan.Hash) != 64 || plan.Account.Body != 4984 || plan.Account.Stored != 9784 {
		t.Errorf("%+v", plan)
	}
	// The resolved spec is a spec, and means the same.
	again := write(t, filepath.Join(dir, "again.yaml"), plan.Spec)
	hash := plan.Hash
	decode(t, harness(t, dir, "run", again, "--dry-run", "--json"), &plan)
	if plan.Hash != hash {
		t.Errorf("the resolved spec hashes to %s, not %s", plan.Hash, hash)
	}
}

func TestInitAndSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.yaml")
	if r := harness(t, t.TempDir(), "init", path); r.code != 0 || !strings.Contains(r.stdout, "harness run "+path) {
		t.Fatalf("code %d, %s", r.code, r.stderr)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if r := harness(t, t.TempDir(), "init", path); r.code != exitError || !strings.HasSuffix(r.stderr, "exists already and is left as it is; name another file\n") {
		t.Errorf("a second init: code %d, %s", r.code, r.stderr)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(written, after) {
		t.Errorf("init has overwritten a file: %v", err)
	}
	var schema map[string]any
	decode(t, harness(t, t.TempDir(), "schema"), &schema)
	if schema["properties"] == nil {
		t.Error("the schema has no properties")
	}
}
