package runs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary serve as a second process: RUNS_TEST_CHILD
// names what it does, its argument is the store.
func TestMain(m *testing.M) {
	children := map[string]func(dir string) error{"write": writeRuns, "stream": streamMetrics, "read-only": useReadOnly, "lock": holdLock}
	child, ok := children[os.Getenv("RUNS_TEST_CHILD")]
	if !ok {
		os.Exit(m.Run())
	}
	if err := child(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func childOf(t *testing.T, binary, job, dir string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), binary, dir)
	cmd.Env = append(os.Environ(), "RUNS_TEST_CHILD="+job)
	cmd.Stderr = os.Stderr
	return cmd
}

func self(t *testing.T) string {
	t.Helper()
	return must[string](t)(os.Executable())
}

const (
	writersPerProcess = 3
	pointsPerWriter   = 400
)

// writeRuns opens the store, which may not exist yet, and has several runs write at once.
func writeRuns(dir string) error {
	ctx := context.Background()
	s, err := Open(dir)
	if err != nil {
		return err
	}
	errs := make([]error, writersPerProcess)
	var wg sync.WaitGroup
	for i := range writersPerProcess {
		wg.Go(func() { errs[i] = writeRun(ctx, s) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return s.Close()
}

func writeRun(ctx context.Context, s *Store) error {
	run, err := s.Create(ctx, NewRun{Name: "shared"})
	if err != nil {
		return err
	}
	rec, err := s.Begin(ctx, run.ID, AttemptInfo{})
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	rec.OnError(func(err error) { failed <- err })
	for step := range int64(pointsPerWriter) {
		rec.Metric("loss", step, step, rand.Float64())
		rec.Metric("lr", step, step, rand.Float64())
		if step%50 == 0 {
			rec.Generation(Generation{Step: step, Text: "text", Scores: map[string]float64{"em": 1}})
			time.Sleep(100 * time.Millisecond)
		}
	}
	if err := rec.Finish(ctx, Finished, ""); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return fmt.Errorf("a commit failed on the way: %w", err)
	default:
		return nil
	}
}

func TestManyProcessesWriteAtOnce(t *testing.T) {
	dir := t.TempDir()
	const processes = 4
	var children []*exec.Cmd
	for range processes {
		cmd := childOf(t, self(t), "write", dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
	}
	for _, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Errorf("a writer failed: %v", err)
		}
	}
	s := open(t, dir)
	all := must[[]Run](t)(s.Runs(t.Context()))
	if len(all) != processes*writersPerProcess {
		t.Fatalf("%d runs, want %d", len(all), processes*writersPerProcess)
	}
	for _, run := range all {
		series := must[[]Series](t)(s.Series(t.Context(), run.ID))
		if len(series) != 2 || len(series[0].Points) != pointsPerWriter || len(series[1].Points) != pointsPerWriter || run.State != Finished {
			t.Errorf("run %s is %s and has %d series", run.ID, run.State, len(series))
		}
	}
}

// streamMetrics records a step every millisecond, and prints the step and the
// time once it is recorded, until it is killed.
func streamMetrics(dir string) error {
	ctx := context.Background()
	s, err := Open(dir)
	if err != nil {
		return err
	}
	run, err := s.Create(ctx, NewRun{Name: "doomed"})
	if err != nil {
		return err
	}
	rec, err := s.Begin(ctx, run.ID, AttemptInfo{})
	if err != nil {
		return err
	}
	for step := int64(1); ; step++ {
		rec.Metric("loss", step, step, 1/float64(step))
		fmt.Println(step, time.Now().UnixNano())
		time.Sleep(time.Millisecond)
	}
}

func TestKilledWriterLosesAtMostASecond(t *testing.T) {
	dir := t.TempDir()
	cmd := childOf(t, self(t), "stream", dir)
	out := must[io.ReadCloser](t)(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var step, at int64
	lines := bufio.NewScanner(out)
	var begun time.Time
	for lines.Scan() {
		stepText, atText, _ := strings.Cut(lines.Text(), " ")
		step, _ = strconv.ParseInt(stepText, 10, 64)
		at, _ = strconv.ParseInt(atText, 10, 64)
		if begun.IsZero() {
			begun = time.Now()
			if run := findAlone(t, dir); run.State != Running || run.Attempts[0].PID != cmd.Process.Pid {
				t.Errorf("while its process lives the run is %s of pid %d", run.State, run.Attempts[0].PID)
			}
		}
		if time.Since(begun) > 1700*time.Millisecond && cmd.Process != nil {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	for lines.Scan() { // what it printed before it died
		stepText, atText, _ := strings.Cut(lines.Text(), " ")
		step, _ = strconv.ParseInt(stepText, 10, 64)
		at, _ = strconv.ParseInt(atText, 10, 64)
	}
	// The parent has not reaped it yet; its pipe may close a moment before it is dead.
	state := findAlone(t, dir).State
	for deadline := time.Now().Add(2 * time.Second); state != Crashed && time.Now().Before(deadline); state = findAlone(t, dir).State {
		time.Sleep(5 * time.Millisecond)
	}
	if state != Crashed {
		t.Errorf("a killed run is %s before its process is reaped, want crashed", state)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the writer was not killed")
	}

	s := open(t, dir)
	var verdict string
	if err := s.db.QueryRow(`PRAGMA integrity_check`).Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity check: %s (%v)", verdict, err)
	}
	run := must[Run](t)(s.Find(t.Context(), "doomed"))
	if run.State != Crashed {
		t.Errorf("a killed run is %s, want crashed", run.State)
	}
	points := must[[]Series](t)(s.Series(t.Context(), run.ID))[0].Points
	last := points[len(points)-1]
	if lost := time.Unix(0, at).Sub(last.Time); lost > time.Second {
		t.Errorf("lost %v: step %d of %d is the last one kept", lost, last.Step, step)
	}
	if int64(len(points)) != last.Step || run.Step != last.Step {
		t.Errorf("%d points up to step %d, run at step %d: gaps", len(points), last.Step, run.Step)
	}
	// It can be resumed.
	finish(t, begin(t, s, run.ID, last.Step), Finished)
}

func findAlone(t *testing.T, dir string) Run {
	t.Helper()
	s := must[*Store](t)(OpenReadOnly(dir))
	defer s.Close()
	return must[Run](t)(s.Find(t.Context(), "latest"))
}

func TestAReusedPidOrAnotherBootIsNotTheSameProcess(t *testing.T) {
	s := open(t, t.TempDir())
	for change, want := range map[string]State{
		`state = state`:                          Running,
		`process_start = '1'`:                    Crashed,
		`boot_id = 'an earlier one'`:             Crashed,
		`host = 'elsewhere'`:                     Running,
		`host = 'elsewhere', heartbeat = 1`:      Crashed,
		`heartbeat = 1`:                          Running, // stopped with ctrl-Z, say
		`state = 'diverged', process_start = ''`: Diverged,
	} {
		run := create(t, s, change)
		rec := begin(t, s, run.ID, 0)
		if _, err := s.db.Exec(`UPDATE attempts SET `+change+` WHERE id = ?`, rec.attempt); err != nil {
			t.Fatal(err)
		}
		if got := must[Run](t)(s.Find(t.Context(), run.ID)).State; got != want {
			t.Errorf("%s: %s, want %s", change, got, want)
		}
		finish(t, rec, Finished)
	}
}

// useReadOnly prints what opening the store either way says.
func useReadOnly(dir string) error {
	_, err := Open(dir)
	fmt.Println("writable:", err)
	s, err := OpenReadOnly(dir)
	if err != nil {
		return err
	}
	found, err := s.Runs(context.Background())
	if err != nil {
		return err
	}
	fmt.Println("read:", len(found))
	return s.Close()
}

// Permissions do not bind root, so this runs as somebody else.
func TestStoreThatOneMayNotWrite(t *testing.T) {
	top := t.TempDir()
	for path := top; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Skipf("cannot open up %s: %v", path, err)
		}
	}
	binary := filepath.Join(top, "runs.test")
	data := must[[]byte](t)(os.ReadFile(self(t)))
	if err := os.WriteFile(binary, data, 0o755); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name    string
		live    bool // somebody has it open
		protect func(dir string) error
	}{
		{"directory", false, func(dir string) error { return os.Chmod(dir, 0o555) }},
		{"directory in use", true, func(dir string) error { return os.Chmod(dir, 0o555) }},
		{"directory after a crash", true, func(dir string) error {
			crashed := dir + " copied" // while it is in use, so with the log not yet taken in
			return errors.Join(os.CopyFS(crashed, os.DirFS(dir)), os.RemoveAll(dir), os.Rename(crashed, dir), os.Chmod(dir, 0o555))
		}},
		{"database alone", false, func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "harness.lock")),
				os.Chmod(filepath.Join(dir, "harness.db"), 0o444), os.Chmod(dir, 0o777))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(top, c.name)
			s := must[*Store](t)(Open(dir))
			create(t, s, "kept")
			if c.live {
				defer s.Close()
			} else if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := c.protect(dir); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(dir, 0o755)
			cmd := childOf(t, binary, "read-only", dir)
			if os.Geteuid() == 0 {
				const nobody = 65534
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			}
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if !strings.Contains(string(out), ErrReadOnly.Error()) || !strings.Contains(string(out), "read: 1") {
				t.Errorf("the other user saw: %s", out)
			}
		})
	}
}
