package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"harness/runs"
)

// exitOf is the exit code of a program that has ended, -1 if a signal killed it.
func exitOf(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

// stateOf is how the only run of a store ended, and whether it left a checkpoint.
func stateOf(t *testing.T, dir string) (state runs.State, saved bool) {
	t.Helper()
	s, err := runs.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run, err := s.Find(context.Background(), "latest")
	if err != nil {
		t.Fatal(err)
	}
	checkpoints, err := filepath.Glob(filepath.Join(s.RunDir(run.ID), "checkpoints", "step-*"))
	return run.State, err == nil && len(checkpoints) > 0
}

func TestSignals(t *testing.T) {
	dir := t.TempDir()
	spec := writeTiny(t, dir, "signalled")
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			store := filepath.Join(t.TempDir(), "store")
			cmd := program(t, "run", spec, "budget=5M", "--store", store)
			stderr := &trigger{act: func() { cmd.Process.Signal(signal) }}
			cmd.Stderr = stderr
			if code := exitOf(t, cmd.Run()); code != exitInterrupted {
				t.Errorf("exit code %d, %s", code, stderr.String())
			}
			if state, saved := stateOf(t, store); state != runs.Interrupted || !saved {
				t.Errorf("the run is %s, with a checkpoint: %v", state, saved)
			}
		})
	}
}

func TestClosingTerminalHangsUpTwice(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	cmd := program(t, "run", writeTiny(t, t.TempDir(), "hungup"), "budget=5M", "--store", store)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if strings.Contains(lines.Text(), "  train mix ") || strings.HasPrefix(lines.Text(), "stopping: ") {
			cmd.Process.Signal(syscall.SIGHUP)
		}
	}
	if code := exitOf(t, cmd.Wait()); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if state, saved := stateOf(t, store); state != runs.Interrupted || !saved {
		t.Errorf("the run is %s, with a checkpoint: %v", state, saved)
	}
}

func TestHangupIgnoredAtStartStaysIgnored(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	cmd := program(t, "run", writeTiny(t, t.TempDir(), "nohup"), "--store", store)
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs a shell, to ignore a signal for a program as nohup does")
	}
	cmd.Args = append([]string{shell, "-c", `trap "" HUP; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = shell
	stderr := &trigger{act: func() { cmd.Process.Signal(syscall.SIGHUP) }}
	cmd.Stderr = stderr
	if code := exitOf(t, cmd.Run()); code != 0 {
		t.Errorf("exit code %d, %s", code, stderr.String())
	}
}

func TestReaderThatGoesAwayEndsNoRun(t *testing.T) {
	spec := writeTiny(t, t.TempDir(), "unread")
	// start begins a run whose progress is read up to training, and maybe its result.
	start := func(t *testing.T, budget, store string, result bool) *exec.Cmd {
		cmd := program(t, "run", spec, "budget="+budget, "--store", store)
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = writer
		if result {
			cmd.Stdout = writer
		}
		if err := errors.Join(cmd.Start(), writer.Close()); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(reader); lines.Scan() && !strings.Contains(lines.Text(), "  train mix "); {
		}
		reader.Close()
		return cmd
	}
	t.Run("of progress", func(t *testing.T) {
		store := filepath.Join(t.TempDir(), "store")
		cmd := start(t, "5M", store, false)
		cmd.Process.Signal(syscall.SIGTERM) // which is answered with a line at once
		if code := exitOf(t, cmd.Wait()); code != exitInterrupted {
			t.Errorf("exit code %d, want %d", code, exitInterrupted)
		}
		if state, saved := stateOf(t, store); state != runs.Interrupted || !saved {
			t.Errorf("the run is %s, with a checkpoint: %v", state, saved)
		}
	})
	t.Run("of everything", func(t *testing.T) {
		store := filepath.Join(t.TempDir(), "store")
		if code := exitOf(t, start(t, "20k", store, true).Wait()); code != exitError {
			t.Errorf("exit code %d, want %d", code, exitError)
		}
		if state, saved := stateOf(t, store); state != runs.Finished || !saved {
			t.Errorf("the run is %s, with a checkpoint: %v", state, saved)
		}
	})
}
