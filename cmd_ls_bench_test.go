package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"

	"harness/runs"
)

func TestListFindsBenches(t *testing.T) {
	dir := t.TempDir()
	if r := harness(t, dir, "ls", "--benches"); r.code != 0 || !strings.HasPrefix(r.stdout, "no benches yet: ") {
		t.Errorf("without a store: code %d, %q %s", r.code, r.stdout, r.stderr)
	}
	store, err := runs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r := harness(t, dir, "ls", "--benches"); r.code != 0 || !strings.HasPrefix(r.stdout, "no benches yet in the store ") {
		t.Errorf("without a bench: code %d, %q %s", r.code, r.stdout, r.stderr)
	}
	var ids []string
	for _, b := range []runs.Bench{
		{Kind: runs.BenchMachine, Provenance: map[string]string{"cpu": "Some CPU", "kernels": "avx512"}},
		{Kind: runs.BenchTrain, Provenance: map[string]string{"cpu": "Some CPU", "kernels": "vnni16", "spec": "quickstart\x1b[31m"}},
	} {
		b.Results = []runs.Measurement{{Group: runs.GroupPeak, Name: "fp32", Value: 118, Unit: "GFLOP/s", N: 1}}
		id, err := store.SaveBench(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if r := harness(t, dir, "ls"); r.code != 0 || !strings.Contains(r.stdout, "no runs yet") || !strings.Contains(r.stdout, "2 benches as well: ") || !strings.Contains(r.stdout, "ls --benches") {
		t.Errorf("the list of runs: code %d, %q %s", r.code, r.stdout, r.stderr)
	}
	r := harness(t, dir, "ls", "--benches")
	lines := strings.Split(r.stdout, "\n")
	if r.code != 0 || len(lines) != 4 || !strings.Contains(lines[1], "train") || !strings.Contains(lines[1], "quickstart␛[31m") || !strings.Contains(lines[2], "machine  avx512") || !strings.HasSuffix(lines[2], "Some CPU") {
		t.Fatalf("code %d, %q %s", r.code, r.stdout, r.stderr)
	}
	for i, id := range []string{ids[1], ids[0]} {
		named := strings.Fields(lines[1+i])[0]
		if !strings.HasPrefix(id, named) {
			t.Errorf("%s is called %s", id, named)
		}
		if r := harness(t, dir, "report", "bench", named); r.code != 0 || !strings.Contains(r.stdout, id) {
			t.Errorf("%s names no bench: %s", named, r.stderr)
		}
	}
	var j []lsBenchJSON
	decode(t, harness(t, dir, "ls", "--benches", "--json"), &j)
	if len(j) != 2 || j[0].ID != ids[1] || j[0].Kind != runs.BenchTrain || j[1].CPU != "Some CPU" || j[1].Kernels != "avx512" || !exists(j[1].Report) || j[0].Started.IsZero() {
		t.Errorf("%+v", j)
	}
}

func TestListOfBenchesFits(t *testing.T) {
	all := []runs.Bench{{ID: "01JD8Q4M00AAAA", Kind: runs.BenchMachine, Started: time.Now().Add(-50 * time.Hour),
		Provenance: map[string]string{"kernels": "avx512bf16", "cpu": "Intel(R) Xeon(R) Processor with a long name @ 2.00 GHz"}}}
	for _, width := range []int{60, 80, 200} {
		var b bytes.Buffer
		writeBenches(&b, all, width)
		b.WriteString((&cli{program: "harness"}).benchesHint(all, width))
		for line := range strings.Lines(b.String()) {
			if got := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); got > max(width, 64) {
				t.Errorf("%d columns in %d: %q", got, width, line)
			}
		}
	}
}
