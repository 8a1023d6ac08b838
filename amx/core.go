package amx

import (
	"fmt"
	"os"
	"path/filepath"
)

// Core is a claim on one core of this machine. While it is held, no other
// process that uses the same lock directory claims the same core.
type Core struct {
	ID             int  // the system's number of the core; -1 where nothing is pinned
	Pinned         bool // every thread of the process runs on the core
	Oversubscribed bool // every core is claimed by someone else: nothing was pinned

	claim claim
}

// DefaultLockDir is where claims of this user's processes meet: a directory of
// the user's own in the system's temporary directory.
func DefaultLockDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("harness-cores-%d", os.Getuid()))
}

// ClaimCore takes the first free core of this process's affinity mask, from the
// highest number downward (systems favour the low ones for interrupts), and pins
// every thread of the process to it. Claims are advisory locks on one file per
// core in lockDir (DefaultLockDir if empty), which end with the process however
// it ends. With no core free the result says Oversubscribed and the process
// stays as it was. Where the system cannot pin (anything but Linux), Pinned is
// false and so is Oversubscribed.
func ClaimCore(lockDir string) (*Core, error) {
	if lockDir == "" {
		lockDir = DefaultLockDir()
	}
	return claimCore(lockDir)
}

// Release restores the affinity mask and gives the core up; a second call does nothing.
func (c *Core) Release() error { return c.release() }
