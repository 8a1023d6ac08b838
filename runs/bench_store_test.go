package runs

import (
	"database/sql"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func someBench() Bench {
	return Bench{
		Kind: BenchMachine, Started: time.Date(2026, 5, 4, 9, 12, 33, 7, time.UTC),
		Provenance: map[string]string{"cpu": "a <test> & more", "flags": "avx512f avx512vnni"},
		Results: []Measurement{
			{Group: GroupPeak, Name: "fp32", Value: 118, Unit: "GFLOP/s", Low: 116.5, High: 118.25, N: 7, Detail: map[string]string{}},
			{Group: GroupGemm, Name: "avx512 2048x256x1280", Value: 107, Unit: "GFLOP/s", Low: 101, High: 108, N: 5,
				Detail: map[string]string{"set": "avx512", "m": "2048", "of_peak": "0.91"}},
			{Group: GroupTrain, Name: TrainFlops, Value: 27.4, Unit: "MFLOP", Low: 27.4, High: 27.4, Detail: map[string]string{"formula": "3 x 2 x body"}},
			{Group: GroupPeak, Name: "fp32", Value: -1e-300, Unit: "µs", Low: -1, High: 0, N: 1, Detail: map[string]string{}},
		},
	}
}

func saved(t *testing.T, s *Store, b Bench) string {
	t.Helper()
	return must[string](t)(s.SaveBench(t.Context(), b))
}

func TestBenchRoundTrip(t *testing.T) {
	s := open(t, t.TempDir())
	want := someBench()
	want.ID = saved(t, s, want)
	got := must[Bench](t)(s.Bench(t.Context(), "", want.ID))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("saved\n%+v\ngot\n%+v", want, got)
	}
	want.Results = nil
	if all := must[[]Bench](t)(s.Benches(t.Context())); !reflect.DeepEqual(all, []Bench{want}) {
		t.Errorf("listed %+v", all)
	}
	before := time.Now()
	now := saved(t, s, Bench{Kind: BenchTrain, Results: []Measurement{{Group: GroupTrain, Name: "x", Value: 5, N: 1}}})
	b := must[Bench](t)(s.Bench(t.Context(), "", now))
	if b.Started.Before(before.Add(-time.Millisecond)) || b.Started.After(time.Now()) || b.Started.Location() != time.UTC {
		t.Errorf("a bench without a start has %v", b.Started)
	}
	if m := b.Results[0]; m.Low != 5 || m.High != 5 {
		t.Errorf("a figure without a spread is %+v", m)
	}
}

func TestBenchIsFound(t *testing.T) {
	s := open(t, t.TempDir())
	if _, err := s.Bench(t.Context(), BenchMachine, ""); !errors.Is(err, ErrNoBench) || !strings.Contains(err.Error(), s.Dir()) {
		t.Errorf("the newest of none: %v", err)
	}
	moment := time.Now()
	s.now = func() time.Time { moment = moment.Add(40 * time.Second); return moment }
	train := someBench()
	train.Kind = BenchTrain
	first, second, third := saved(t, s, someBench()), saved(t, s, someBench()), saved(t, s, train)
	if all := must[[]Bench](t)(s.Benches(t.Context())); len(all) != 3 || all[0].ID != third || all[2].ID != first {
		t.Errorf("not newest first: %+v", all)
	}
	unique := func(id string, others ...string) string {
		n := 1
		for strings.HasPrefix(others[0], id[:n]) || strings.HasPrefix(others[1], id[:n]) {
			n++
		}
		return id[:n]
	}
	for _, c := range []struct{ kind, ref, want string }{
		{"", "", third}, {BenchMachine, "", second}, {BenchTrain, "", third},
		{"", first, first}, {"", strings.ToLower(second), second}, {BenchTrain, first[:4], third},
		{"", unique(first, second, third), first}, {"", strings.ToLower(unique(second, first, third)), second},
	} {
		if b, err := s.Bench(t.Context(), c.kind, c.ref); err != nil || b.ID != c.want {
			t.Errorf("kind %q, %q: %q, %v", c.kind, c.ref, b.ID, err)
		}
	}
	if _, err := s.Bench(t.Context(), BenchMachine, third); !errors.Is(err, ErrNoBench) {
		t.Errorf("a bench of another kind: %v", err)
	}
	if _, err := s.Bench(t.Context(), "", "zzz"); !errors.Is(err, ErrNoBench) {
		t.Errorf("an unknown bench: %v", err)
	}
	if _, err := s.Bench(t.Context(), "", first[:4]); err == nil || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), third) {
		t.Errorf("a prefix of all: %v", err)
	}
}

