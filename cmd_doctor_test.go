package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"

	"harness/amx"
)

// someSet is a kernel set that a test only prints.
func someSet(name string, a amx.Arithmetic) amx.Set { return amx.Set{Name: name, Arithmetic: a} }

func someChoice() amx.Choice {
	return amx.Choice{Set: someSet("vnni16", amx.Int16), When: time.Unix(1e9, 0),
		Speeds: []amx.Speed{{Set: "avx512bf16", GOP: 201.2}, {Set: "vnni16", GOP: 197.6}, {Set: "avx512", GOP: 101}}}
}

// someExamination is of a machine whose hypervisor hides AMX.
func someExamination() examination {
	intel := amx.Identity{Vendor: "GenuineIntel", Family: 6, Model: 207, Stepping: 2, Hypervisor: "KVMKVMKVM"}
	return examination{
		program:  map[string]string{"code_version": "0123456789abcdef", "code_dirty": "true"},
		machine:  amx.Machine{CPUModel: "Some CPU @ 2 GHz", Cores: 2, Flags: []string{"avx2", "avx512f", "avx512_vnni", "fma"}, OS: "linux", Arch: "amd64"},
		identity: intel, kernel: "6.1.0", core: 1, siblings: []int{1},
		caches: []amx.Cache{{Level: 1, Kind: "data", Bytes: 48 << 10, SharedBy: 1, From: "sysfs"}, {Level: 1, Kind: "instruction", Bytes: 32 << 10, SharedBy: 1, From: "sysfs"}, {Level: 3, Kind: "unified", Bytes: 260 << 20, SharedBy: 2, From: "sysfs"}},
		memory: 8 << 30, tiles: amx.Tiles{OSXSAVE: true, Refusal: "operation not supported", Identity: intel},
		sets:   []setState{{someSet("amx", amx.BF16), "the CPU lacks amx_bf16"}, {someSet("vnni16", amx.Int16), ""}, {someSet("avx512", amx.FP32), ""}},
		choice: someChoice(), keptAt: "/home/somebody/.cache/harness/kernels.json",
		frequency: 2.97, peak: amx.Measurement{Value: 172, N: 40}, contention: amx.Contention{Share: 0.99, Steady: 0.97}, denormals: 1.5,
		places: []place{{"store", "/home/somebody/.harness", "writable", true}},
	}
}

func TestDoctorPrints(t *testing.T) {
	var all bytes.Buffer
	for _, width := range []int{80, 120, unlimited} {
		var b bytes.Buffer
		e := someExamination()
		e.judge(false)
		e.write(&b, width)
		for line := range strings.Lines(b.String()) {
			if got := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); got > width || strings.HasSuffix(line, " \n") {
				t.Errorf("%d columns in %d, or a space at the end: %q", got, width, line)
			}
		}
		if width != 120 {
			all.WriteString(b.String() + "\n")
		}
	}
	golden(t, "doctor.golden", all.String())
}

func TestDoctorJudges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*examination)
		says   string // "" for nothing
	}{
		"a sound machine":        {func(*examination) {}, ""},
		"hyperthreads":           {func(e *examination) { e.siblings = []int{1, 3} }, "hyperthread: CPUs 1, 3"},
		"something else runs":    {func(e *examination) { e.contention.Share = 0.5 }, "got 50% of its core's time"},
		"an unsteady core":       {func(e *examination) { e.contention.Steady = 0.6 }, "its median 60% of its best"},
		"a slow core":            {func(e *examination) { e.peak.Value = 100 }, "fp32 reaches 100 of 190 GFLOP/s that this CPU does at 2.97 GHz"},
		"an unknown slow core":   {func(e *examination) { e.peak.Value, e.identity.Vendor = 100, "Other" }, ""},
		"no frequency":           {func(e *examination) { e.frequency = 0 }, ""},
		"slow denormals":         {func(e *examination) { e.denormals = 40 }, "denormal numbers is 40 times slower"},
		"no core":                {func(e *examination) { e.core, e.coreNote = -1, "this system cannot" }, "no core can be claimed, so that a run wanders between cores: this system cannot"},
		"AMX refused":            {func(e *examination) { e.tiles.Tile, e.tiles.BF16 = true, true }, "AMX: "},
		"little memory":          {func(e *examination) { e.memory = 100 << 20 }, "100 MiB"},
		"unknown memory":         {func(e *examination) { e.memory = 0 }, ""},
		"a choice that is lost":  {func(e *examination) { e.keptAt = "" }, "cannot be kept"},
		"one set, nothing kept":  {func(e *examination) { e.keptAt, e.choice.Speeds = "", nil }, ""},
		"a store to be repaired": {func(e *examination) { e.places[0].OK, e.places[0].State = false, "not writable" }, "problem: the store /home/somebody/.harness is not writable"},
	} {
		e := someExamination()
		c.change(&e)
		e.judge(false)
		said := e.warnings
		for _, p := range e.problems {
			said = append(said, "problem: "+p)
		}
		if text := strings.Join(said, "; "); (text == "") != (c.says == "") || !strings.Contains(text, c.says) || len(said) > 1 {
			t.Errorf("%s: says %q, want %q", name, text, c.says)
		}
	}
	e := someExamination()
	e.core, e.coreNote = -1, "taken"
	if e.judge(true); len(e.warnings) != 1 || !strings.Contains(e.warnings[0], "every core has a run") {
		t.Errorf("oversubscribed: %v", e.warnings)
	}
}

