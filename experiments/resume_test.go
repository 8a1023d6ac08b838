package experiments

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"harness/amx"
	"harness/nn/checkpoint"
	"harness/runs"
)

func TestInterruptThenResumeEqualsAnUndisturbedRun(t *testing.T) {
	path, dir, wantDir := tinySpec(t, ""), t.TempDir(), t.TempDir()
	want := run(t, load(t, path), wantDir)
	ctx, cancel := context.WithCancel(context.Background())
	// Steps 72 and 79 are followed by a validation and by a probing, which the
	// interrupt therefore cuts off.
	const at = 72
	out, err := Run(ctx, load(t, path), Options{Store: dir, Observe: func(u Update) {
		if u.Stage == StageTrain && u.Done == at {
			cancel()
		}
	}})
	if err != nil || out.State != runs.Interrupted || out.Steps != at {
		t.Fatalf("state %v after %d steps, error %v", out.State, out.Steps, err)
	}
	if out.Checkpoint != checkpoint.StepPath(filepath.Dir(out.Checkpoint), at) {
		t.Errorf("no checkpoint of step %d: %s", at, out.Checkpoint)
	}
	again, err := Resume(context.Background(), out.Run.ID, Options{Store: dir})
	if err != nil {
		t.Fatal(err)
	}
	if again.Weights != want.Weights {
		t.Errorf("resumed weights %s, undisturbed %s", again.Weights, want.Weights)
	}
	if again.State != runs.Finished || len(again.Run.Attempts) != 2 {
		t.Errorf("state %s, %d attempts", again.State, len(again.Run.Attempts))
	}
	compareMetrics(t, dir, out.Run.ID, wantDir, want.Run.ID)
	if _, err := Resume(context.Background(), out.Run.ID, Options{Store: dir}); err == nil || !strings.Contains(err.Error(), "finished") {
		t.Errorf("resume of a finished run: %v", err)
	}
}

