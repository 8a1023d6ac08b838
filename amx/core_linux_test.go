package amx

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// claimingChild is the environment variable that turns TestClaimingChild into a
// process that claims a core, says which, and holds it until it is killed.
const claimingChild = "HARNESS_TEST_CLAIM_IN"

func TestClaimingChild(t *testing.T) {
	dir := os.Getenv(claimingChild)
	if dir == "" {
		t.Skip("runs only as the child of TestClaimCore")
	}
	core, err := ClaimCore(dir)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("claimed %d\n", core.ID)
	io.Copy(io.Discard, os.Stdin) // until the parent kills us or goes away
	runtime.KeepAlive(core)
}

// startChild returns a process that holds a core in dir, and the core's number (-1: none was free).
func startChild(t *testing.T, dir string) (*exec.Cmd, int) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestClaimingChild$")
	child.Env = append(os.Environ(), claimingChild+"="+dir)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); child.Process.Kill(); child.Wait() })
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if number, found := strings.CutPrefix(lines.Text(), "claimed "); found {
			id, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			return child, id
		}
	}
	t.Fatalf("the child claimed nothing: %v", lines.Err())
	return nil, 0
}

func affinity(t *testing.T, thread int) unix.CPUSet {
	t.Helper()
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(thread, &mask); err != nil && !errors.Is(err, unix.ESRCH) {
		t.Fatal(err)
	}
	return mask
}

func claimHere(t *testing.T, dir string) *Core {
	t.Helper()
	core, err := ClaimCore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { core.Release() })
	return core
}

func TestClaimCore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cores")
	before := affinity(t, 0)
	child, childCore := startChild(t, dir)
	highest := maxCores - 1
	for !before.IsSet(highest) {
		highest--
	}
	if childCore != highest {
		t.Errorf("the first claim took core %d, want the highest of the mask, %d", childCore, highest)
	}

	core := claimHere(t, dir)
	if core.Pinned == core.Oversubscribed || core.Oversubscribed != (before.Count() == 1) {
		t.Fatalf("second claim of %d cores: %+v", before.Count(), core)
	}
	if core.Pinned {
		if core.ID == childCore || !before.IsSet(core.ID) {
			t.Errorf("two processes hold core %d (mask has %d cores)", core.ID, before.Count())
		}
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			id, _ := strconv.Atoi(task.Name())
			if mask := affinity(t, id); mask.Count() != 0 && (mask.Count() != 1 || !mask.IsSet(core.ID)) {
				t.Errorf("thread %d may run on %d cores, want core %d alone", id, mask.Count(), core.ID)
			}
		}
	}
	if err := core.Release(); err != nil {
		t.Fatal(err)
	}
	if err := core.Release(); err != nil {
		t.Errorf("second Release: %v", err)
	}
	if affinity(t, 0) != before {
		t.Error("Release did not restore the affinity mask")
	}

	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	if again := claimHere(t, dir); again.ID != childCore {
		t.Errorf("after its holder was killed, core %d is not free: got %+v", childCore, again)
	}
}

func TestOversubscribed(t *testing.T) {
	dir := t.TempDir()
	before := affinity(t, 0)
	for range before.Count() {
		startChild(t, dir)
	}
	core := claimHere(t, dir)
	if !core.Oversubscribed || core.Pinned || core.ID != -1 {
		t.Errorf("with every core claimed: %+v", core)
	}
	if affinity(t, 0) != before {
		t.Error("a claim that failed changed the affinity mask")
	}
}

func TestClaimCoreErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ClaimCore(filepath.Join(file, "cores")); !errors.As(err, new(*fs.PathError)) {
		t.Errorf("lock directory inside a file: got %v, want a path error", err)
	}
}
