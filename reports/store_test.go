package reports

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness/runs"
)

// From the store to a file: what was recorded is on the page.
func TestWriteRun(t *testing.T) {
	ctx := t.Context()
	store, err := runs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	run, err := store.Create(ctx, runs.NewRun{Name: "stored", Spec: "name: stored\n", SpecHash: "abc", Seed: 3, Provenance: map[string]string{"cpu": "a test"}})
	if err != nil {
		t.Fatal(err)
	}
	recorder, err := store.Begin(ctx, run.ID, runs.AttemptInfo{Kernels: "portable"})
	if err != nil {
		t.Fatal(err)
	}
	recorder.Define("validation/loss", "nats", "lower")
	for step := int64(1); step <= 3; step++ {
		recorder.Metric("validation/loss", step, step*1024, 7-float64(step))
	}
	recorder.Metric("train/loss", 3, 3072, math.NaN())
	recorder.Score(runs.Score{Step: 3, Tokens: 3072, Name: "shift", Value: 0.5, Low: 0.4, High: 0.6, Chance: 0.07, N: 100})
	recorder.Generation(runs.Generation{Step: 3, Tokens: 3072, Prompt: "Go is", Text: " a \xff</script>"})
	recorder.Table(runs.Table{Name: "parameters", Columns: []string{"part", "count"}, Rows: [][]string{{"body", "3,298,144"}}})
	recorder.Event(3, "checkpoint", "written")
	recorder.Artifact(runs.Artifact{Step: 3, Kind: "checkpoint", Path: "runs/" + run.ID + "/w.safetensors", SHA256: "feed", Bytes: 10})
	if err := recorder.Finish(ctx, runs.Diverged, "loss is NaN"); err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(t.TempDir(), "run.html")
	if err := WriteRun(ctx, store, run.ID, path, Assets{}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := textOf(parsePage(t, string(page)))
	for _, want := range []string{"stored", "diverged", "loss is NaN", "4 nats", "shift", "50.0%", "gone", "Go is a \ufffd</script>", "3,298,144", "w.safetensors", "feed", "name: stored", "a test", "portable", run.ID} {
		if !strings.Contains(text, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	if err := WriteRun(ctx, store, "nothing", path, Assets{}); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("an unknown run gave %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(page) {
		t.Error("a failed write changed the page that was there")
	}
}
