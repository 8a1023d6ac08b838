package experiments

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be a run that can be killed.
func TestMain(m *testing.M) {
	if path := os.Getenv("HARNESS_TEST_RUN_SPEC"); path != "" {
		os.Exit(childRun(path, os.Getenv("HARNESS_TEST_RUN_STORE"), os.Getenv("HARNESS_TEST_RUN_REF")))
	}
	os.Exit(withOwnCache(m))
}

// withOwnCache keeps the user's cache out of the tests: the choice of kernels that
// one run measures, all others and all children take.
func withOwnCache(m *testing.M) int {
	dir, err := os.MkdirTemp("", "harness-cache-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("XDG_CACHE_HOME", dir)
	return m.Run()
}

// childRun runs, or resumes, telling its parent of every step on standard output. It
// may be asked to kill itself at "step N", or at "growth": between a growth step and
// the training step that follows.
func childRun(path, store, ref string) int {
	o := Options{Store: store, Observe: func(u Update) {
		var at string
		switch {
		case u.Stage == StageTrain:
			at = fmt.Sprint("step ", u.Done)
			fmt.Println(at)
		case strings.HasPrefix(u.Note, "growth before step "):
			at = "growth"
		}
		if at != "" && at == os.Getenv("HARNESS_TEST_RUN_DIE") {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}}
	var err error
	if ref != "" {
		_, err = Resume(context.Background(), ref, o)
	} else {
		var spec *Spec
		if spec, err = Load(path, nil); err == nil {
			_, err = Run(context.Background(), spec, o)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startChild starts a child that runs the spec at path, or resumes ref, and returns
// once the child has told of the given step, or has ended.
func startChild(t *testing.T, path, store, ref string, step int, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HARNESS_TEST_RUN_SPEC="+path, "HARNESS_TEST_RUN_STORE="+store, "HARNESS_TEST_RUN_REF="+ref)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var at int
		if n, _ := fmt.Sscanf(lines.Text(), "step %d", &at); n == 1 && at >= step {
			break
		}
	}
	return cmd
}

// kill ends a child with SIGKILL, if it has not ended by itself.
func kill(t *testing.T, child *exec.Cmd) {
	t.Helper()
	if err := child.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	child.Wait()
}

// killAt starts a child and kills it once it has told of the given step, after a
// further delay.
func killAt(t *testing.T, path, store, ref string, step int, delay time.Duration) {
	t.Helper()
	child := startChild(t, path, store, ref, step)
	time.Sleep(delay)
	kill(t, child)
}

// dieAt starts a child that kills itself at a place that childRun knows.
func dieAt(t *testing.T, path, store, ref, at string) {
	t.Helper()
	child := startChild(t, path, store, ref, math.MaxInt, "HARNESS_TEST_RUN_DIE="+at)
	child.Wait()
	if status, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("a child that was to die at %s ended by itself: %s", at, child.ProcessState)
	}
}
