package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func save(t *testing.T, dir string, steps ...int64) {
	t.Helper()
	for _, step := range steps {
		if _, err := Write(StepPath(dir, step), nil, []Tensor{{Name: "step", Shape: []int{1}, I64: []int64{step}}}); err != nil {
			t.Fatal(err)
		}
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestLatestFallsBackAndSaysWhy(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, 9, 9999999999, 12345678901)
	if path, skipped, err := Latest(dir); err != nil || len(skipped) > 0 || path != StepPath(dir, 12345678901) {
		t.Fatalf("got %s, %v, %v", path, skipped, err)
	}
	if err := os.Truncate(StepPath(dir, 12345678901), 100); err != nil {
		t.Fatal(err)
	}
	path, skipped, err := Latest(dir)
	if err != nil || path != StepPath(dir, 9999999999) || len(skipped) != 1 || !strings.Contains(skipped[0].Error(), "step-12345678901.safetensors is damaged: truncated") {
		t.Fatalf("got %s, %v, %v", path, skipped, err)
	}
	for _, step := range []int64{9, 9999999999} {
		if err := os.WriteFile(StepPath(dir, step), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if path, skipped, err := Latest(dir); !errors.Is(err, ErrNone) || len(skipped) != 3 || path != "" {
		t.Fatalf("got %s, %v, %v", path, skipped, err)
	}
}

func TestLatestOfNothing(t *testing.T) {
	if _, _, err := Latest(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Errorf("empty directory: %v", err)
	}
	if _, _, err := Latest(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, ErrNone) {
		t.Errorf("absent directory: %v", err)
	}
}

func TestPruneKeepsTheLastAndClearsWhatKilledWritersLeft(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, 2, 9, 10, 100)
	for _, name := range []string{"step-0000000300.safetensors.bak", "notes.txt", "best.safetensors", ".step-0000000200.safetensors.77.aside"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Prune(dir, 100, 2); err != nil {
		t.Fatal(err)
	}
	want := []string{"best.safetensors", "notes.txt", "step-0000000010.safetensors", "step-0000000100.safetensors", "step-0000000300.safetensors.bak"}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
	if err := Prune(dir, 100, 0); err == nil || len(names(t, dir)) != len(want) {
		t.Errorf("keep 0: %v", err)
	}
}

// A resume goes on from a whole checkpoint behind damaged ones: these must not
// crowd out what it writes.
func TestPruneDropsLaterStepsThanTheOneWritten(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, 80, 90, 95)
	for _, step := range []int64{100, 110} {
		if err := os.WriteFile(StepPath(dir, step), []byte("torn"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Prune(dir, 95, 2); err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, dir), []string{"step-0000000090.safetensors", "step-0000000095.safetensors"}; !slices.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
}

func TestFailedWriteLeavesTheOldFileAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, 1)
	before, _ := os.ReadFile(StepPath(dir, 1))
	// The rename fails: a directory is in the way.
	if err := os.MkdirAll(filepath.Join(StepPath(dir, 2), "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	tensors, _ := sample()
	if _, err := Write(StepPath(dir, 2), nil, tensors); err == nil {
		t.Error("a directory was overwritten")
	}
	if _, err := Write(StepPath(filepath.Join(dir, "absent"), 1), nil, tensors); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent directory: %v", err)
	}
	after, _ := os.ReadFile(StepPath(dir, 1))
	if string(before) != string(after) || len(names(t, dir)) != 2 {
		t.Errorf("left %v", names(t, dir))
	}
}

func TestFullDisk(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip("needs ", full)
	}
	path := StepPath(t.TempDir(), 1)
	if err := os.Symlink(full, asidePath(path)); err != nil {
		t.Fatal(err)
	}
	tensors, meta := sample()
	if _, err := Write(path, meta, tensors); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want %v", err, syscall.ENOSPC)
	}
	if left := names(t, filepath.Dir(path)); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestKilledWriter kills a process that overwrites one checkpoint without pause: at
// whatever moment it dies, the file is whole.
func TestKilledWriter(t *testing.T) {
	const directory = "CHECKPOINT_TEST_WRITER"
	if dir := os.Getenv(directory); dir != "" {
		weights := make([]float32, 1<<18)
		for step := int64(1); ; step++ {
			weights[0] = float32(step)
			_, err := Write(StepPath(dir, 1), nil, []Tensor{{Name: "w", Shape: []int{len(weights)}, F32: weights}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	asides := 0
	for try := range 6 {
		writer := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
		writer.Env = append(os.Environ(), directory+"="+dir)
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(20 * time.Second)
		for {
			if _, err := os.Stat(StepPath(dir, 1)); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the writer wrote nothing")
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(30+7*try) * time.Millisecond)
		if err := writer.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = writer.Wait() // it was killed
		path, skipped, err := Latest(dir)
		if err != nil || len(skipped) > 0 {
			t.Fatalf("try %d: %s, %v, %v", try, path, skipped, err)
		}
		asides += len(names(t, dir)) - 1
		if err := Prune(dir, 1<<62, 1); err != nil {
			t.Fatal(err)
		}
		if left := names(t, dir); len(left) != 1 {
			t.Errorf("try %d: left %v", try, left)
		}
	}
	t.Logf("killed in the middle of a write %d times of 6", asides)
}
