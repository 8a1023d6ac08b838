//go:build !linux

package runs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// bootID is not known here, so that after a reboot a pid may be mistaken for
// an older process of the same number.
func bootID() string { return "" }

// processStart tells only whether the process exists.
func processStart(pid int) string {
	if err := unix.Kill(pid, 0); err == nil || errors.Is(err, unix.EPERM) {
		return "unknown"
	}
	return ""
}
