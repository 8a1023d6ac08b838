//go:build !linux || !amd64

package amx

import "errors"

// requestTiles: AMX is supported on Linux alone, where a process asks for it.
func requestTiles() error { return errors.New("only Linux on x86-64 grants it") }
