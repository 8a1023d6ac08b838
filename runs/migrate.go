package runs

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed *.sql
var migrations embed.FS

// applicationID marks a SQLite file as ours ("hrns"), so that another program's
// database is not mistaken for an empty store.
const applicationID = 0x68726e73

// oldestReadable is the first version of the schema that can be read as it is.
// Later ones only added tables, which readers take for empty where there are none.
const oldestReadable = 1

// lockFile takes an exclusive advisory lock on path, which is created, and
// waits up to patience for it. The system drops the lock if the process dies.
func lockFile(path string, patience time.Duration) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}

// migrate brings the schema up to date. The caller holds the store's lock
// file: SQLite does not wait for its own lock while the journal mode changes.
func (s *Store) migrate(ctx context.Context) error {
	if err := s.checkVersion(ctx); err != nil {
		return err
	}
	var mode string
	if err := s.db.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode); err != nil {
		return s.explain("switch to a write-ahead log", err)
	}
	if mode != "wal" {
		return fmt.Errorf("switch %s to a write-ahead log: the file system does not support it", s.path())
	}
	names, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		return fmt.Errorf("list migrations: %w", err)
	}
	return s.write(ctx, "migrate the schema", func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
			return err
		}
		for ; version < len(names); version++ {
			script, err := migrations.ReadFile(names[version])
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, string(script)); err != nil {
				return fmt.Errorf("%s: %w", names[version], err)
			}
			// A pragma takes no parameters; both are integers.
			pragmas := fmt.Sprintf(`PRAGMA user_version = %d; PRAGMA application_id = %d`, version+1, applicationID)
			if _, err := tx.ExecContext(ctx, pragmas); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkVersion refuses a database that is not ours, or newer than this build.
func (s *Store) checkVersion(ctx context.Context) error {
	names, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		return fmt.Errorf("list migrations: %w", err)
	}
	var version, application, objects int
	err = s.db.QueryRowContext(ctx, `SELECT (SELECT user_version FROM pragma_user_version),
		(SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_master)`).
		Scan(&version, &application, &objects)
	switch empty := objects == 0 && version == 0; {
	case err != nil:
		return s.explain("read the schema's version", err)
	case empty && s.readOnly:
		return fmt.Errorf("open store %s: %w: %s is empty", s.dir, ErrNoStore, s.path())
	case !empty && application != applicationID:
		return fmt.Errorf("open store %s: %w: %s belongs to another program", s.dir, ErrCorrupt, s.path())
	case version > len(names):
		return fmt.Errorf("open store %s: %w: its schema is %d, this build knows up to %d", s.dir, ErrNewer, version, len(names))
	case version < oldestReadable && s.readOnly:
		return fmt.Errorf("open store %s: its schema is %d, this build needs %d: open it once for writing to migrate it", s.dir, version, oldestReadable)
	}
	return nil
}
