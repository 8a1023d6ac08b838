package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness/runs"
)

func TestReportOfABench(t *testing.T) {
	dir := storeOf(t, "a")
	if r := harness(t, dir, "report", "bench"); r.code != exitError || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "no such bench") {
		t.Errorf("without a bench: code %d, %q", r.code, r.stderr)
	}
	store, err := runs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	id, err := store.SaveBench(t.Context(), runs.Bench{Kind: runs.BenchMachine,
		Results: []runs.Measurement{{Group: runs.GroupPeak, Name: "fp32", Value: 118, Unit: "GFLOP/s", N: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "benches", id+".html")
	for _, args := range [][]string{{}, {"latest"}, {id}, {strings.ToLower(id[:4])}} {
		os.Remove(want)
		r := harness(t, dir, append([]string{"report", "bench"}, args...)...)
		html, err := os.ReadFile(want)
		if r.code != 0 || r.stdout != want+"\n" || err != nil || !isPage(string(html)) {
			t.Errorf("%v: code %d, %q %s %v", args, r.code, r.stdout, r.stderr, err)
		}
	}
	if r := harness(t, dir, "report", "bench", "--out", "-"); r.code != 0 || !isPage(r.stdout) || !strings.Contains(r.stdout, "118 GFLOP/s") {
		t.Errorf("to standard output: code %d, %.100q %s", r.code, r.stdout, r.stderr)
	}
	if r := harness(t, dir, "report", "bench", "--json"); r.code != 0 || !strings.Contains(r.stdout, `"bench": "`+id) {
		t.Errorf("json: code %d, %q %s", r.code, r.stdout, r.stderr)
	}
	other := filepath.Join(t.TempDir(), "page.html")
	if r := harness(t, dir, "report", "bench", id, "--out", other); r.code != 0 || r.stdout != other+"\n" {
		t.Errorf("to a file: code %d, %q %s", r.code, r.stdout, r.stderr)
	}
	if r := harness(t, dir, "report", "bench", "zzz"); r.code != exitError || !strings.Contains(r.stderr, `"zzz"`) {
		t.Errorf("an unknown bench: code %d, %q", r.code, r.stderr)
	}
}
