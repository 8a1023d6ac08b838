package runs

import (
	"errors"
	"fmt"

	"github.com/mattn/go-sqlite3"
)

// Causes that a caller may tell apart with errors.Is. The errors that carry
// them are one line and name the store or the run.
var (
	ErrNoStore   = errors.New("no store here")
	ErrReadOnly  = errors.New("store is not writable")
	ErrCorrupt   = errors.New("not a usable database")
	ErrNewer     = errors.New("store was written by a newer version")
	ErrNotFound  = errors.New("no such run")
	ErrAmbiguous = errors.New("ambiguous run")
	ErrRunning   = errors.New("run is already running")
	ErrFinished  = errors.New("recorder is already finished")
)

// explain wraps an error of the database with what was being done and, where
// the cause is one of ours, its name: a user sees one line that says what is wrong.
func (s *Store) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	var se sqlite3.Error
	if errors.As(err, &se) {
		switch se.Code {
		case sqlite3.ErrCorrupt, sqlite3.ErrNotADB:
			return fmt.Errorf("%s in %s: %w: %w", doing, s.path(), ErrCorrupt, err)
		case sqlite3.ErrReadonly, sqlite3.ErrPerm:
			return fmt.Errorf("%s in %s: %w: %w", doing, s.path(), ErrReadOnly, err)
		}
	}
	return fmt.Errorf("%s in %s: %w", doing, s.path(), err)
}

// isBusy says whether another connection holds the lock that was asked for.
func isBusy(err error) bool {
	var se sqlite3.Error
	return errors.As(err, &se) && se.Code == sqlite3.ErrBusy
}
