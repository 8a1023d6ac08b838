package experiments

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"harness/nn"
	"harness/nn/checkpoint"
	"harness/runs"
)

// sameRun fails unless a disturbed run ended as the undisturbed one did: its weights,
// what is in view of its metrics and tables, each growth step once.
func sameRun(t *testing.T, dir string, got *Outcome, wantDir string, want *Outcome) {
	t.Helper()
	if got.State != runs.Finished || got.Weights != want.Weights || got.Validation != want.Validation {
		t.Errorf("%s with weights %s, loss %g; undisturbed %s, %g", got.State, got.Weights, got.Validation, want.Weights, want.Validation)
	}
	compareMetrics(t, dir, got.Run.ID, wantDir, want.Run.ID)
	tables, wantTables := tablesOf(t, dir, got.Run.ID), tablesOf(t, wantDir, want.Run.ID)
	for name := range wantTables {
		if !reflect.DeepEqual(tables[name], wantTables[name]) {
			t.Errorf("table %q: %v, undisturbed %v", name, tables[name], wantTables[name])
		}
	}
	if len(wantTables["lineage"]) != 2 || len(wantTables["routing ablations"]) != 1 || len(tables) != len(wantTables) {
		t.Errorf("%d kinds of tables, undisturbed %d", len(tables), len(wantTables))
	}
	told, by := eventsOf(t, dir, got.Run.ID, "growth")
	if wantTold, _ := eventsOf(t, wantDir, want.Run.ID, "growth"); !slices.Equal(told, wantTold) {
		t.Errorf("growth events %q, undisturbed %q", told, wantTold)
	}
	for line, attempts := range by {
		if !slices.IsSorted(attempts) || len(slices.Compact(slices.Clone(attempts))) != len(attempts) {
			t.Errorf("attempts %v told of %q", attempts, line)
		}
	}
}

func TestKilledAroundGrowthAndResumedEqualsAnUndisturbedRun(t *testing.T) {
	for _, method := range methods {
		t.Run(string(method), func(t *testing.T) {
			// A checkpoint after every step: a kill finds the growth step on either side of one.
			spec := load(t, tinySpec(t, "  keep_checkpoints: 2"), thatGrows(method, "train.checkpoint_every=1.5%")...)
			path, dir, wantDir := inAFile(t, spec), t.TempDir(), t.TempDir()
			want := run(t, spec, wantDir)
			seed := uint64(time.Now().UnixNano())
			t.Logf("kills are drawn from seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 3))
			ref, kills := "", 0
			for _, growth := range []int64{20, 40} {
				killAt(t, path, dir, ref, int(growth)-19+rng.IntN(5), time.Duration(rng.IntN(8000))*time.Microsecond)
				ref = "latest"
				for _, x := range []struct {
					at     string
					newest int64 // checkpoint that is left
				}{
					{fmt.Sprint("step ", growth-1), growth - 2},
					{fmt.Sprint("step ", growth), growth - 1}, // which reaches the growth step
					{"growth", growth},
					{"growth", growth},
					{fmt.Sprint("step ", growth+1), growth},
				} {
					dieAt(t, path, dir, ref, x.at)
					if newest := newestStep(t, dir); newest != x.newest {
						t.Errorf("killed at %s: the newest checkpoint is of step %d, want %d", x.at, newest, x.newest)
					}
				}
				// While the checkpoint after growth is written, or so.
				killAt(t, path, dir, ref, int(growth)+1, time.Duration(rng.IntN(8000))*time.Microsecond)
				kills += 7
			}
			out, err := Resume(context.Background(), "latest", Options{Store: dir})
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Run.Attempts) != kills+1 {
				t.Errorf("%d attempts after %d kills", len(out.Run.Attempts), kills)
			}
			sameRun(t, dir, out, wantDir, want)
		})
	}
}

// newestStep is the step of the newest whole checkpoint of a store's newest run.
func newestStep(t *testing.T, dir string) (step int64) {
	t.Helper()
	trained, err := LoadTrained(context.Background(), dir, "latest", "")
	if err != nil {
		t.Fatal(err)
	}
	return trained.Step
}

// An interrupt right before growth, at the step after which it is due, and right
// after it. Where the checkpoint after it is lost, as by a kill between a record and a
// checkpoint, growth is taken, and recorded, again.
func TestInterruptedAroundGrowthAndResumedEqualsAnUndisturbedRun(t *testing.T) {
	for _, method := range methods {
		t.Run(string(method), func(t *testing.T) {
			spec := load(t, tinySpec(t, ""), thatGrows(method, "train.checkpoint_every=1.5%")...)
			wantDir := t.TempDir()
			want := run(t, spec, wantDir)
			type interrupt struct {
				step int64
				lose int // newest checkpoints
			}
			all := []interrupt{{20, 0}, {21, 1}, {41, 0}}
			if method == nn.Split {
				all = append(all, interrupt{19, 0}, interrupt{21, 0}, interrupt{41, 1}, interrupt{41, 2})
			}
			for _, x := range all {
				dir := t.TempDir()
				out := interruptAt(t, spec, dir, x.step)
				for i := range x.lose {
					if err := os.Remove(checkpoint.StepPath(checkpointDirOf(out), x.step-int64(i))); err != nil {
						t.Fatal(err)
					}
				}
				again, err := Resume(context.Background(), out.Run.ID, Options{Store: dir})
				if err != nil {
					t.Fatal(err)
				}
				sameRun(t, dir, again, wantDir, want)
				_, by := eventsOf(t, dir, out.Run.ID, "growth")
				told := 0
				for _, attempts := range by {
					told += len(attempts)
				}
				if wantTold := 2 + min(1, x.lose); told != wantTold {
					t.Errorf("interrupted after %d, %d checkpoints lost: %d growth events %v, want %d", x.step, x.lose, told, by, wantTold)
				}
			}
		})
	}
}

