package runs

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestOpenRefusesWhatIsNoStore(t *testing.T) {
	dbOf := func(statements ...string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			db := must[*sql.DB](t)(sql.Open("sqlite3", filepath.Join(dir, "harness.db")))
			defer db.Close()
			for _, statement := range statements {
				if _, err := db.Exec(statement); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	cases := []struct {
		name     string
		prepare  func(t *testing.T, dir string)
		writable error // what Open says
		readOnly error // what OpenReadOnly says
	}{
		{"nothing there", func(*testing.T, string) {}, nil, ErrNoStore},
		{"an empty file", dbOf(), nil, ErrNoStore},
		{"a text file", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "harness.db"), []byte(strings.Repeat("no database ", 1000)), 0o644); err != nil {
				t.Fatal(err)
			}
		}, ErrCorrupt, ErrCorrupt},
		{"another program's database", dbOf(`CREATE TABLE songs (title TEXT)`), ErrCorrupt, ErrCorrupt},
		{"a newer schema", dbOf(`CREATE TABLE runs (id TEXT)`, `PRAGMA user_version = 99`, `PRAGMA application_id = 0x68726e73`), ErrNewer, ErrNewer},
		{"a corrupt database", func(t *testing.T, dir string) {
			s := must[*Store](t)(Open(dir))
			create(t, s, "lost")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "harness.db")
			data := must[[]byte](t)(os.ReadFile(path))
			for i := 100; i < 4096; i++ { // the schema's page, past the header
				data[i] = 0xa5
			}
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}, ErrCorrupt, ErrCorrupt},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, o := range []struct {
				open func(string) (*Store, error)
				want error
			}{{OpenReadOnly, c.readOnly}, {Open, c.writable}} {
				dir := t.TempDir()
				c.prepare(t, dir)
				s, err := o.open(dir)
				if s != nil {
					s.Close()
				}
				if !errors.Is(err, o.want) {
					t.Errorf("got %v, want %v", err, o.want)
				}
				if err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), dir)) {
					t.Errorf("not one line that names the store: %q", err)
				}
			}
		})
	}
	t.Run("a file instead of a directory", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store")
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil {
			t.Error("opened")
		}
	})
}

func TestCorruptPagesAreNamedWhenRead(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	run := create(t, s, "spoilt")
	rec := begin(t, s, run.ID, 0)
	for step := range int64(2000) {
		rec.Metric("loss", step, step, 1)
	}
	finish(t, rec, Finished)
	var page, size int64
	if err := s.db.QueryRow(`SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_master WHERE name = 'points'`).Scan(&page, &size); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	data := must[[]byte](t)(os.ReadFile(filepath.Join(dir, "harness.db")))
	copy(data[(page-1)*size:page*size], strings.Repeat("\xa5", int(size)))
	if err := os.WriteFile(filepath.Join(other, "harness.db"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	spoilt := open(t, other)
	if _, err := spoilt.Series(t.Context(), run.ID); !errors.Is(err, ErrCorrupt) {
		t.Errorf("reading a spoilt page: %v, want ErrCorrupt", err)
	}
}

func TestReadOnlyStoreReadsAndRefusesWrites(t *testing.T) {
	dir := t.TempDir()
	s := must[*Store](t)(Open(dir))
	run := create(t, s, "kept")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = must[*Store](t)(OpenReadOnly(dir))
	defer s.Close()
	if found := must[[]Run](t)(s.Runs(t.Context())); len(found) != 1 || found[0].ID != run.ID {
		t.Errorf("runs: %+v", found)
	}
	if _, err := s.Create(t.Context(), NewRun{}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Create: %v, want ErrReadOnly", err)
	}
	if _, err := s.Begin(t.Context(), run.ID, AttemptInfo{}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Begin: %v, want ErrReadOnly", err)
	}
}

func TestOddDirectoryNames(t *testing.T) {
	for _, name := range []string{"a b", "what?mode=ro", "100%25", "x#y", "é🔥", "[*]", "a:b"} {
		dir := filepath.Join(t.TempDir(), name)
		s := open(t, dir)
		create(t, s, "here")
		if _, err := os.Stat(filepath.Join(dir, "harness.db")); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestFirstOpenersMigrateOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := Open(dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if _, err := s.Create(t.Context(), NewRun{Name: "x"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if found := must[[]Run](t)(open(t, dir).Runs(t.Context())); len(found) != 8 {
		t.Errorf("%d runs, want 8", len(found))
	}
}

// Without the lock about one first opening in a hundred by eight processes at
// once fails, too seldom to test by trying.
func TestOpenWaitsForTheLock(t *testing.T) {
	dir := t.TempDir()
	unlock := must[func()](t)(lockFile(filepath.Join(dir, "harness.lock"), 0))
	opened := make(chan error)
	go func() {
		s, err := Open(dir)
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("opened while another migrates (%v)", err)
	case <-time.After(300 * time.Millisecond):
	}
	unlock()
	if err := <-opened; err != nil {
		t.Errorf("opened after it: %v", err)
	}
}

func TestLockSaysWhereItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock := must[func()](t)(lockFile(path, 0))
	if _, err := lockFile(path, 20*time.Millisecond); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("locked twice: %v", err)
	}
	unlock()
	must[func()](t)(lockFile(path, 0))()
}

func TestPragmas(t *testing.T) {
	s := open(t, t.TempDir())
	for pragma, want := range map[string]string{"journal_mode": "wal", "foreign_keys": "1", "synchronous": "2", "busy_timeout": "10000"} {
		var got string
		if err := s.db.QueryRow(`PRAGMA ` + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %s (%v), want %s", pragma, got, err, want)
		}
	}
}
