package amx

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// contender is a set that is never run: tests say how fast it is.
func contender(name string, a Arithmetic) Set {
	return Set{Name: name, Arithmetic: a, Available: func() bool { return true }}
}

var contenders = []Set{contender("tiles", BF16), contender("pairs", Int16), contender("vectors", FP32), contender("narrow", FP32)}

// injected is a chooser with given speeds, which counts its measurements. cache is a
// directory of its own for each test: what is chosen is remembered by its path.
func injected(t *testing.T, cache string, count *int, gops ...float64) chooser {
	t.Helper()
	return chooser{sets: contenders, cache: choiceCache{path: filepath.Join(cache, "harness", "kernels.json"), key: "this CPU"},
		now: func() time.Time { return time.Unix(1e9, 0) },
		speed: func(sets []Set) (speeds []Speed) {
			*count++
			for i, s := range sets {
				speeds = append(speeds, Speed{s.Name, gops[i]})
			}
			return speeds
		}}
}

func TestTiesGoToFP32(t *testing.T) {
	for _, c := range []struct {
		gops []float64 // tiles bf16, pairs int16, vectors fp32, narrow fp32
		want string
	}{
		{[]float64{2000, 200, 100, 90}, "tiles"},
		{[]float64{200, 199, 100, 90}, "tiles"},
		{[]float64{199, 200, 100, 90}, "pairs"},
		{[]float64{200, 196, 191, 90}, "vectors"},
		{[]float64{200, 196, 189, 90}, "tiles"},
		{[]float64{200, 196, 191, 192}, "narrow"},
		{[]float64{80, 80, 100, 99}, "vectors"},
		{[]float64{80, 80, 99, 100}, "narrow"},
		{[]float64{95, 96, 99, 100}, "narrow"},
	} {
		count := 0
		got := injected(t, t.TempDir(), &count, c.gops...).choose()
		if got.Set.Name != c.want {
			t.Errorf("of %v chose %s, want %s", c.gops, got.Set.Name, c.want)
		}
	}
}

func TestChoiceIsMeasuredOnce(t *testing.T) {
	dir := t.TempDir()
	count := 0
	first := injected(t, dir, &count, 100, 200, 150, 50).choose()
	if first.Set.Name != "pairs" || first.Cached || count != 1 {
		t.Fatalf("chose %s, cached %v, after %d measurements", first, first.Cached, count)
	}
	if want := "pairs (measured: pairs 200, vectors 150, tiles 100, narrow 50 GOP/s)"; first.String() != want {
		t.Errorf("says %q, want %q", first, want)
	}
	// A later process, where everything looks different, keeps to it.
	forget(t)
	again := injected(t, dir, &count, 900, 1, 1, 1).choose()
	if again.Set.Name != "pairs" || !again.Cached || count != 1 || again.String() != first.String() || !again.When.Equal(time.Unix(1e9, 0)) {
		t.Errorf("then chose %s of %v, cached %v, after %d measurements", again, again.When, again.Cached, count)
	}
	other := injected(t, dir, &count, 900, 1, 1, 1)
	other.cache.key = "another CPU"
	if got := other.choose(); got.Set.Name != "tiles" || count != 2 {
		t.Errorf("another CPU chose %s after %d measurements", got, count)
	}
	if got := injected(t, dir, &count, 900, 1, 1, 1).choose(); got.Set.Name != "pairs" || count != 2 {
		t.Errorf("the first CPU lost its choice: %s after %d measurements", got, count)
	}
}

// forget makes this process a new one.
func forget(t *testing.T) {
	t.Helper()
	chosen.Lock()
	defer chosen.Unlock()
	clear(chosen.choices)
}

func TestRemeasureReplacesAndTellsWhatWas(t *testing.T) {
	dir := t.TempDir()
	count := 0
	if now, before := injected(t, dir, &count, 100, 200, 150, 50).refresh(); now.Set.Name != "pairs" || before.Set.Name != "" {
		t.Errorf("first measurement: now %s, before %s", now, before)
	}
	if now, before := injected(t, dir, &count, 100, 100, 150, 50).refresh(); now.Set.Name != "vectors" || before.Set.Name != "pairs" {
		t.Errorf("second measurement: now %s, before %s", now, before)
	}
	for _, process := range []string{"the same", "a later"} {
		if got := injected(t, dir, &count, 900, 1, 1, 1).choose(); got.Set.Name != "vectors" || count != 2 {
			t.Errorf("%s process: %s after %d measurements", process, got, count)
		}
		forget(t)
	}
}