func TestBadBenchesAreRefusedWhole(t *testing.T) {
	s := open(t, t.TempDir())
	for name, spoil := range map[string]func(b *Bench, m *Measurement){
		"NaN":            func(_ *Bench, m *Measurement) { m.Value = math.NaN() },
		"infinite":       func(_ *Bench, m *Measurement) { m.High = math.Inf(1) },
		"infinite below": func(_ *Bench, m *Measurement) { m.Low = math.Inf(-1) },
		"outside":        func(_ *Bench, m *Measurement) { m.Value = m.High + 1 },
		"no spread":      func(_ *Bench, m *Measurement) { m.Low, m.High = 0, 0 },
		"inverted":       func(_ *Bench, m *Measurement) { m.Low, m.High = m.High, m.Low },
		"repeated":       func(_ *Bench, m *Measurement) { m.N = -1 },
		"no name":        func(_ *Bench, m *Measurement) { m.Name = "" },
		"kind":           func(b *Bench, _ *Measurement) { b.Kind = "gpu" },
		"empty":          func(b *Bench, _ *Measurement) { b.Results = nil },
	} {
		b := someBench()
		spoil(&b, &b.Results[1])
		id, err := s.SaveBench(t.Context(), b)
		if err == nil || id != "" {
			t.Errorf("%s: saved as %q", name, id)
			continue
		}
		if notFinite := name == "NaN" || strings.HasPrefix(name, "infinite"); errors.Is(err, ErrNotFinite) != notFinite {
			t.Errorf("%s: %v", name, err)
		}
		if aMeasurement := name != "kind" && name != "empty"; strings.Contains(err.Error(), "measurement 1, gemm/") != aMeasurement {
			t.Errorf("%s: the error does not say which: %v", name, err)
		}
	}
	if all := must[[]Bench](t)(s.Benches(t.Context())); len(all) != 0 {
		t.Errorf("kept %+v", all)
	}
}

// A store made before there were benches opens: for reading as it is, for writing
// with the tables added and its runs kept.
func TestStoreOfTheFirstSchemaGetsBenches(t *testing.T) {
	dir := t.TempDir()
	old := must[*sql.DB](t)(sql.Open("sqlite3", filepath.Join(dir, "harness.db")))
	script := must[[]byte](t)(migrations.ReadFile("0001_initial.sql"))
	for _, statement := range []string{string(script), `PRAGMA user_version = 1`, `PRAGMA application_id = 0x68726e73`,
		`INSERT INTO runs (id, name, spec, spec_hash, seed, created) VALUES ('01K7XYA3W4N6T8Q2M5R9C1B0DE', 'old', '', '', 1, 0)`} {
		if _, err := old.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	check := func(s *Store, benches int) {
		t.Helper()
		if run := must[Run](t)(s.Find(t.Context(), "old")); run.Seed != 1 {
			t.Errorf("run %+v", run)
		}
		if all := must[[]Bench](t)(s.Benches(t.Context())); len(all) != benches {
			t.Errorf("benches %+v, want %d", all, benches)
		}
	}
	reader := must[*Store](t)(OpenReadOnly(dir))
	check(reader, 0)
	if _, err := reader.Bench(t.Context(), "", ""); !errors.Is(err, ErrNoBench) {
		t.Errorf("a bench of an old store: %v", err)
	}
	s := open(t, dir)
	check(s, 0)
	saved(t, s, someBench())
	check(s, 1)
	check(reader, 1) // it was open while another migrated
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec(`INSERT INTO measurements SELECT 'no bench', seq, family, name, value, unit, low, high, n, detail FROM measurements`); err == nil {
		t.Error("measurements of no bench are accepted")
	}
	readOnly := must[*Store](t)(OpenReadOnly(dir))
	defer readOnly.Close()
	if _, err := readOnly.SaveBench(t.Context(), someBench()); !errors.Is(err, ErrReadOnly) {
		t.Errorf("saved in a store that is only read: %v", err)
	}
}
