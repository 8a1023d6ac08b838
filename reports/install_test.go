package reports

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// silentFetches are registries that never answer.
func silentFetches(t *testing.T) map[string]fetchTarball {
	t.Helper()
	over := make(chan struct{})
	registry := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(registry.Close)
	t.Cleanup(func() { close(over) }) // before Close, which waits for the answers
	fetches := map[string]fetchTarball{"http": fetchOverHTTP(registry.Client(), registry.URL)}
	if runtime.GOOS != "windows" {
		// What it starts outlives a kill of npm itself and keeps its output open.
		npm := filepath.Join(t.TempDir(), "npm")
		if err := os.WriteFile(npm, []byte("#!/bin/sh\nsleep 15 &\nwait\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		fetches["npm"] = fetchWithNPM(npm)
	}
	return fetches
}

func TestSilentRegistryIsGivenUp(t *testing.T) {
	for name, fetch := range silentFetches(t) {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := fetch.within(100 * time.Millisecond)(t.Context())
			if err == nil || !strings.HasPrefix(err.Error(), "no download within 100ms: ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line that says so", err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("given up after %v only", took)
			}
		})
	}
}

func TestDownloadEndsWithItsCaller(t *testing.T) {
	for name, fetch := range silentFetches(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			if _, err := fetch.within(time.Minute)(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
		})
	}
}
