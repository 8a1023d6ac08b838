//go:build unix

package corpus

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

func TestLockHasOneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	unlock, err := lockFile(context.Background(), path, func() { t.Error("waited for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := lockFile(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait ends with %v", err)
	}
	got := make(chan error)
	waiting := make(chan struct{})
	go func() {
		unlock, err := lockFile(context.Background(), path, func() { close(waiting) })
		if err == nil {
			unlock()
		}
		got <- err
	}()
	<-waiting
	select {
	case <-got:
		t.Fatal("two holders")
	case <-time.After(100 * time.Millisecond):
	}
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
}
