package amx

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// requestTiles asks the system for the tiles' state (arch_prctl ARCH_REQ_XCOMP_PERM of
// XFEATURE_XTILEDATA), which it saves for a process only on request. It refuses where
// a hypervisor hides AMX. To ask again is harmless.
func requestTiles() error {
	const requestPermission, tileData = 0x1023, 18
	if _, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0); errno != 0 {
		return fmt.Errorf("%w (%s)", errno, unix.ErrnoName(errno))
	}
	return nil
}
