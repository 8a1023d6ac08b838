package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"

	"harness/amx"
	"harness/reports"
	"harness/runs"
)

// someBench has every group, and more sets than a narrow terminal has room for.
func someBench() machineBench {
	sample := func(group, name, unit string, value float64, detail map[string]string) amx.Measurement {
		return amx.Measurement{Group: group, Name: name, Unit: unit, Value: value, Low: value * 0.8, High: value, Median: value * 0.9, N: 20, Detail: detail}
	}
	m := machineBench{choice: someChoice(), before: amx.Choice{Set: someSet("avx512", amx.FP32)}}
	m.samples = []amx.Measurement{
		sample(amx.GroupFrequency, "core", "GHz", 3, nil),
		sample(amx.GroupFrequency, "core after wide vectors", "GHz", 2.97, map[string]string{"instruction": "VFMADD231PS zmm"}),
		sample(amx.GroupPeak, "fp32", "GFLOP/s", 178.4, map[string]string{"instruction": "VFMADD231PS zmm"}),
		sample(amx.GroupPeak, "int16", "GOP/s", 371, map[string]string{"instruction": "VPDPWSSD zmm"}),
		sample(amx.GroupBandwidth, "L1", "GB/s", 327, map[string]string{"bytes": "24576", "write": "160.1", "copy": "301.0"}),
		sample(amx.GroupBandwidth, "DRAM", "GB/s", 15.3, map[string]string{"bytes": "536870912", "write": "9.0", "copy": "11.0"}),
		sample(amx.GroupDispatch, "smallest GEMM, vnni16", "us", 0.21, map[string]string{"set": "vnni16"}),
		sample(amx.GroupDispatch, "empty call into C", "us", 0.04, nil),
	}
	for i, set := range []string{"vnni16", "amx", "avx512bf16", "avx512", "avx2", "portable"} {
		for _, d := range []map[string]string{
			{"trans": "NN", "m": "2048", "k": "256", "n": "1280", "of_peak": "0.932"}, {"trans": "TN", "m": "640", "k": "4096", "n": "256", "of_peak": "0.8"},
		} {
			d["set"] = set
			m.samples = append(m.samples, sample(amx.GroupGemm, set+" "+d["trans"], "GOP/s", 350/float64(1+i), d))
		}
	}
	m.bench = runs.Bench{Kind: runs.BenchMachine, Started: time.Unix(1e9, 0), Results: measurements(m.samples), Provenance: map[string]string{"cpu": "Some CPU @ 2 GHz", "core": "1"}}
	return m
}

func TestBenchPrints(t *testing.T) {
	paper := reports.Comparison{Title: "The paper's roofline, and ours", Rows: []reports.ComparisonRow{
		{Quantity: "bf16 GEMM, M 2,048, K 256, N 1,280 (its best)", Paper: "2,231 GFLOP/s", Ours: reports.Figure{Value: "350 GFLOP/s"}, Ratio: "0.16×", Note: "AMX: hidden by the hypervisor; instead vnni16 (int16), the fastest here"},
		{Quantity: "L3 of a socket", Paper: "30 MiB", Note: "its size is not known"},
	}}
	var all bytes.Buffer
	for _, width := range []int{80, 120, unlimited} {
		var b bytes.Buffer
		m := someBench()
		m.bench.ID, m.report = "01JD8Q4M00", "/s/benches/01JD8Q4M00.html"
		m.write(&b, paper, width)
		for line := range strings.Lines(b.String()) {
			if got := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); got > width || strings.HasSuffix(line, " \n") {
				t.Errorf("%d columns in %d, or a space at the end: %q", got, width, line)
			}
		}
		if width != 120 {
			all.WriteString(b.String() + "\n")
		}
	}
	golden(t, "bench.golden", all.String())
}

// TestUnsavedBenchIsShown: figures that the store does not take are printed all the same.
func TestUnsavedBenchIsShown(t *testing.T) {
	for _, json := range []bool{false, true} {
		store, err := runs.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil { // now it takes nothing
			t.Fatal(err)
		}
		f := benchFlags{json: json}
		for name, x := range map[string]struct {
			finish func(*cobra.Command) error
			figure string
		}{
			"machine": {func(cmd *cobra.Command) error { return someBench().finish(cmd, f, store) }, "178"},
			"train": {func(cmd *cobra.Command) error {
				return finishTrain(cmd, f, someTrainBench(), trainRecord(someTrainBench(), map[string]string{}), store)
			}, "LinearAttentionBackward"},
		} {
			cmd, out := &cobra.Command{}, &bytes.Buffer{}
			cmd.SetContext(context.Background())
			cmd.SetOut(out)
			if err := x.finish(cmd); err == nil || !strings.Contains(out.String(), x.figure) {
				t.Errorf("%s, json %t: error %v, printed %q", name, json, err, out)
			}
		}
	}
}

