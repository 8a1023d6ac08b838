//go:build !linux

package amx

import "time"

var processStart = time.Now()

// threadTime is wall-clock time: there is no portable clock of one thread.
func threadTime() time.Duration { return time.Since(processStart) }
