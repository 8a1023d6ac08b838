//go:build !linux

package amx

import "time"

var processStart = time.Now()

// ThreadTime is wall-clock time where a thread's own is not to be had.
func ThreadTime() time.Duration { return time.Since(processStart) }