func TestBenchIsKept(t *testing.T) {
	dir := t.TempDir()
	finish := func(f benchFlags) (string, string) {
		store, err := runs.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		var stdout, stderr bytes.Buffer
		cmd := (&cli{}).benchCommand()
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // by a signal that came when all was measured
		cmd.SetContext(ctx)
		cmd.SetOut(&stdout)
		cmd.SetErr(&stderr)
		if err := someBench().finish(cmd, f, store); err != nil {
			t.Fatal(err)
		}
		return stdout.String(), stderr.String()
	}
	stdout, stderr := finish(benchFlags{json: true})
	var j benchJSON
	if err := json.Unmarshal([]byte(stdout), &j); err != nil || stderr != "" {
		t.Fatalf("%v: %s %s", err, stdout, stderr)
	}
	if len(j.Results) != len(someBench().samples) || j.Choice.Set != "vnni16" || !j.Changed || j.Before != "avx512" || !exists(j.Report) || j.ReportURL != fileURL(j.Report) {
		t.Errorf("%s", stdout)
	}
	if stdout, _ = finish(benchFlags{noReport: true}); strings.Contains(stdout, "report ") || !strings.Contains(stdout, "auto took avx512 until now") || !strings.Contains(stdout, "2,231 GFLOP/s") {
		t.Errorf("%s", stdout)
	}
	store, err := runs.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	b, err := store.Bench(t.Context(), runs.BenchMachine, j.ID)
	if all, listing := store.Benches(t.Context()); err != nil || listing != nil || len(all) != 2 || len(b.Results) != len(j.Results) || b.Results[0].Detail["median"] != "2.7" {
		t.Errorf("the store holds %d benches, %+v: %v %v", len(all), b, err, listing)
	}
}

func TestBenchSets(t *testing.T) {
	names := func(f benchFlags, auto string) string {
		choice, err := amx.Choose(auto)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, s := range benchSets(f, choice) {
			all = append(all, s.Name)
		}
		return strings.Join(all, " ")
	}
	if got := names(benchFlags{kernels: "reference"}, "reference"); got != "reference" {
		t.Errorf("the one asked for: %s", got)
	}
	all := names(benchFlags{}, "portable")
	if !strings.HasPrefix(all, "portable") || strings.Contains(all, "reference") {
		t.Errorf("auto's set first, and no reference: %s", all)
	}
	if got := names(benchFlags{quick: true}, "portable"); (len(strings.Fields(all)) > 1) == strings.Contains(got, "portable") {
		t.Errorf("quick, beside %s: %s", all, got)
	}
}

func TestBenchThatIsStoppedKeepsNothing(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	cmd := program(t, "bench", "--quick", "--kernels", "portable", "--store", store)
	cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+t.TempDir(), amx.LockDirVariable+"="+t.TempDir())
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := ""
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), "measuring ") {
			cmd.Process.Signal(syscall.SIGINT)
		}
	}
	if code := exitOf(t, cmd.Wait()); code != exitInterrupted || !strings.HasSuffix(said, "harness: interrupted before there was anything to keep\n") {
		t.Errorf("exit code %d, %s", code, said)
	}
	s, err := runs.OpenReadOnly(store)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if all, err := s.Benches(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("the store holds %d benches: %v", len(all), err)
	}
	if _, err := os.Stat(filepath.Join(store, "benches")); err == nil {
		t.Error("there is a page")
	}
}

func TestBenchRefusesUnknownKernels(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if r := harness(t, dir, "bench", "--kernels", "avx3"); r.code != exitUsage || !strings.Contains(r.stderr, `"avx3"`) || exists(dir) {
		t.Errorf("code %d, %s", r.code, r.stderr)
	}
}

func TestBenchRefusesEmptyNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for _, flag := range []string{"--kernels", "--train"} {
		if r := harness(t, dir, "bench", flag, ""); r.code != exitUsage || exists(dir) {
			t.Errorf("%s: code %d, %s", flag, r.code, r.stderr)
		}
	}
}

// A choice that was measured beside a run on the same core would be chance.
func TestBenchOnASharedCoreChangesNoChoice(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	kept, err := amx.Choose(amx.Auto)
	if err != nil {
		t.Fatal(err)
	}
	if len(kept.Speeds) == 0 {
		t.Skip("there is one kernel set here, and nothing to choose")
	}
	file := func() string {
		text, err := os.ReadFile(amx.ChoicePath())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := file()
	if now, _, err := (benchFlags{}).choose(true); err != nil || now.Set.Name != kept.Set.Name || file() != before {
		t.Errorf("it is %s, was %s: %v", now, kept, err)
	}
	if _, was, err := (benchFlags{}).choose(false); err != nil || was.Set.Name != kept.Set.Name || file() == before {
		t.Errorf("on a core of its own: it was %s, not %s, or nothing was measured: %v", was, kept, err)
	}
	if now, was, err := (benchFlags{kernels: "reference"}).choose(false); err != nil || now.Set.Name != "reference" || was.Set.Name != "" {
		t.Errorf("the one asked for: %s, before %s: %v", now, was, err)
	}
}