// A checkpoint holds all that a step reads, and all that was not yet recorded.
func TestATrainerThatGrewIsRestoredWhole(t *testing.T) {
	for _, method := range methods {
		spec := load(t, tinySpec(t, ""), thatGrows(method)...)
		tr, back := openTrainer(t, spec, 63), openTrainer(t, spec, 63)
		growTo(tr, 43)
		path, _, err := tr.save(t.TempDir(), "a run")
		if err != nil {
			t.Fatal(err)
		}
		if err := back.restore(path, "a run"); err != nil {
			t.Fatal(err)
		}
		if tr.window.routed[0] == 0 || !reflect.DeepEqual(back.window, tr.window) {
			t.Errorf("%s: the window is %+v, want %+v", method, back.window, tr.window)
		}
		for range 2 {
			got, want := back.tensors(), tr.tensors()
			for i := range want {
				if !reflect.DeepEqual(got[i], want[i]) {
					t.Errorf("%s: tensor %s of step %d differs", method, want[i].Name, tr.step)
				}
			}
			if got, want := back.advance(), tr.advance(); got != want {
				t.Errorf("%s: the next step is %+v, undisturbed %+v", method, got, want)
			}
		}
		if len(back.model.Grown()) != 2 || len(back.tensors()) != len(tr.tensors()) {
			t.Errorf("%s: %d growth steps restored", method, len(back.model.Grown()))
		}
	}
}

// growTo trains to a step as a run does, growth steps included.
func growTo(t *trainer, step int64) {
	for t.step < step {
		for g, due := t.growthDue(); due; g, due = t.growthDue() {
			t.grow(g)
		}
		t.advance()
	}
}

// A split changes nothing that the model computes, and loses nothing that the optimizer
// knows: a child has its parent's moments, its count of updates and the decay it owes.
func TestASplitKeepsTheModelAndItsOptimizer(t *testing.T) {
	spec := load(t, tinySpec(t, ""), append(owingExperts, "grow=[{at: 768, experts: 128, jitter: 0.5}]")...)
	tr := openTrainer(t, spec, 16)
	e, err := newEvaluator(tr)
	if err != nil {
		t.Fatal(err)
	}
	tr.advanceBy(6)
	growth, due := tr.growthDue()
	if !due {
		t.Fatal("growth is not due")
	}
	settledOf(t, tr) // fails unless some experts owe decay
	before, _, err := e.validate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	was := map[string]checkpoint.Tensor{}
	for _, x := range copied(tr) {
		was[x.Name] = x
	}
	tr.grow(growth)
	e.grown()
	if after, _, err := e.validate(context.Background()); err != nil || after != before {
		t.Errorf("loss %+v after a split, %+v before, %v", after, before, err)
	}
	for _, x := range tr.tensors() {
		parent, known := was[x.Name]
		if !known || strings.HasSuffix(x.Name, ".load") { // routers of a new level; children share their parent's load
			continue
		}
		switch children := x.Shape[0] / parent.Shape[0]; {
		case children == 1 && (!slices.Equal(x.F32, parent.F32) || !slices.Equal(x.F64, parent.F64) || !slices.Equal(x.I64, parent.I64)):
			t.Errorf("%s changed", x.Name)
		case children != 1 && children != 4:
			t.Errorf("%s has grown from %v to %v", x.Name, parent.Shape, x.Shape)
		case children == 4 && (!repeats(x.F32, parent.F32, x.Shape[0]) || !repeats(x.F64, parent.F64, x.Shape[0]) || !repeats(x.I64, parent.I64, x.Shape[0])):
			t.Errorf("%s of children is not their parents'", x.Name)
		}
	}
}

// repeats reports whether x, in rows, has every row of the parents four times in turn.
func repeats[T comparable](x, parents []T, rows int) bool {
	row := len(x) / rows
	for i, v := range x {
		if v != parents[i/row/4*row+i%row] {
			return false
		}
	}
	return true
}

// Growth draws from a stream of its own: what is drawn for training does not shift.
func TestGrowthDrawsFromItsOwnStream(t *testing.T) {
	noisy, other := openTrainer(t, load(t, tinySpec(t, ""), thatGrows(nn.SplitFlat)...), 63), openTrainer(t, load(t, tinySpec(t, ""), thatGrows(nn.SplitFlat)...), 63)
	growTo(noisy, 20)
	growTo(other, 20)
	noisy.rng.Uint64() // as a step that drew one more
	g, _ := noisy.growthDue()
	noisy.grow(g)
	other.grow(g)
	for i, p := range noisy.model.Params() {
		if !slices.Equal(p.Data, other.model.Params()[i].Data) {
			t.Errorf("%s depends on what was drawn before", p.Name)
		}
	}
	if router := other.model.Layers[0].Mixture.Routers[0].Data; slices.Equal(router[:16], router[16:32]) {
		t.Error("twins have the same router row: the test shows nothing")
	}
}
