package amx

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time of the calling thread, which leaves out what
// other processes took of the core. The caller is locked to its thread.
func threadTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}
