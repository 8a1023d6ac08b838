package amx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

type claim struct {
	lock *os.File // holds the flock; nil when nothing is held
	mask unix.CPUSet
}

// maxCores is how many cores a unix.CPUSet can name.
const maxCores = 1024

func claimCore(lockDir string) (*Core, error) {
	if err := ownDirectory(lockDir); err != nil {
		return nil, fmt.Errorf("claim a core: %w", err)
	}
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		return nil, fmt.Errorf("claim a core: read the affinity mask: %w", err)
	}
	for id := maxCores - 1; id >= 0; id-- {
		if !mask.IsSet(id) {
			continue
		}
		lock, err := lockFile(filepath.Join(lockDir, fmt.Sprintf("core-%d.lock", id)))
		if err != nil {
			return nil, fmt.Errorf("claim core %d: %w", id, err)
		}
		if lock == nil {
			continue
		}
		var one unix.CPUSet
		one.Set(id)
		if err := pinThreads(one); err != nil {
			return nil, errors.Join(fmt.Errorf("claim core %d: %w", id, err), pinThreads(mask), lock.Close())
		}
		return &Core{ID: id, Pinned: true, claim: claim{lock, mask}}, nil
	}
	return &Core{ID: -1, Oversubscribed: true}, nil
}

func (c *Core) release() error {
	if c.claim.lock == nil {
		return nil
	}
	// Threads leave the core before the lock does.
	err := errors.Join(pinThreads(c.claim.mask), c.claim.lock.Close())
	c.claim.lock, c.Pinned = nil, false
	if err != nil {
		return fmt.Errorf("release core %d: %w", c.ID, err)
	}
	return nil
}

// ownDirectory creates the lock directory. One that another user made would let
// that user keep our cores from us, so it is refused.
func ownDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the lock directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the lock directory: %w", err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Getuid() {
		return fmt.Errorf("lock directory %s belongs to user %d, not to this one (%d)", dir, stat.Uid, os.Getuid())
	}
	return nil
}

// lockFile returns the locked file, or nil if another process holds its lock.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the core's lock: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, file.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return file, nil
}

// pinThreads sets the mask of every thread of this process. A thread inherits its
// creator's mask, so the list is walked again until a walk finds no thread with
// another one: only a thread not yet visited can have made one in between.
func pinThreads(mask unix.CPUSet) error {
	for {
		changed := false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list threads: %w", err)
		}
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			if err != nil {
				return fmt.Errorf("list threads: %w", err)
			}
			var now unix.CPUSet
			err = unix.SchedGetaffinity(id, &now)
			if err == nil && now != mask {
				changed = true
				err = unix.SchedSetaffinity(id, &mask)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: the thread has ended
				return fmt.Errorf("set the affinity of thread %d: %w", id, err)
			}
		}
		if !changed {
			return nil
		}
	}
}
