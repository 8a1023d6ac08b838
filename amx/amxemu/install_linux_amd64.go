package amxemu

// #include "emulator.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

var install = sync.OnceValue(func() error {
	// Asking what is supported and what is permitted does not ask for permission.
	const getSupported, getPermitted, tileData = 0x1021, 0x1022, 1 << 18
	permitted := xfeatures(getPermitted)&tileData != 0
	offered := cpu.X86.HasAMXTile && xfeatures(getSupported)&tileData != 0
	if err := refusal(permitted, offered, os.Getenv(Variable)); err != nil {
		return err
	}
	if reason := C.amxemu_install(); reason != nil {
		return errors.New("emulate AMX: " + C.GoString(reason))
	}
	return nil
})

// refusal says why not to emulate, if there is a reason: with the permission AMX
// instructions do not trap; without it they do, although they could be executed.
func refusal(permitted, offered bool, variable string) error {
	switch {
	case variable != "" && variable != "force":
		return fmt.Errorf("emulate AMX: %s=%q: only %q has a meaning", Variable, variable, "force")
	case permitted:
		return fmt.Errorf("emulate AMX: %w, and this process already has the permission to use it", ErrNative)
	case offered && variable != "force":
		return fmt.Errorf("emulate AMX: %w; %s=force emulates nevertheless", ErrNative, Variable)
	default:
		return nil
	}
}

func executed() uint64 { return uint64(C.amxemu_executed()) }

// xfeatures asks arch_prctl for a set of extended CPU states; it is empty on
// kernels that know no such states.
func xfeatures(request uintptr) (mask uint64) {
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, request, uintptr(unsafe.Pointer(&mask)), 0)
	if errno != 0 {
		return 0
	}
	return mask
}
