package experiments

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness/runs"
)

// interruptAt runs the spec until after the given step.
func interruptAt(t *testing.T, spec *Spec, store string, step int64) *Outcome {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, err := Run(ctx, spec, Options{Store: store, Observe: func(u Update) {
		if u.Stage == StageTrain && u.Done == step {
			cancel()
		}
	}})
	if err != nil || out.State != runs.Interrupted || out.Steps != step {
		t.Fatalf("%+v, %v", out, err)
	}
	return out
}

// refuses fails unless a resume ends in one line that says so, without a new attempt
// or step.
func refuses(t *testing.T, store string, interrupted *Outcome, says string) {
	t.Helper()
	_, err := Resume(context.Background(), interrupted.Run.ID, Options{Store: store, Observe: func(u Update) {
		if u.Stage == StageTrain {
			t.Errorf("trained to step %d", u.Done)
		}
	}})
	if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line that says %q", err, says)
	}
	run, err := find(context.Background(), store, interrupted.Run.ID)
	if err != nil || len(run.Attempts) != 1 || run.State != runs.Interrupted {
		t.Errorf("the run has %d attempts and is %s, %v", len(run.Attempts), run.State, err)
	}
}

// A run goes on with the shards it began with, whatever becomes of its sources;
// without those shards it goes on only if the sources give the same ones again.
func TestResumeNeedsTheCorpusItBeganWith(t *testing.T) {
	path, dir := tinySpec(t, ""), t.TempDir()
	want := run(t, load(t, path), t.TempDir())
	out := interruptAt(t, load(t, path), dir, 40)
	source := filepath.Join(filepath.Dir(path), "text", "7.txt")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(source, append([]byte("one more word "), text...), 0o644); err != nil {
		t.Fatal(err)
	}
	shards := filepath.Join(dir, "corpora")
	if err := os.Rename(shards, shards+".away"); err != nil {
		t.Fatal(err)
	}
	refuses(t, dir, out, "corpus of run "+out.Run.ID+" has changed")
	if err := os.RemoveAll(shards); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(shards+".away", shards); err != nil {
		t.Fatal(err)
	}
	again, err := Resume(context.Background(), out.Run.ID, Options{Store: dir})
	if err != nil || again.State != runs.Finished || again.Weights != want.Weights {
		t.Errorf("with its own shards: %+v, %v", again, err)
	}

	out = interruptAt(t, load(t, path), dir, 40) // of the changed corpus
	if err := os.RemoveAll(shards); err != nil {
		t.Fatal(err)
	}
	again, err = Resume(context.Background(), out.Run.ID, Options{Store: dir})
	if err != nil || again.State != runs.Finished {
		t.Errorf("with shards built anew from the same sources: %+v, %v", again, err)
	}
}

func TestResumeRefusesTheCheckpointOfAnotherRun(t *testing.T) {
	path, dir := tinySpec(t, ""), t.TempDir()
	out, other := interruptAt(t, load(t, path), dir, 40), interruptAt(t, load(t, path), dir, 50)
	stray := filepath.Join(filepath.Dir(out.Checkpoint), filepath.Base(other.Checkpoint))
	if err := os.Rename(other.Checkpoint, stray); err != nil {
		t.Fatal(err)
	}
	refuses(t, dir, out, "belongs to run")
	if err := os.Remove(stray); err != nil {
		t.Fatal(err)
	}
	if again, err := Resume(context.Background(), out.Run.ID, Options{Store: dir}); err != nil || again.State != runs.Finished {
		t.Errorf("without the stray checkpoint: %+v, %v", again, err)
	}
}

func TestResumeRefusesWhereEveryCheckpointIsDamaged(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	out, err := Run(ctx, load(t, tinySpec(t, "")), Options{Store: dir, Observe: func(u Update) {
		if u.Done == 72 {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(out.Checkpoint), "*.safetensors"))
	for _, path := range files {
		if err := os.Truncate(path, 1000); err != nil {
			t.Fatal(err)
		}
	}
	_, err = Resume(context.Background(), out.Run.ID, Options{Store: dir})
	if err == nil || !strings.Contains(err.Error(), "all 3 checkpoints") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out.Checkpoint), "*.safetensors")); len(left) != len(files) {
		t.Errorf("%d of %d damaged files left", len(left), len(files))
	}
}

func TestResumeTakesTheLastKernelSetAndChangesItOnlyIfAllowed(t *testing.T) {
	lacking := errors.New("lacking")
	for _, x := range []struct {
		available, allow bool
		want             string
	}{{true, false, "avx9"}, {true, true, "avx9"}, {false, true, "auto"}, {false, false, ""}} {
		got, err := resumeKernels("avx9", x.allow, func(string) error {
			if x.available {
				return nil
			}
			return lacking
		})
		if got != x.want || (x.want == "") != errors.Is(err, lacking) {
			t.Errorf("available %v, allowed %v: %q, %v", x.available, x.allow, got, err)
		}
	}
}