// compareMetrics fails unless both runs have the same points of every metric that
// the machine's speed does not enter.
func compareMetrics(t *testing.T, dirA, idA, dirB, idB string) {
	t.Helper()
	read := func(dir, id string) map[string][]float64 {
		s, err := runs.OpenReadOnly(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		series, err := s.Series(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		values := map[string][]float64{}
		for _, x := range series {
			for _, p := range x.Points {
				if x.Name != "throughput" {
					values[x.Name] = append(values[x.Name], float64(p.Step), p.Value)
				}
			}
		}
		return values
	}
	a, b := read(dirA, idA), read(dirB, idB)
	if len(a) != len(b) {
		t.Errorf("%d metrics and %d", len(a), len(b))
	}
	for name := range a {
		if !slices.Equal(a[name], b[name]) {
			t.Errorf("%s: steps and values %v and %v", name, a[name], b[name])
		}
	}
}

func TestKilledAtRandomStepsAndResumedEqualsAnUndisturbedRun(t *testing.T) {
	// A checkpoint after every step, so that kills fall into writing one as well.
	path, dir := tinySpec(t, "  keep_checkpoints: 2"), t.TempDir()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	every := strings.Replace(string(text), "checkpoint_every: 10%", "checkpoint_every: 0.6%", 1)
	if err := os.WriteFile(path, []byte(every), 0o644); err != nil {
		t.Fatal(err)
	}
	want := run(t, load(t, path), t.TempDir())
	seed := uint64(time.Now().UnixNano())
	t.Logf("kills are drawn from seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	ref, step := "", 0
	for range 6 {
		step += 1 + rng.IntN(25)
		killAt(t, path, dir, ref, step, time.Duration(rng.IntN(8000))*time.Microsecond)
		ref = "latest"
	}
	run, err := find(context.Background(), dir, "latest")
	if err != nil {
		t.Fatal(err)
	}
	if run.State != runs.Crashed {
		t.Fatalf("a killed run reads as %s", run.State)
	}
	out, err := Resume(context.Background(), "latest", Options{Store: dir})
	if err != nil {
		t.Fatal(err)
	}
	if out.Weights != want.Weights {
		t.Errorf("weights after 6 kills %s, undisturbed %s", out.Weights, want.Weights)
	}
	if len(out.Run.Attempts) != 7 {
		t.Errorf("%d attempts", len(out.Run.Attempts))
	}
	s, err := runs.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	series, err := s.Series(context.Background(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range series {
		if x.Name != "train/sampled_loss" {
			continue
		}
		for i, p := range x.Points {
			if p.Step != int64(i+1) {
				t.Fatalf("point %d of the training loss is of step %d: a resume lost or doubled one", i, p.Step)
			}
		}
		if len(x.Points) != 157 {
			t.Errorf("%d points of 157", len(x.Points))
		}
	}
}

func TestResumeKeepsTheKernelSet(t *testing.T) {
	path, dir := tinySpec(t, ""), t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	out, err := Run(ctx, load(t, path, "train.kernels=portable"), Options{Store: dir, Observe: func(u Update) {
		if u.Done == 40 {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Resume(context.Background(), out.Run.ID, Options{Store: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range again.Run.Attempts {
		if a.Kernels != "portable" {
			t.Errorf("attempt %d ran on %s", a.Number, a.Kernels)
		}
	}
}

func TestTruncatedCheckpointFallsBackToTheOneBefore(t *testing.T) {
	path, dir := tinySpec(t, ""), t.TempDir()
	want := run(t, load(t, path), t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	out, err := Run(ctx, load(t, path), Options{Store: dir, Observe: func(u Update) {
		if u.Done == 71 {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(out.Checkpoint, 1000); err != nil {
		t.Fatal(err)
	}
	var notes []string
	again, err := Resume(context.Background(), out.Run.ID, Options{Store: dir, Observe: func(u Update) {
		if u.Note != "" {
			notes = append(notes, u.Note)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(notes, "\n"); !strings.Contains(said, "damaged") || !strings.Contains(said, filepath.Base(out.Checkpoint)) {
		t.Errorf("nothing was said about the damaged checkpoint:\n%s", said)
	}
	if again.Weights != want.Weights {
		t.Error("resumed weights differ from an undisturbed run's")
	}
}

func TestTwoRunsTakeTwoCores(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.NumCPU() < 2 {
		t.Skipf("needs Linux and two cores to choose from; this is %s with %d", runtime.GOOS, runtime.NumCPU())
	}
	path := tinySpec(t, "")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	endless := strings.Replace(string(text), "budget: 20k", "budget: 20M", 1)
	if err := os.WriteFile(path, []byte(endless), 0o644); err != nil {
		t.Fatal(err)
	}
	// Claims in a directory of the test's own: other runs on this machine do not matter.
	locks := amx.LockDirVariable + "=" + t.TempDir()
	var cores []int
	for range 2 {
		dir := t.TempDir()
		child := startChild(t, path, dir, "", 1, locks)
		defer kill(t, child)
		run, err := find(context.Background(), dir, "latest")
		if err != nil || run.State != runs.Running {
			t.Fatalf("the child's run: %+v, %v", run, err)
		}
		cores = append(cores, run.Attempts[0].Core)
	}
	if cores[0] < 0 || cores[1] < 0 || cores[0] == cores[1] {
		t.Errorf("runs at the same time are on cores %v", cores)
	}
}

// Where several steps share a record, an interrupt inside a record must not show in
// the metrics.
func TestMetricsOfALongRunAreThoseOfAnUndisturbedOne(t *testing.T) {
	path, dir, wantDir := tinySpec(t, ""), t.TempDir(), t.TempDir()
	settings := []string{"budget=525k", "train.validate_every=100%", "probes.every=100%", "probes.n=1", "probes.generations=0"} // 4102 steps, 2 a record
	want := run(t, load(t, path, settings...), wantDir)
	ctx, cancel := context.WithCancel(context.Background())
	out, err := Run(ctx, load(t, path, settings...), Options{Store: dir, Observe: func(u Update) {
		if u.Done == 2001 {
			cancel()
		}
	}})
	if err != nil || out.Steps != 2001 {
		t.Fatalf("%d steps, error %v", out.Steps, err)
	}
	again, err := Resume(context.Background(), out.Run.ID, Options{Store: dir})
	if err != nil || again.Weights != want.Weights {
		t.Fatalf("weights differ, or error %v", err)
	}
	compareMetrics(t, dir, out.Run.ID, wantDir, want.Run.ID)
}

// A kill between the creation of a run and its first attempt leaves no directory.
func TestResumeOfARunThatNeverBegan(t *testing.T) {
	path, dir := tinySpec(t, ""), t.TempDir()
	want := run(t, load(t, path), t.TempDir())
	out := interruptAt(t, load(t, path), dir, 1)
	if err := os.RemoveAll(filepath.Dir(filepath.Dir(out.Checkpoint))); err != nil {
		t.Fatal(err)
	}
	again, err := Resume(context.Background(), out.Run.ID, Options{Store: dir})
	if err != nil || again.State != runs.Finished || again.Weights != want.Weights {
		t.Fatalf("%+v, %v", again, err)
	}
	if _, err := LoadTrained(context.Background(), dir, out.Run.ID, ""); err != nil {
		t.Error(err)
	}
}

// An interrupt behind the last step cuts off its evaluation: the resume has nothing
// to train, but its figures are those of an undisturbed run, each of them once.
func TestResumeBehindTheLastStepEvaluates(t *testing.T) {
	path, dir, wantDir := tinySpec(t, ""), t.TempDir(), t.TempDir()
	want := run(t, load(t, path), wantDir)
	out := interruptAt(t, load(t, path), dir, 157)
	again, err := Resume(context.Background(), out.Run.ID, Options{Store: dir})
	if err != nil || again.State != runs.Finished || again.Weights != want.Weights || again.Validation != want.Validation {
		t.Fatalf("%+v, %v", again, err)
	}
	compareMetrics(t, dir, out.Run.ID, wantDir, want.Run.ID)
	count := func(dir, id string) (scores, generations, tables int) {
		s, err := runs.OpenReadOnly(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		a, _ := s.Scores(context.Background(), id)
		b, _ := s.Generations(context.Background(), id)
		c, _ := s.Tables(context.Background(), id)
		return len(a), len(b), len(c)
	}
	gotScores, gotGenerations, gotTables := count(dir, out.Run.ID)
	wantScores, wantGenerations, wantTables := count(wantDir, want.Run.ID)
	if gotScores != wantScores || gotGenerations != wantGenerations || gotTables != wantTables {
		t.Errorf("%d scores, %d generations, %d tables; undisturbed %d, %d, %d",
			gotScores, gotGenerations, gotTables, wantScores, wantGenerations, wantTables)
	}
}