func TestDoctorHere(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv(amx.LockDirVariable, t.TempDir())
	store := filepath.Join(t.TempDir(), "store")
	r := harness(t, store, "doctor", "--json")
	var j doctorJSON
	decode(t, r, &j)
	if j.CPU == "" || len(j.Sets) != len(amx.Sets()) || j.Choice.Set == "" || len(j.AMX.Conditions) != 7 || len(j.Places) != 4 {
		t.Errorf("incomplete: %s", r.stdout)
	}
	for _, n := range []number{j.Frequency, j.Peak, j.CoreShare, j.Steady, j.Denormals} {
		if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
			t.Errorf("%v is no number of JSON: %s", n, r.stdout)
		}
	}
	if _, err := os.Stat(store); err == nil {
		t.Error("a look makes a store")
	}
	if r := harness(t, storeOf(t, "a"), "doctor"); r.code != 0 || !strings.Contains(r.stdout, "what auto takes") {
		t.Errorf("code %d, %s %s", r.code, r.stdout, r.stderr)
	}
}

func TestDoctorFindsWhatStopsARun(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv(amx.LockDirVariable, t.TempDir())
	file := write(t, filepath.Join(t.TempDir(), "file"), "")
	broken := t.TempDir()
	write(t, filepath.Join(broken, "harness.db"), strings.Repeat("no database ", 100))
	for store, says := range map[string]string{file: "no directory", filepath.Join(file, "store"): "not there, and", broken: "harness.db"} {
		r := harness(t, store, "doctor")
		if r.code != exitError || !strings.Contains(r.stderr, "a run would not start here: the store ") || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: code %d, %s", store, r.code, r.stderr)
		}
		if !strings.Contains(r.stdout, "\nproblems\n") {
			t.Errorf("%s: the table says no problem: %s", store, r.stdout)
		}
		var j doctorJSON
		if r = harness(t, store, "doctor", "--json"); json.Unmarshal([]byte(r.stdout), &j) != nil || len(j.Problems) != 1 || r.code != exitError {
			t.Errorf("%s as JSON: code %d, %s", store, r.code, r.stdout)
		}
	}
}

func TestDoctorSaysWhereTheChoiceIsKept(t *testing.T) {
	t.Setenv(amx.LockDirVariable, t.TempDir())
	for name, kept := range map[string]bool{"a cache": true, "something in its place": false} {
		cache := t.TempDir()
		t.Setenv("XDG_CACHE_HOME", cache)
		if !kept { // what cannot be replaced
			write(t, filepath.Join(cache, "harness", "kernels.json", "file"), "")
		}
		var j doctorJSON
		decode(t, harness(t, filepath.Join(t.TempDir(), "store"), "doctor", "--json"), &j)
		if len(j.Choice.Speeds) == 0 {
			t.Skip("there is one kernel set here, and nothing to keep")
		}
		if (j.Choice.KeptAt != "") != kept || strings.Contains(strings.Join(j.Warnings, " "), "cannot be kept") == kept {
			t.Errorf("%s: kept in %q, %q", name, j.Choice.KeptAt, j.Warnings)
		}
	}
}
