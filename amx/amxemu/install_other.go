//go:build !(linux && amd64 && cgo)

package amxemu

import (
	"errors"
	"fmt"
	"runtime"
)

func install() error {
	return fmt.Errorf("emulate AMX: %w: it takes linux/amd64 and cgo, and this is %s/%s", errors.ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

func executed() uint64 { return 0 }
