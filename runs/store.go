// Package runs is the store of experiments, and holds the project's only SQL:
// runs and their attempts, specs, provenance, metrics, scores, generations,
// events, tables and the list of a run's files.
//
// In: a directory. It holds harness.db (SQLite, write-ahead log) and runs/<id>/
// with the files of each run. Many processes on one host may write at once. A
// trainer writes through a Recorder, which only buffers: tracking never stops
// training, and what was committed survives the death of the trainer.
// Out: plain values, with a resume's replaced tail left out of view.
// Non-goals: network file systems, what a metric means, drawing anything.
package runs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"
	"golang.org/x/sys/unix"
)

// busyTimeout is how long a reader waits where it has to, and a writer for
// another's transaction. SQLite does not notice a cancelled context while it
// waits, so a writer does so in slices.
const (
	busyTimeout = 10 * time.Second
	busySlice   = 100 * time.Millisecond
)

// patience is how long recorders put up with a database that takes no writes.
type patience struct {
	lock       time.Duration // of one transaction, for the write lock
	finish     time.Duration // of Finish as a whole
	rows       int           // this many are kept in memory; more go to a file
	unwritable time.Duration // after this long what there is goes to a file
}

// Store is an open store. It is safe for use by many goroutines.
type Store struct {
	dir      string
	db       *sql.DB // reads
	writer   *sql.DB // one connection: SQLite polls for its lock, a pool queues; nil if read-only
	readOnly bool
	now      func() time.Time
	patience patience

	mu        sync.Mutex
	recorders map[*Recorder]struct{} // not yet finished
}

// Open opens the store in dir for reading and writing, and creates it if there is none.
func Open(dir string) (*Store, error) {
	s, err := newStore(dir, false)
	if err != nil {
		return nil, err
	}
	if err := s.openWritable(); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenReadOnly opens an existing store for reading alone; it need not be writable.
func OpenReadOnly(dir string) (*Store, error) {
	s, err := newStore(dir, true)
	if err != nil {
		return nil, err
	}
	if err := s.openReadOnly(); err != nil {
		return nil, err
	}
	return s, nil
}

func newStore(dir string, readOnly bool) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	return &Store{dir: abs, readOnly: readOnly, now: time.Now, recorders: map[*Recorder]struct{}{},
		patience: patience{lock: busyTimeout, finish: 15 * time.Second, rows: 200_000, unwritable: 10 * time.Minute}}, nil
}

func (s *Store) openWritable() error {
	if err := os.MkdirAll(filepath.Join(s.dir, "runs"), 0o755); err != nil {
		return s.openError(err)
	}
	for _, path := range []string{s.dir, s.path()} {
		// Not by opening the file: closing it would drop the locks that other
		// connections of this process hold on it (POSIX).
		if err := unix.Access(path, unix.W_OK); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s.openError(&fs.PathError{Op: "write", Path: path, Err: err})
		}
	}
	unlock, err := lockFile(filepath.Join(s.dir, "harness.lock"), busyTimeout)
	if err != nil {
		return s.openError(err)
	}
	defer unlock()
	if err := s.connect("rwc", false); err != nil {
		return err
	}
	if err := s.migrate(context.Background()); err != nil {
		return errors.Join(err, s.disconnect())
	}
	return nil
}

func (s *Store) openReadOnly() error {
	if _, err := os.Stat(s.path()); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("open store %s: %w: %s does not exist", s.dir, ErrNoStore, s.path())
		}
		return s.openError(err)
	}
	if err := s.connect("ro", s.isStill()); err != nil {
		return err
	}
	if err := s.checkVersion(context.Background()); err != nil {
		return errors.Join(err, s.disconnect())
	}
	return nil
}

// isStill says whether no process has the database open, as far as one can tell
// (a live one would show its log), in a directory where we cannot create a log
// either. SQLite reads a database in WAL mode there only if it is promised
// that nothing changes.
func (s *Store) isStill() bool {
	if unix.Access(s.dir, unix.W_OK) == nil {
		return false
	}
	log, err := os.Stat(s.path() + "-wal")
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	_, err = os.Stat(s.path() + "-shm")
	return log.Size() == 0 && errors.Is(err, fs.ErrNotExist)
}

func (s *Store) openError(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return fmt.Errorf("open store %s: %w: %w", s.dir, ErrReadOnly, err)
	}
	return fmt.Errorf("open store %s: %w", s.dir, err)
}

// connect opens the pools. Every transaction takes the write lock at its start
// (_txlock): one that upgrades later may find itself locked out for good.
// synchronous=FULL lets a commit survive a power cut too; at two commits a
// second that costs the trainer's core nothing, it only waits for the disk.
func (s *Store) connect(mode string, immutable bool) (err error) {
	q := url.Values{
		"mode":          {mode},
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())},
		"_foreign_keys": {"on"},
		"_synchronous":  {"FULL"},
	}
	if immutable {
		q.Set("immutable", "1")
	}
	if s.readOnly {
		q.Set("_query_only", "on")
	}
	if s.db, err = s.pool(q); err != nil || s.readOnly {
		return err
	}
	q.Set("_txlock", "immediate")
	q.Set("_busy_timeout", fmt.Sprint(busySlice.Milliseconds()))
	if s.writer, err = s.pool(q); err != nil {
		return errors.Join(err, s.db.Close())
	}
	s.writer.SetMaxOpenConns(1)
	return nil
}

func (s *Store) pool(q url.Values) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", "file:"+(&url.URL{Path: s.path()}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, s.openError(err)
	}
	return db, nil
}

func (s *Store) disconnect() error {
	err := s.db.Close()
	if s.writer != nil {
		err = errors.Join(err, s.writer.Close())
	}
	return err
}

// Close finishes what recorders are still open, as failed, and closes the store.
func (s *Store) Close() error {
	s.mu.Lock()
	var open []*Recorder
	for r := range s.recorders {
		open = append(open, r)
	}
	s.mu.Unlock()
	errs := make([]error, len(open))
	var finishing sync.WaitGroup // at once, since each may wait
	for i, r := range open {
		finishing.Go(func() {
			errs[i] = r.Finish(context.Background(), Failed, "the store was closed before the attempt ended")
		})
	}
	finishing.Wait()
	return errors.Join(append(errs, s.disconnect())...)
}

// Dir is the store's directory, absolute.
func (s *Store) Dir() string { return s.dir }

// RunDir is the directory for the files of a run.
func (s *Store) RunDir(id string) string { return filepath.Join(s.dir, "runs", id) }

func (s *Store) path() string { return filepath.Join(s.dir, "harness.db") }

// write runs f in a transaction that holds the store's write lock.
func (s *Store) write(ctx context.Context, doing string, f func(tx *sql.Tx) error) (err error) {
	if s.readOnly {
		return fmt.Errorf("%s in %s: %w", doing, s.path(), ErrReadOnly)
	}
	tx, err := s.beginTx(ctx)
	if err != nil {
		return s.explain(doing, err)
	}
	defer tx.Rollback() // does nothing after Commit
	if err := f(tx); err != nil {
		return s.explain(doing, err)
	}
	return s.explain(doing, tx.Commit())
}

// beginTx takes the write lock. It gives up when ctx ends, or when others have
// held the lock for all of s.patience.lock.
func (s *Store) beginTx(ctx context.Context) (*sql.Tx, error) {
	deadline := time.Now().Add(s.patience.lock)
	for {
		tx, err := s.writer.BeginTx(ctx, nil)
		switch busy := isBusy(err); {
		case busy && ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", err, ctx.Err())
		case !busy || time.Now().After(deadline):
			return tx, err
		}
	}
}
