package runs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func create(t testing.TB, s *Store, name string) Run {
	t.Helper()
	r, err := s.Create(t.Context(), NewRun{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func begin(t testing.TB, s *Store, id string, from int64) *Recorder {
	t.Helper()
	r, err := s.Begin(t.Context(), id, AttemptInfo{FromStep: from})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func finish(t testing.TB, r *Recorder, state State) {
	t.Helper()
	if err := r.Finish(t.Context(), state, ""); err != nil {
		t.Fatal(err)
	}
}

// must turns a read that has to succeed into its value.
func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// sameFloat is equality with NaN equal to itself.
func sameFloat(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func TestNonFiniteAndOddValuesComeBackAsThemselves(t *testing.T) {
	s := open(t, t.TempDir())
	run := create(t, s, "odd")
	rec := begin(t, s, run.ID, 0)
	values := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 1e20, 1e-300, 1.0 / 3, -7, math.MaxFloat64}
	names := []string{"train/loss", "MAP@k", "[x=1]", "損失 🔥", "</script>", "", "a'b\"c", "nul\x00inside", "\xff\xfe", "x;--"}
	const far = int64(1) << 40
	for _, name := range names {
		rec.Define(name, "nats", "lower")
		for i, v := range values {
			rec.Metric(name, far+int64(i), 10*far, v)
		}
	}
	rec.Define("defined but never recorded", "", "")
	rec.Score(Score{Step: far, Name: "shift", Value: 0.5, Low: math.Inf(-1), High: math.NaN(), Chance: math.NaN(), N: 500, Seed: 1 << 62, Unit: "accuracy"})
	generation := Generation{Step: far, Tokens: 7, Index: 3, Prompt: "\xc3(", Text: "</script>\x00\xff", Reference: "",
		Scores: map[string]float64{"nan": math.NaN(), "inf": math.Inf(1), "-inf": math.Inf(-1), "": 0.25, "</script>": 1e20}}
	rec.Generation(generation)
	table := Table{Step: 1, Name: "tokens", Columns: []string{"token", "count"}, Rows: [][]string{{"\xe2\x82", "1"}, {"<b>", "2"}}}
	rec.Table(table)
	artifact := Artifact{Step: 5, Kind: "checkpoint", Path: "runs/x/5.safetensors", SHA256: "ab", Bytes: 1 << 33}
	rec.Artifact(artifact)
	finish(t, rec, Finished)

	series := must[[]Series](t)(s.Series(t.Context(), run.ID))
	if len(series) != len(names) {
		t.Fatalf("%d series, want %d", len(series), len(names))
	}
	byName := map[string]Series{}
	for _, one := range series {
		byName[one.Name] = one
	}
	for _, name := range names {
		one, ok := byName[name]
		if !ok || one.Unit != "nats" || one.Better != "lower" || len(one.Points) != len(values) {
			t.Fatalf("series %q: %+v", name, one)
		}
		for i, v := range values {
			if p := one.Points[i]; !sameFloat(p.Value, v) || p.Step != far+int64(i) || p.Tokens != 10*far || p.Attempt != 1 || p.Elapsed <= 0 {
				t.Errorf("series %q point %d: %+v, want value %v", name, i, p, v)
			}
		}
	}

	scores := must[[]Score](t)(s.Scores(t.Context(), run.ID))
	if len(scores) != 1 || scores[0].Value != 0.5 || !math.IsInf(scores[0].Low, -1) || !math.IsNaN(scores[0].High) ||
		scores[0].Seed != 1<<62 || scores[0].N != 500 || scores[0].Unit != "accuracy" || scores[0].Attempt != 1 {
		t.Errorf("scores: %+v", scores)
	}

	generations := must[[]Generation](t)(s.Generations(t.Context(), run.ID))
	if len(generations) != 1 {
		t.Fatalf("generations: %+v", generations)
	}
	got := generations[0]
	if got.Prompt != generation.Prompt || got.Text != generation.Text || got.Index != 3 || len(got.Scores) != len(generation.Scores) {
		t.Errorf("generation: %+v", got)
	}
	for name, v := range generation.Scores {
		if !sameFloat(got.Scores[name], v) {
			t.Errorf("score %q of a generation: %v, want %v", name, got.Scores[name], v)
		}
	}

	tables := must[[]Table](t)(s.Tables(t.Context(), run.ID))
	if len(tables) != 1 || !reflect.DeepEqual(tables[0].Rows, table.Rows) || !reflect.DeepEqual(tables[0].Columns, table.Columns) {
		t.Errorf("tables: %+v", tables)
	}
	artifacts := must[[]Artifact](t)(s.Artifacts(t.Context(), run.ID))
	if len(artifacts) != 1 || artifacts[0].Path != artifact.Path || artifacts[0].Bytes != artifact.Bytes || artifacts[0].SHA256 != "ab" {
		t.Errorf("artifacts: %+v", artifacts)
	}
}

func TestResumeReplacesTheTailInViewAndDeletesNothing(t *testing.T) {
	s := open(t, t.TempDir())
	run := create(t, s, "resumed")
	write := func(from, to int64, value float64, state State) {
		rec := begin(t, s, run.ID, from)
		for step := from + 1; step <= to; step++ {
			rec.Metric("loss", step, 100*step, value)
		}
		rec.Score(Score{Step: to, Name: "shift", Value: value})
		rec.Generation(Generation{Step: to, Text: "at the end"})
		rec.Artifact(Artifact{Step: to, Kind: "checkpoint"})
		rec.Table(Table{Step: to, Name: "t"})
		rec.Event(to, "end", "of an attempt")
		finish(t, rec, state)
	}
	write(0, 6, 1, Interrupted)
	write(4, 8, 2, Failed)
	write(2, 3, 3, Interrupted) // from an earlier checkpoint than the last
	// The fourth attempt dies before it records anything; it restarted after step 3.
	finish(t, begin(t, s, run.ID, 3), Failed)

	series := must[[]Series](t)(s.Series(t.Context(), run.ID))
	var steps []int64
	var attempts []int
	for _, p := range series[0].Points {
		steps, attempts = append(steps, p.Step), append(attempts, p.Attempt)
	}
	if !reflect.DeepEqual(steps, []int64{1, 2, 3}) || !reflect.DeepEqual(attempts, []int{1, 1, 3}) {
		t.Errorf("in view: steps %v of attempts %v, want 1 2 3 of 1 1 3", steps, attempts)
	}
	scores := must[[]Score](t)(s.Scores(t.Context(), run.ID))
	generations := must[[]Generation](t)(s.Generations(t.Context(), run.ID))
	artifacts := must[[]Artifact](t)(s.Artifacts(t.Context(), run.ID))
	tables := must[[]Table](t)(s.Tables(t.Context(), run.ID))
	if len(scores) != 1 || scores[0].Attempt != 3 || len(generations) != 1 || len(artifacts) != 1 || len(tables) != 1 {
		t.Errorf("in view: %v, %v, %v, %v; want the third attempt's alone", scores, generations, artifacts, tables)
	}
	events := must[[]Event](t)(s.Events(t.Context(), run.ID))
	if len(events) != 3 || events[1].Attempt != 2 || events[1].Step != 8 {
		t.Errorf("events: %+v, want those of all three attempts", events)
	}
	var stored int
	if err := s.db.QueryRow(`SELECT count(*) FROM points`).Scan(&stored); err != nil || stored != 6+4+1 {
		t.Errorf("%d points stored (%v), want all 11", stored, err)
	}
	found := must[Run](t)(s.Find(t.Context(), "resumed"))
	if found.State != Failed || len(found.Attempts) != 4 || found.Step != 3 || found.Tokens != 300 {
		t.Errorf("run: state %s, %d attempts, step %d, tokens %d; want failed, 4, 3, 300", found.State, len(found.Attempts), found.Step, found.Tokens)
	}
	if a := found.Attempts[1]; a.FromStep != 4 || a.Step != 8 || a.Tokens != 800 || a.Number != 2 || a.Ended.Before(a.Started) || a.PID != os.Getpid() {
		t.Errorf("second attempt: %+v", a)
	}
}

func TestAnAttemptStartsFromTheTokensOfItsFirstStep(t *testing.T) {
	s := open(t, t.TempDir())
	run := create(t, s, "restarted")
	rec := begin(t, s, run.ID, 0)
	for step := int64(1); step <= 9; step++ {
		rec.Metric("loss", step, 100*step, 1)
	}
	finish(t, rec, Interrupted)
	finish(t, begin(t, s, run.ID, 4), Failed)
	if found := must[Run](t)(s.Find(t.Context(), run.ID)); found.Step != 4 || found.Tokens != 400 {
		t.Errorf("after a restart from step 4 the run is at step %d, tokens %d", found.Step, found.Tokens)
	}
}

func TestBeginRefusesARunningRun(t *testing.T) {
	s := open(t, t.TempDir())
	run := create(t, s, "once")
	if run.State != Pending {
		t.Errorf("a run without attempts is %s", run.State)
	}
	rec := begin(t, s, run.ID, 0)
	if _, err := s.Begin(t.Context(), run.ID, AttemptInfo{}); !errors.Is(err, ErrRunning) {
		t.Errorf("second Begin: %v, want ErrRunning", err)
	}
	if _, err := s.Begin(t.Context(), "nosuchrun", AttemptInfo{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("Begin of nothing: %v, want ErrNotFound", err)
	}
	if err := rec.Finish(t.Context(), Crashed, ""); err == nil {
		t.Error("Finish accepted a state that is only ever derived")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := rec.Finish(cancelled, Interrupted, "ctrl-c"); err != nil {
		t.Fatalf("Finish of a cancelled run: %v", err)
	}
	if err := rec.Finish(t.Context(), Failed, ""); !errors.Is(err, ErrFinished) {
		t.Errorf("second Finish: %v, want ErrFinished", err)
	}
	found := must[Run](t)(s.Find(t.Context(), "latest"))
	if found.State != Interrupted || found.Attempts[0].Message != "ctrl-c" {
		t.Errorf("run: %+v", found)
	}
}

func TestCloseEndsWhatIsStillOpen(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	run := create(t, s, "left open")
	begin(t, s, run.ID, 0).Metric("loss", 1, 1, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if found := must[Run](t)(s.Find(t.Context(), run.ID)); found.State != Failed || found.Step != 1 {
		t.Errorf("run: state %s, step %d; want failed, 1", found.State, found.Step)
	}
}

func TestRecordsAreCommittedWithinASecondWithoutFinish(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	run := create(t, s, "live")
	rec := begin(t, s, run.ID, 0)
	reader := must[*Store](t)(OpenReadOnly(dir))
	defer reader.Close()
	rec.Metric("loss", 1, 1, 1)
	for deadline := time.Now().Add(time.Second); ; time.Sleep(20 * time.Millisecond) {
		if series := must[[]Series](t)(reader.Series(t.Context(), run.ID)); len(series) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("not committed after a second")
		}
	}
	if found := must[Run](t)(reader.Find(t.Context(), run.ID)); found.State != Running || found.Step != 1 {
		t.Errorf("run: %s at step %d, want running at 1", found.State, found.Step)
	}
	finish(t, rec, Finished)
}

// limitPages makes the database full at that many pages, or at those it has if
// they are more. It holds for one connection, such as the writer's.
func limitPages(t *testing.T, s *Store, pages int) {
	t.Helper()
	if _, err := s.writer.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages)); err != nil {
		t.Fatal(err)
	}
}

func TestAFullDiskLosesNothing(t *testing.T) {
	s := open(t, t.TempDir())
	run := create(t, s, "full")
	rec := begin(t, s, run.ID, 0)
	var mu sync.Mutex
	var told []error
	rec.OnError(func(err error) { mu.Lock(); told = append(told, err); mu.Unlock() })

	long := strings.Repeat("a long text ", 4000)
	const points = 50
	limitPages(t, s, 1)
	rec.Generation(Generation{Step: points, Text: long + "\xff", Scores: map[string]float64{"nan": math.NaN()}})
	for step := int64(1); step <= points; step++ {
		rec.Metric("loss", step, step, math.NaN())
	}
	rec.Event(points, "k", "42")
	for range 3 {
		if err := rec.Flush(t.Context()); err == nil {
			t.Fatal("a full disk took the records")
		}
	}
	if rec.Err() == nil {
		t.Error("Err() is nil while records cannot be written")
	}
	mu.Lock()
	if len(told) != 1 {
		t.Errorf("told of %d errors, want 1: %v", len(told), told)
	}
	mu.Unlock()

	err := rec.Finish(t.Context(), Interrupted, "disk full")
	spooled := filepath.Join(s.RunDir(run.ID), "unwritten-1.jsonl")
	if err == nil || !strings.Contains(err.Error(), spooled) {
		t.Fatalf("Finish: %v, want an error that names %s", err, spooled)
	}
	if !strings.Contains(err.Error(), "full") {
		t.Errorf("Finish does not say that the disk is full: %v", err)
	}

	limitPages(t, s, 1_000_000)
	for range 2 {
		copied := must[[]byte](t)(os.ReadFile(spooled))
		n := must[int](t)(s.Recover(t.Context(), run.ID))
		if n != points+2+2 {
			t.Errorf("took in %d records, want %d", n, points+2+2)
		}
		if _, err := os.Stat(spooled); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", spooled, err)
		}
		// Once more, as after a crash between commit and removal: nothing doubles.
		if err := os.WriteFile(spooled, copied, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	series := must[[]Series](t)(s.Series(t.Context(), run.ID))
	if len(series) != 1 || len(series[0].Points) != points || !math.IsNaN(series[0].Points[0].Value) {
		t.Errorf("series: %+v", series)
	}
	generations := must[[]Generation](t)(s.Generations(t.Context(), run.ID))
	if len(generations) != 1 || generations[0].Text != long+"\xff" || !math.IsNaN(generations[0].Scores["nan"]) {
		t.Errorf("%d generations", len(generations))
	}
	events := must[[]Event](t)(s.Events(t.Context(), run.ID))
	if len(events) != 1 || events[0].Text != "42" {
		t.Errorf("events: %+v", events)
	}
	if found := must[Run](t)(s.Find(t.Context(), run.ID)); found.State != Interrupted || found.Step != points || found.Attempts[0].Message != "disk full" {
		t.Errorf("run: %+v", found)
	}

	if err := os.WriteFile(spooled, []byte(`{"write":"point","row":{"attempt":1}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(t.Context(), run.ID, AttemptInfo{}); err == nil || !strings.Contains(err.Error(), spooled) {
		t.Errorf("a spoilt file: %v, want an error that names it", err)
	}
}

func TestRecorderRecoversWhenTheDiskDoes(t *testing.T) {
	s := open(t, t.TempDir())
	run := create(t, s, "full for a while")
	rec := begin(t, s, run.ID, 0)
	limitPages(t, s, 1)
	rec.Event(1, "long", strings.Repeat("x", 1<<20))
	if err := rec.Flush(t.Context()); err == nil {
		t.Fatal("a full disk took the record")
	}
	limitPages(t, s, 1_000_000)
	rec.Event(2, "short", "")
	finish(t, rec, Finished)
	if events := must[[]Event](t)(s.Events(t.Context(), run.ID)); len(events) != 2 || len(events[0].Text) != 1<<20 {
		t.Errorf("%d events, want 2", len(events))
	}
	if err := rec.Err(); err != nil {
		t.Errorf("Err() after recovery: %v", err)
	}
}