// TestRemeasureDoesNotWaver: a set stays until it is clearly slower.
func TestRemeasureDoesNotWaver(t *testing.T) {
	dir := t.TempDir()
	count := 0
	injected(t, dir, &count, 199, 200, 100, 90).refresh()
	for _, c := range []struct {
		pairs float64
		want  string
	}{{165, "pairs"}, {161, "pairs"}, {159, "tiles"}, {175, "tiles"}, {220, "tiles"}, {251, "pairs"}} {
		now, _ := injected(t, dir, &count, 200, c.pairs, 100, 90).refresh()
		if now.Set.Name != c.want {
			t.Errorf("pairs at %v of 200: took %s, want %s", c.pairs, now, c.want)
		}
		if said := strings.Contains(now.Why(), "taken before"); said != (c.pairs < 200 && c.want == "pairs" || c.pairs > 200 && c.want == "tiles") {
			t.Errorf("pairs at %v of 200: the reason is %q", c.pairs, now.Why())
		}
	}
}

func TestBadCacheIsMeasuredAgain(t *testing.T) {
	entry := func(kept string) string { return `{"choices": {"this CPU": ` + kept + `}}` }
	for name, content := range map[string]string{
		"empty":         "",
		"no JSON":       "\x00\xffkernels",
		"cut off":       `{"choices": {"this CPU": {"set": "narr`,
		"another shape": `{"choices": ["narrow"]}`,
		"null":          "null",
		"unknown set":   entry(`{"set": "wide", "speeds": [{"set": "wide", "gops": 9}]}`),
		"unknown speed": entry(`{"set": "narrow", "speeds": [{"set": "wide", "gops": 9}]}`),
		"no speeds":     entry(`{"set": "narrow"}`),
		"no rate":       entry(`{"set": "narrow", "speeds": [{"set": "narrow", "gops": -1}]}`),
		"no set":        entry(`{"speeds": [{"set": "narrow", "gops": 1}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			forget(t)
			dir := t.TempDir()
			count := 0
			c := injected(t, dir, &count, 100, 200, 150, 50)
			if err := errors.Join(os.MkdirAll(filepath.Dir(c.cache.path), 0o755), os.WriteFile(c.cache.path, []byte(content), 0o644)); err != nil {
				t.Fatal(err)
			}
			if got := c.choose(); got.Set.Name != "pairs" || count != 1 {
				t.Errorf("chose %s after %d measurements", got, count)
			}
			forget(t)
			if got := c.choose(); got.Set.Name != "pairs" || count != 1 {
				t.Errorf("the cache is not mended: chose %s after %d measurements", got, count)
			}
		})
	}
}

func TestChoiceWithoutACache(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"no directory": "", "below a file": filepath.Join(file, "kernels.json")} {
		t.Run(name, func(t *testing.T) {
			forget(t)
			count := 0
			c := injected(t, "", &count, 100, 200, 150, 50)
			c.cache.path = path
			if got := c.choose(); got.Set.Name != "pairs" {
				t.Errorf("chose %s", got)
			}
			later := injected(t, "", &count, 900, 1, 1, 1)
			later.cache.path = path
			if got := later.choose(); got.Set.Name != "pairs" || count != 1 {
				t.Errorf("the same process then chose %s after %d measurements", got, count)
			}
		})
	}
}

func TestFirstOfTwoProcessesDecides(t *testing.T) {
	dir := t.TempDir()
	count := 0
	c := injected(t, dir, &count, 900, 1, 1, 1)
	measure := c.speed
	c.speed = func(sets []Set) []Speed { // while this one measures, another stores
		if _, err := c.cache.store(keptChoice{Set: "narrow", Speeds: []Speed{{"narrow", 7}}}, false); err != nil {
			t.Error(err)
		}
		return measure(sets)
	}
	if got := c.choose(); got.Set.Name != "narrow" {
		t.Errorf("chose %s, the other narrow", got)
	}
}

func TestOneSetNeedsNoMeasurement(t *testing.T) {
	count := 0
	c := injected(t, t.TempDir(), &count)
	c.sets = contenders[:1]
	if got := c.choose(); got.Set.Name != "tiles" || got.String() != "tiles" || count != 0 {
		t.Errorf("chose %s after %d measurements", got, count)
	}
}

func TestCacheKeepsTheNewestChoices(t *testing.T) {
	c := choiceCache{path: filepath.Join(t.TempDir(), "harness", "kernels.json")}
	for i := range mostChoices + 10 {
		c.key = fmt.Sprint(i)
		if _, err := c.store(keptChoice{Set: "narrow", When: time.Unix(int64(i), 0)}, false); err != nil {
			t.Fatal(err)
		}
	}
	f, err := c.read()
	if err != nil || len(f.Choices) != mostChoices || f.Choices[c.key].Set == "" {
		t.Errorf("%d choices, the last is %+v: %v", len(f.Choices), f.Choices[c.key], err)
	}
}

func TestChoiceKey(t *testing.T) {
	m := Machine{CPUModel: "a", Flags: []string{"fma"}, OS: "linux", Arch: "amd64"}
	other, flags := m, m
	other.CPUModel, flags.Flags = "b", []string{"avx2", "fma"}
	keys := []string{choiceKey(m, 1, contenders), choiceKey(other, 1, contenders), choiceKey(flags, 1, contenders), choiceKey(m, 2, contenders), choiceKey(m, 1, contenders[1:])}
	if again := choiceKey(m, 1, contenders); again != keys[0] {
		t.Errorf("the same machine has keys %s and %s", keys[0], again)
	}
	slices.Sort(keys)
	if different := len(slices.Compact(keys)); different != 5 {
		t.Errorf("5 machines have %d keys", different)
	}
	if names, err := sources.ReadDir("."); err != nil || len(names) < 8 {
		t.Errorf("the key covers %d sources: %v", len(names), err)
	}
}

func TestCandidates(t *testing.T) {
	gone := contender("gone", FP32)
	gone.Available = func() bool { return false }
	names := func(sets ...Set) string {
		var all []string
		for _, s := range candidates(sets) {
			all = append(all, s.Name)
		}
		return strings.Join(all, " ")
	}
	portable, reference := contender("portable", FP32), contender("reference", FP32)
	if got := names(contenders[0], gone, contenders[2], portable, reference); got != "tiles vectors" {
		t.Errorf("with vectors: %s", got)
	}
	if got := names(contenders[0], gone, portable, reference); got != "tiles portable" {
		t.Errorf("without fp32 vectors: %s", got)
	}
}

func TestForcedNames(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), "unused"))
	for _, s := range Sets() {
		c, err := Choose(s.Name)
		switch {
		case s.Available():
			if err != nil || c.Set.Name != s.Name || c.String() != s.Name {
				t.Errorf("asked for %s, got %s: %v", s.Name, c, err)
			}
		case err == nil || !strings.Contains(err.Error(), s.Missing()):
			t.Errorf("%s does not run here, error %v", s.Name, err)
		}
	}
	for _, name := range []string{"avx51", "", "AUTO"} {
		if err := Check(name); err == nil || !strings.Contains(err.Error(), "auto, amx, vnni16, avx512bf16, avx512, avx2, portable, reference") {
			t.Errorf("unknown set %q: error %v does not name the valid ones", name, err)
		}
	}
	if err := Check(Auto); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(os.Getenv("XDG_CACHE_HOME")); err == nil {
		t.Error("a forced name makes a cache")
	}
}

func TestSelectAuto(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	first, err := Choose(Auto)
	if err != nil || first.Cached {
		t.Fatalf("%s, cached %v: %v", first, first.Cached, err)
	}
	k, err := Select(Auto)
	if err != nil || k.Name != first.Set.Name {
		t.Errorf("chose %s and selected %s: %v", first.Set.Name, k.Name, err)
	}
	if names := candidates(Sets()); len(names) > 1 {
		var f choiceFile
		data, err := os.ReadFile(ChoicePath())
		if err != nil || json.Unmarshal(data, &f) != nil || len(f.Choices) != 1 {
			t.Errorf("the cache holds %s: %v", data, err)
		}
	}
}

func TestCompareSets(t *testing.T) {
	sets := candidates(Sets())
	speeds := compareSets(sets)
	if len(speeds) != len(sets) {
		t.Fatalf("%d speeds of %d sets", len(speeds), len(sets))
	}
	for i, s := range speeds {
		if s.Set != sets[i].Name || !(s.GOP > 1e-3) || math.IsInf(s.GOP, 0) { // a set that was never timed has next to nothing
			t.Errorf("%+v of set %s", s, sets[i].Name)
		}
	}
}
