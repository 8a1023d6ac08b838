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

func TestWithoutLocksNothingIsPinned(t *testing.T) {
	top := t.TempDir()
	before := affinity(t, 0)
	file := filepath.Join(top, "file") // that links lead to, too: nobody's lock
	link := filepath.Join(top, "link")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(top, link)); err != nil {
		t.Fatal(err)
	}
	linked, fifos := filepath.Join(top, "linked"), filepath.Join(top, "fifos")
	if err := errors.Join(os.Mkdir(linked, 0o755), os.Mkdir(fifos, 0o755)); err != nil {
		t.Fatal(err)
	}
	for id := range maxCores {
		name := fmt.Sprintf("core-%d.lock", id)
		if before.IsSet(id) {
			if err := errors.Join(os.Symlink(file, filepath.Join(linked, name)), unix.Mkfifo(filepath.Join(fifos, name), 0o666)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, dir := range []string{file, filepath.Join(file, "cores"), link, filepath.Join(top, "none", "cores"), linked, fifos} {
		core := claimHere(t, dir)
		if core.Pinned || core.Oversubscribed || core.ID != -1 || !strings.Contains(core.Reason, dir) {
			t.Errorf("locks in %s: %+v", dir, core)
		}
		if err := core.Release(); err != nil {
			t.Errorf("release of nothing: %v", err)
		}
	}
	if affinity(t, 0) != before {
		t.Error("a claim that failed changed the affinity mask")
	}
}

func TestLocksAreEverybodys(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	dir := filepath.Join(t.TempDir(), "cores")
	core := claimHere(t, dir)
	if !core.Pinned || core.Reason != "" {
		t.Fatalf("%+v", core)
	}
	for path, want := range map[string]fs.FileMode{dir: fs.ModeDir | fs.ModeSticky | 0o777, filepath.Join(dir, fmt.Sprintf("core-%d.lock", core.ID)): 0o666} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, want %v (%v)", path, info.Mode(), want, err)
		}
	}
}

// TestUsersMeet claims as root what another user has made a lock for: Linux denies
// even root an open with O_CREAT there if fs.protected_regular is set.
func TestUsersMeet(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give a file to another user")
	}
	dir := filepath.Join(t.TempDir(), "cores")
	core := claimHere(t, dir)
	if err := core.Release(); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	lock := filepath.Join(dir, fmt.Sprintf("core-%d.lock", core.ID))
	if err := errors.Join(os.Chown(dir, nobody-1, nobody-1), os.Chown(lock, nobody, nobody)); err != nil {
		t.Skipf("cannot give files away: %v", err)
	}
	if again := claimHere(t, dir); again.ID != core.ID {
		t.Errorf("with another user's lock: %+v, want core %d", again, core.ID)
	}
}

func TestLockDirIsTheMachines(t *testing.T) {
	t.Setenv(LockDirVariable, "")
	before := DefaultLockDir()
	jobs := t.TempDir()
	if err := os.Chmod(jobs, fs.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", jobs)
	if after := DefaultLockDir(); after != before {
		t.Errorf("TMPDIR moves the locks from %s to %s", before, after)
	}
	t.Setenv(LockDirVariable, "/elsewhere")
	if got := DefaultLockDir(); got != "/elsewhere" {
		t.Errorf("%s is ignored: %s", LockDirVariable, got)
	}
	shared, own := t.TempDir(), t.TempDir()
	if err := errors.Join(os.Chmod(shared, fs.ModeSticky|0o777), os.Chmod(own, 0o755)); err != nil {
		t.Fatal(err)
	}
	if got := hostLockDir(shared, own); filepath.Dir(got) != shared {
		t.Errorf("a place for all is passed by: %s", got)
	}
	// Its owner may write there, but no one else would come.
	if got := hostLockDir(own, shared); filepath.Dir(got) != shared {
		t.Errorf("a place of one user is taken: %s", got)
	}
}
