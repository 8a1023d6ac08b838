//go:build !(linux && amd64 && cgo)

package amxemu

import (
	"errors"
	"testing"
)

func TestInstallSaysWhatIsMissing(t *testing.T) {
	if err := Install(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Install returned %v", err)
	}
}
