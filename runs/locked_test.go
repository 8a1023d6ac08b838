package runs

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// holdLock keeps everybody else from writing until its input ends.
func holdLock(dir string) error {
	db, err := sql.Open("sqlite3", filepath.Join(dir, "harness.db"))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`PRAGMA busy_timeout = 5000; BEGIN EXCLUSIVE`); err != nil {
		return err
	}
	fmt.Println("locked")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return db.Close()
}

// lock has another process hold the database's lock until unlock is called.
func lock(t *testing.T, dir string) (unlock func()) {
	t.Helper()
	cmd := childOf(t, self(t), "lock", dir)
	in := must[io.WriteCloser](t)(cmd.StdinPipe())
	out := must[io.ReadCloser](t)(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the locking process said %q (%v)", line, err)
	}
	return func() {
		t.Helper()
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

func spoolFiles(t *testing.T, s *Store, run string) []string {
	t.Helper()
	return must[[]string](t)(filepath.Glob(filepath.Join(s.RunDir(run), "unwritten-*")))
}

func TestFlushEndsWithItsContextWhileACommitWaitsForTheLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	run := create(t, s, "locked")
	rec := begin(t, s, run.ID, 0)
	rec.OnError(func(err error) { t.Errorf("a commit that only has to wait has failed: %v", err) })
	unlock := lock(t, dir)
	rec.Metric("loss", 1, 1, 1)
	for range 2 { // the first sets off the commit that the second finds waiting
		rec.Metric("loss", 2, 2, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		err := rec.Flush(ctx)
		cancel()
		if took := time.Since(began); took > time.Second {
			t.Errorf("Flush took %v beyond its context", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), run.ID) {
			t.Errorf("Flush: %v, want the deadline's error, with the run", err)
		}
	}
	unlock()
	// The commit that was on its way goes through, and the rest with the next.
	deadline := time.Now().Add(2 * time.Second)
	for len(pointsOf(t, s, run.ID)) < 3 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	if n := len(pointsOf(t, s, run.ID)); n != 3 {
		t.Errorf("%d points once the lock is free, want 3", n)
	}
	finish(t, rec, Finished)
	if err := rec.Flush(t.Context()); !errors.Is(err, ErrFinished) {
		t.Errorf("Flush after Finish: %v, want ErrFinished", err)
	}
}

func pointsOf(t *testing.T, s *Store, run string) (points []Point) {
	t.Helper()
	for _, one := range must[[]Series](t)(s.Series(t.Context(), run)) {
		points = append(points, one.Points...)
	}
	return points
}

func TestFinishOfALockedDatabaseIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		lock, finish time.Duration
	}{
		{"its own commit has to wait", busyTimeout, time.Second},
		{"an earlier commit does not end", time.Hour, 500 * time.Millisecond},
		{"the lock's patience ends first", 100 * time.Millisecond, 15 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir)
			run := create(t, s, "locked")
			s.patience.lock, s.patience.finish = c.lock, c.finish
			rec := begin(t, s, run.ID, 0)
			rec.Metric("loss", 1, 1, 1)
			if err := rec.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			unlock := lock(t, dir)
			rec.Metric("loss", 2, 2, 2)
			if c.lock == time.Hour {
				time.Sleep(commitEvery + 100*time.Millisecond)
			}
			began := time.Now()
			err := rec.Finish(t.Context(), Failed, "no more memory")
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("Finish took %v", took)
			}
			files := spoolFiles(t, s, run.ID)
			if len(files) != 1 {
				t.Fatalf("files %v, want one", files)
			}
			if err == nil || !strings.Contains(err.Error(), files[0]) || !strings.Contains(err.Error(), run.ID) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Finish: %v, want one line with the run and %s", err, files[0])
			}
			if c.lock != time.Hour && !strings.Contains(err.Error(), "database is locked") {
				t.Errorf("Finish does not say that the database is locked: %v", err)
			}
			unlock()
			must[int](t)(s.Recover(t.Context(), run.ID))
			found := must[Run](t)(s.Find(t.Context(), run.ID))
			if n := len(pointsOf(t, s, run.ID)); n != 2 || found.State != Failed || found.Step != 2 || found.Attempts[0].Message != "no more memory" {
				t.Errorf("%d points, run %+v", n, found)
			}
		})
	}
}

func TestWritesOfALockedStoreEndWithTheirContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	run := create(t, s, "locked")
	defer lock(t, dir)()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := s.Begin(ctx, run.ID, AttemptInfo{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Begin: %v", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("Begin took %v beyond its context", took)
	}
}

// overflow records steps 1 to 3000 while the database is locked, calls then, and waits for them to go to a file.
func overflow(t *testing.T, s *Store, rec *Recorder, run string, then func()) {
	t.Helper()
	rec.Define("loss", "bits", "lower")
	for step := int64(1); step <= 3000; step++ {
		rec.Metric("loss", step, 10*step, float64(step))
	}
	then()
	inMemory := func() int {
		rec.mu.Lock()
		defer rec.mu.Unlock()
		return len(rec.pending)
	}
	// Some may be recorded while a file is on its way.
	for deadline := time.Now().Add(3 * time.Second); len(spoolFiles(t, s, run)) == 0 || inMemory() >= 3000; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("files %v, %d records stay in memory", spoolFiles(t, s, run), inMemory())
		}
	}
}

