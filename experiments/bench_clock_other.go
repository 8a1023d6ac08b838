//go:build !linux

package experiments

import "time"

var processStart = time.Now()

// threadTime is the time that passes, where a thread's own is not to be had.
func threadTime() time.Duration { return time.Since(processStart) }
