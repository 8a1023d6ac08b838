package amx

import (
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTime is the time that the calling thread has had on a processor, which
// leaves out what other processes took. The caller is locked to its thread.
func ThreadTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err) // Linux has had this clock since 2.6.12
	}
	return time.Duration(now.Nano())
}