func checkOverflow(t *testing.T, s *Store, run string) {
	t.Helper()
	series := must[[]Series](t)(s.Series(t.Context(), run))
	if len(series) != 1 || len(series[0].Points) != 3001 || series[0].Unit != "nats" {
		t.Errorf("%d series, of %d points: want 3001 points in nats, as last defined", len(series), len(pointsOf(t, s, run)))
	}
	if found := must[Run](t)(s.Find(t.Context(), run)); found.Step != 3001 || found.Tokens != 30010 {
		t.Errorf("run at step %d, tokens %d; want 3001, 30010", found.Step, found.Tokens)
	}
	if files := spoolFiles(t, s, run); len(files) != 0 {
		t.Errorf("left over: %v", files)
	}
}

func TestWhatIsTooMuchForMemoryGoesToAFileAndBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		rows  int
		later time.Duration // that the records come after the first failure
	}{
		{"many records", 1000, 0},
		{"a long time", 200_000, 11 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir)
			var ahead atomic.Int64 // of the clock
			s.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			run := create(t, s, "locked for long")
			s.patience.lock, s.patience.rows = 100*time.Millisecond, c.rows
			rec := begin(t, s, run.ID, 0)
			unlock := lock(t, dir)
			rec.Event(0, "early", "")
			if err := rec.Flush(t.Context()); err == nil {
				t.Fatal("a locked database took the records")
			}
			if files := spoolFiles(t, s, run.ID); len(files) != 0 {
				t.Errorf("gone to a file at once: %v", files)
			}
			overflow(t, s, rec, run.ID, func() { ahead.Store(int64(c.later)) })
			if rec.Err() == nil {
				t.Error("Err() is nil while the database lacks records")
			}
			copies := map[string][]byte{}
			for _, path := range spoolFiles(t, s, run.ID) {
				copies[path] = must[[]byte](t)(os.ReadFile(path))
			}
			unlock()
			rec.Define("loss", "nats", "lower")
			rec.Metric("loss", 3001, 30010, 1)
			if err := rec.Flush(t.Context()); err != nil { // before Finish: the run in view is whole
				t.Fatal(err)
			}
			checkOverflow(t, s, run.ID)
			finish(t, rec, Finished)
			// As if it had died between the commit and the removal: nothing doubles or steps back.
			for path, data := range copies {
				if err := os.WriteFile(path, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			must[int](t)(s.Recover(t.Context(), run.ID))
			if found := must[Run](t)(s.Find(t.Context(), run.ID)); found.Step != 3001 || found.Tokens != 30010 || len(pointsOf(t, s, run.ID)) != 3001 {
				t.Errorf("after taking in once more: step %d, tokens %d, %d points", found.Step, found.Tokens, len(pointsOf(t, s, run.ID)))
			}
		})
	}
}

func TestFinishNamesEarlierFilesToo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	run := create(t, s, "locked to the end")
	s.patience.lock, s.patience.rows = 100*time.Millisecond, 1000
	rec := begin(t, s, run.ID, 0)
	unlock := lock(t, dir)
	overflow(t, s, rec, run.ID, func() {})
	earlier := len(spoolFiles(t, s, run.ID))
	rec.Define("loss", "nats", "lower")
	rec.Metric("loss", 3001, 30010, 1)
	err := rec.Finish(t.Context(), Interrupted, "")
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in %d files beside it", earlier)) {
		t.Errorf("Finish: %v, want a word on %d earlier files", err, earlier)
	}
	unlock()
	must[int](t)(s.Recover(t.Context(), run.ID))
	checkOverflow(t, s, run.ID)
	if found := must[Run](t)(s.Find(t.Context(), run.ID)); found.State != Interrupted {
		t.Errorf("run is %s", found.State)
	}
}

func TestFinishSaysWhatIsLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	run := create(t, s, "locked, and its directory gone")
	s.patience.lock = 100 * time.Millisecond
	rec := begin(t, s, run.ID, 0)
	defer lock(t, dir)()
	if err := os.RemoveAll(s.RunDir(run.ID)); err != nil {
		t.Fatal(err)
	}
	rec.Metric("loss", 1, 1, 1)
	err := rec.Finish(t.Context(), Failed, "")
	if err == nil || !strings.Contains(err.Error(), "3 records are lost") || !strings.Contains(err.Error(), run.ID) || strings.Contains(err.Error(), "kept") {
		t.Errorf("Finish: %v, want that 3 records are lost", err)
	}
}

// The path of a store is no pattern.
func TestRecoverReadsAStoreWhosePathLooksLikeAPattern(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "st[1]*?"))
	run := must[Run](t)(s.Create(t.Context(), NewRun{Name: "odd"}))
	if err := os.WriteFile(filepath.Join(s.RunDir(run.ID), "unwritten-1.jsonl"), []byte("no record\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Recover(t.Context(), run.ID); err == nil {
		t.Errorf("a file that is no spool was passed over: %d records", n)
	}
}

func TestReachedMovesTheStepOfARunForward(t *testing.T) {
	s := open(t, t.TempDir())
	run := must[Run](t)(s.Create(t.Context(), NewRun{Name: "far"}))
	r := must[*Recorder](t)(s.Begin(t.Context(), run.ID, AttemptInfo{}))
	r.Metric("x", 8, 80, 1)
	r.Reached(10, 100)
	r.Reached(3, 30)
	if err := r.Finish(t.Context(), Interrupted, ""); err != nil {
		t.Fatal(err)
	}
	if got := must[Run](t)(s.Find(t.Context(), run.ID)); got.Step != 10 || got.Tokens != 100 {
		t.Errorf("step %d, %d tokens; want 10 and 100", got.Step, got.Tokens)
	}
}
