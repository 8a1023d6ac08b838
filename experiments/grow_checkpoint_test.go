package experiments

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness/nn"
	"harness/nn/checkpoint"
	"harness/nn/generate"
	"harness/runs"
)

// checkpointDirOf is where the checkpoints of an outcome's run lie.
func checkpointDirOf(out *Outcome) string { return filepath.Dir(out.Checkpoint) }

// rewrite writes a checkpoint anew, whole and with its own checksum, after a change.
func rewrite(t *testing.T, path string, change func(meta map[string]string, tensors []checkpoint.Tensor)) {
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
		all = append(all, x)
	}
	change(f.Meta, all)
	if _, err := checkpoint.Write(path, f.Meta, all); err != nil {
		t.Fatal(err)
	}
}

// The checkpoint of the step after which growth is due was written before it.
func TestACheckpointKnowsTheGrowthBehindIt(t *testing.T) {
	for _, method := range methods {
		spec := load(t, tinySpec(t, ""), thatGrows(method)...)
		for _, x := range []struct {
			step  int64
			grown int
		}{{20, 0}, {21, 1}, {41, 2}} {
			dir := t.TempDir()
			out := interruptAt(t, spec, dir, x.step)
			trained, err := LoadTrained(context.Background(), dir, out.Run.ID, "")
			if err != nil {
				t.Fatal(err)
			}
			experts := []int{4, spec.Grow[0].Experts, spec.Grow[1].Experts}[x.grown]
			if trained.Step != x.step || len(trained.Model.Grown()) != x.grown || trained.Model.Layers[1].Mixture.Experts() != experts {
				t.Errorf("%s: step %d, %d growth steps, %d experts; want %d, %d, %d", method, trained.Step, len(trained.Model.Grown()),
					trained.Model.Layers[1].Mixture.Experts(), x.step, x.grown, experts)
			}
			f, err := checkpoint.Read(out.Checkpoint)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range trained.Model.Params()[1:] { // the embedding has its decay applied
				if data, err := f.F32(p.Name, p.Shape...); err != nil || !slices.Equal(data, p.Data) {
					t.Errorf("%s, step %d: %s is not what the checkpoint holds, %v", method, x.step, p.Name, err)
				}
			}
			text, err := trained.Continue(context.Background(), "the small", 24, generate.Policy{}, 1)
			if err != nil || text == "" {
				t.Errorf("%s, step %d: continued by %q, %v", method, x.step, text, err)
			}
		}
	}
}

func TestACheckpointThatContradictsItsGrowthIsRefused(t *testing.T) {
	dir := t.TempDir()
	out := interruptAt(t, load(t, tinySpec(t, ""), thatGrows(nn.Split)...), dir, 25)
	for grown, says := range map[string]string{
		"two": `"two" growth steps of the 2 in its spec`,
		"-1":  `"-1" growth steps of the 2 in its spec`,
		"3":   `"3" growth steps of the 2 in its spec`,
		"0":   `tensor "`, // of another shape, or not there
		"2":   `tensor "`,
		"":    `tensor "`,
	} {
		rewrite(t, out.Checkpoint, func(meta map[string]string, _ []checkpoint.Tensor) {
			if meta[metaGrown] = grown; grown == "" {
				delete(meta, metaGrown)
			}
		})
		_, err := LoadTrained(context.Background(), dir, out.Run.ID, "")
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), out.Checkpoint) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v, want one line that names the file and says %q", grown, err, says)
		}
		refuses(t, dir, out, says)
	}
	rewrite(t, out.Checkpoint, func(meta map[string]string, _ []checkpoint.Tensor) { meta[metaGrown] = "1" })
	if trained, err := LoadTrained(context.Background(), dir, out.Run.ID, ""); err != nil || len(trained.Model.Grown()) != 1 {
		t.Errorf("%+v, %v", trained, err)
	}
}

// A byte changed behind the checksum's back is damage: the checkpoint before counts.
func TestADamagedGrowthIsFoundByTheChecksum(t *testing.T) {
	dir := t.TempDir()
	out := interruptAt(t, load(t, tinySpec(t, ""), thatGrows(nn.Split)...), dir, 25)
	data, err := os.ReadFile(out.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Replace(data, []byte(`"grown":"1"`), []byte(`"grown":"0"`), 1)
	if bytes.Equal(data, damaged) {
		t.Fatal("the checkpoint has no such metadata: the test shows nothing")
	}
	if err := os.WriteFile(out.Checkpoint, damaged, 0o644); err != nil {
		t.Fatal(err)
	}
	trained, err := LoadTrained(context.Background(), dir, out.Run.ID, "")
	if err != nil || len(trained.Skipped) != 1 || trained.Step >= 25 {
		t.Errorf("%+v, %v", trained, err)
	}
}

// Checkpoints were written before models could grow.
func TestACheckpointWithoutTheKeyIsOfAModelThatDidNotGrow(t *testing.T) {
	for name, overrides := range map[string][]string{"dense": {"budget=8k"}, "mixture": thatGrows(nn.Split)} {
		spec, dir := load(t, tinySpec(t, ""), overrides...), t.TempDir()
		want := run(t, spec, t.TempDir())
		out := interruptAt(t, spec, dir, 15)
		rewrite(t, out.Checkpoint, func(meta map[string]string, _ []checkpoint.Tensor) {
			if meta[metaGrown] != "0" {
				t.Errorf("%s: %q growth steps", name, meta[metaGrown])
			}
			delete(meta, metaGrown)
		})
		if trained, err := LoadTrained(context.Background(), dir, out.Run.ID, ""); err != nil || trained.Step != 15 {
			t.Errorf("%s: %+v, %v", name, trained, err)
		}
		again, err := Resume(context.Background(), out.Run.ID, Options{Store: dir})
		if err != nil || again.State != runs.Finished || again.Weights != want.Weights {
			t.Errorf("%s: %+v, %v", name, again, err)
		}
	}
}
