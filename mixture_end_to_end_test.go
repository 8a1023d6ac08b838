package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"harness/runs"
)

// mixture are overrides of writeTiny's spec: both layers are mixtures, which grow
// after each of the first 60 steps by an expert.
func mixture(more ...string) []string {
	var grow []string
	for i := range 60 {
		grow = append(grow, fmt.Sprintf("{at: %d, experts: %d, method: insert_zero}", 256*(i+1), 5+i))
	}
	return append([]string{"model.moe={layers: [0, 1], experts: 4, top_k: 2, d_ff: 8, shared: 1, route_block: 8}",
		"grow=[" + strings.Join(grow, ", ") + "]"}, more...)
}

// grownIn reads how many growth steps are in view of a store's only run, and fails
// where one is there twice.
func grownIn(t *testing.T, dir string) (n int) {
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
	tables, err := s.Tables(context.Background(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if table.Name != "lineage" {
			continue
		}
		n++
		if after := fmt.Sprint(4 + n); len(table.Rows) != 1 || table.Rows[0][2] != after || table.Step != int64(n) {
			t.Errorf("growth step %d: after step %d, %q, want %s experts", n, table.Step, table.Rows, after)
		}
	}
	return n
}

// A signal finds the run at a growth step, whenever it comes in the first steps.
func TestSignalAtAGrowthStep(t *testing.T) {
	dir := t.TempDir()
	spec, whole, store := writeTiny(t, dir, "grows"), filepath.Join(dir, "whole"), filepath.Join(dir, "store")
	args := append([]string{"run", spec, "--no-report", "--json"}, mixture("budget=50k")...)
	var want, got struct {
		State string
		Step  int64
		W     string `json:"weights_sha256"`
	}
	decode(t, harness(t, whole, args...), &want)
	cmd := program(t, append(args, "--store", store)...)
	stderr := &trigger{act: func() {
		time.Sleep(100 * time.Millisecond) // the first steps are behind it then
		cmd.Process.Signal(syscall.SIGINT)
	}}
	cmd.Stderr = stderr
	if code := exitOf(t, cmd.Run()); code != exitInterrupted {
		t.Fatalf("exit code %d, %s", code, stderr.String())
	}
	t.Logf("interrupted after %d growth steps", grownIn(t, store))
	decode(t, harness(t, store, "generate", "latest", "--prompt", "the number", "--json"), &got)
	decode(t, harness(t, store, "resume", "latest", "--no-report", "--json"), &got)
	if got.State != "finished" || got.W != want.W || want.W == "" {
		t.Errorf("resumed %+v, undisturbed %+v", got, want)
	}
	if n, m := grownIn(t, store), grownIn(t, whole); n != 60 || m != 60 {
		t.Errorf("%d growth steps, undisturbed %d, want 60", n, m)
	}
}

func TestMixtureFromSpecToPage(t *testing.T) {
	dir := t.TempDir()
	spec, store := writeTiny(t, dir, "mixture"), filepath.Join(dir, "store")
	if r := harness(t, store, append([]string{"run", spec, "--dry-run"}, mixture()...)...); r.code != 0 || !strings.Contains(r.stdout, "experts stored") ||
		!strings.Contains(r.stdout, "shared experts") || !strings.Contains(r.stdout, "method: insert_zero") || strings.Count(r.stdout, " after growth") != 3 || strings.Contains(r.stdout, "The paper publishes") {
		t.Errorf("plan: code %d, %s %s", r.code, r.stdout, r.stderr)
	}
	if r := harness(t, store, append([]string{"run", spec}, mixture()...)...); r.code != 0 || !strings.Contains(r.stdout, "FINISHED") {
		t.Fatalf("run: code %d, %s %s", r.code, r.stdout, r.stderr)
	}
	var shown struct {
		Latest map[string]struct{ Value float64 }
		Report string
	}
	decode(t, harness(t, store, "show", "latest", "--json"), &shown)
	for _, name := range []string{"router/0/entropy", "router/1/effective", "router/1/dead", "router/balance", "router/first_share"} {
		if _, ok := shown.Latest[name]; !ok {
			t.Errorf("show has no %s", name)
		}
	}
	page, err := os.ReadFile(shown.Report)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"63 experts become 64", "entropy"} {
		if !strings.Contains(string(page), text) {
			t.Errorf("the page does not say %q", text)
		}
	}
	for _, prompt := range []string{"the number", strings.Repeat("the number 9 is what page 3 is about; ", 4)} {
		r := harness(t, store, "generate", "latest", "--prompt", prompt, "--tokens", "40")
		if r.code != 0 || len(r.stdout) < 2 {
			t.Errorf("generate: code %d, %q %s", r.code, r.stdout, r.stderr)
		}
	}
}
