package amx

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Core is a claim on one core of this machine. While it is held, no other
// process that uses the same lock directory claims the same core.
type Core struct {
	ID             int    // the system's number of the core; -1 where nothing is pinned
	Pinned         bool   // every thread of the process runs on the core
	Oversubscribed bool   // every core is claimed by someone else: nothing was pinned
	Reason         string // why nothing was pinned, for the user; "" where something was

	claim claim
}

// LockDirVariable is the environment variable that names another directory for
// claims, for processes that are to ignore the claims of all others.
const LockDirVariable = "HARNESS_CORE_LOCKS"

// DefaultLockDir is where the claims of all users of this machine meet:
// $HARNESS_CORE_LOCKS or, if that is not set, a fixed directory. It does not follow
// TMPDIR, which batch systems set anew for every job, and it depends on nothing that
// differs between users: /run/lock is taken where everybody may write to it, /tmp
// elsewhere.
func DefaultLockDir() string {
	if dir := os.Getenv(LockDirVariable); dir != "" {
		return dir
	}
	return hostLockDir("/run/lock", "/tmp")
}

// hostLockDir lies in the first place if everybody may make files there, else in
// the second.
func hostLockDir(first, second string) string {
	const name = "harness-cores"
	const shared = fs.ModeSticky | 0o002
	if info, err := os.Stat(first); err == nil && info.IsDir() && info.Mode()&shared == shared {
		return filepath.Join(first, name)
	}
	return filepath.Join(second, name)
}

// ClaimCore takes the first free core of this process's affinity mask, from the
// highest number downward (systems favour the low ones for interrupts), and pins
// every thread of the process to it. Claims are advisory locks on one file per
// core in lockDir (DefaultLockDir if empty), which end with the process however
// it ends. lockDir is made, for all users, if there is none.
//
// Where no core can be had the process stays as it was and Reason says why: all
// are claimed (Oversubscribed too), the locks cannot be used, or the system cannot
// pin. That is no error: work is slower or less even without a core of its own, but
// not wrong. An error means that the process is left pinned in part.
func ClaimCore(lockDir string) (*Core, error) {
	if lockDir == "" {
		lockDir = DefaultLockDir()
	}
	return claimCore(lockDir)
}

// unpinned is a claim that got nothing.
func unpinned(reason string) *Core { return &Core{ID: -1, Reason: reason} }

// Release restores the affinity mask and gives the core up; a second call does nothing.
func (c *Core) Release() error { return c.release() }
