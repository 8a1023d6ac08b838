package amx

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

type claim struct {
	lock *os.File // holds the flock; nil when nothing is held
	mask unix.CPUSet
}

// maxCores is how many cores a unix.CPUSet can name.
const maxCores = 1024

func claimCore(lockDir string) (*Core, error) {
	dir, err := openLockDir(lockDir)
	if err != nil {
		return unpinned(err.Error()), nil
	}
	defer dir.Close() // nothing is written through it
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		return unpinned(fmt.Sprintf("read the affinity mask: %v", err)), nil
	}
	var failed error // of the first lock that cannot be used; others may be usable
	for id := maxCores - 1; id >= 0; id-- {
		if !mask.IsSet(id) {
			continue
		}
		lock, err := lockFile(dir, fmt.Sprintf("core-%d.lock", id))
		if err != nil && failed == nil {
			failed = err
		}
		if lock == nil {
			continue
		}
		var one unix.CPUSet
		one.Set(id)
		if err := pinThreads(one); err != nil {
			if undo := errors.Join(pinThreads(mask), lock.Close()); undo != nil {
				return nil, fmt.Errorf("pin to core %d: %w", id, errors.Join(err, undo))
			}
			return unpinned(fmt.Sprintf("pin to core %d: %v", id, err)), nil
		}
		return &Core{ID: id, Pinned: true, claim: claim{lock, mask}}, nil
	}
	if failed != nil {
		return unpinned(failed.Error()), nil
	}
	none := unpinned("every core is claimed by another process")
	none.Oversubscribed = true
	return none, nil
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

// openLockDir opens the lock directory and makes it first if there is none, like
// /tmp: everybody may add locks, only their owners remove them. A link is not
// followed, since anybody may have laid it where everybody may write.
func openLockDir(path string) (*os.File, error) {
	const everybody = os.ModeSticky | 0o777
	switch err := os.Mkdir(path, everybody); {
	case err == nil:
		if err := os.Chmod(path, everybody); err != nil { // whatever the umask is
			return nil, fmt.Errorf("open the lock directory to all users: %w", err)
		}
	case !errors.Is(err, os.ErrExist):
		return nil, fmt.Errorf("make the lock directory: %w", err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the lock directory %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// lockFile returns the locked file, or nil if another process holds its lock.
func lockFile(dir *os.File, name string) (*os.File, error) {
	file, err := openLock(dir, name)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, file.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
	}
	return file, nil
}

// openLock opens a regular file that all users may lock, and makes it first if
// there is none. It does not ask for a file that exists to be created: Linux denies
// that to all but a file's owner in a directory like /tmp (fs.protected_regular).
func openLock(dir *os.File, name string) (lock *os.File, err error) {
	const flags = unix.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	const everybody = 0o666
	path := dir.Name() + "/" + name
	made := false
	fd, err := unix.Openat(int(dir.Fd()), name, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		fd, err = unix.Openat(int(dir.Fd()), name, flags|unix.O_CREAT|unix.O_EXCL, everybody)
		made = err == nil
		if errors.Is(err, unix.EEXIST) { // someone was faster
			fd, err = unix.Openat(int(dir.Fd()), name, flags, 0)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	if made {
		if err := unix.Fchmod(fd, everybody); err != nil { // whatever the umask is
			return nil, fmt.Errorf("open %s to all users: %w", path, err)
		}
	}
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at the core's lock: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	return file, nil
}

// pinThreads sets the mask of every thread of this process. A thread inherits its
// creator's mask, so the list is walked again until a walk finds no new thread:
// only a thread not yet visited can have made one with another mask in between.
// The mask is not compared afterwards: the system cuts it to the cores that it
// lets the process use, which may have become fewer.
func pinThreads(mask unix.CPUSet) error {
	visited := map[int]bool{}
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
			if visited[id] {
				continue
			}
			visited[id], changed = true, true
			var now unix.CPUSet
			err = unix.SchedGetaffinity(id, &now)
			if err == nil && now != mask {
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
