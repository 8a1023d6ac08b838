package amx

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSysfsCaches(t *testing.T) {
	dir := t.TempDir()
	for index, files := range map[string][4]string{
		"index0": {"1", "Data", "48K", "3"}, "index1": {"1", "Instruction", "32K", "3"}, "index2": {"2", "Unified", "2048K", "3"},
		"index3": {"3", "Unified", "266240K", "0-3,8-11"}, "index4": {"four", "Unified", "1K", "0"}, "index5": {"4", "Unified", "", "0"},
	} {
		for i, name := range []string{"level", "type", "size", "shared_cpu_list"} {
			path := filepath.Join(dir, index, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(files[i]+"\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []Cache{{1, "data", 48 * kib, 1, "sysfs"}, {1, "instruction", 32 * kib, 1, "sysfs"}, {2, "unified", 2 * mib, 1, "sysfs"}, {3, "unified", 260 * mib, 8, "sysfs"}}
	if got := sysfsCaches(dir); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := sysfsCaches(filepath.Join(dir, "none")); len(got) != 0 {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestCPUIDCaches(t *testing.T) {
	// 48 KiB of 12 ways and 64 sets for 2 CPUs; 260 MiB of 20 ways and 212,992 sets for 128.
	leaf := func(kind, level, sharing, ways, sets uint32) registers {
		return registers{eax: kind | level<<5 | (sharing-1)<<14, ebx: 63 | (ways-1)<<22, ecx: sets - 1}
	}
	intel := emeraldRapids(true, false)
	intel[[2]uint32{4, 0}], intel[[2]uint32{4, 1}] = leaf(1, 1, 2, 12, 64), leaf(3, 3, 128, 20, 212992)
	if got, want := cpuidCaches(intel.ask), []Cache{{1, "data", 48 * kib, 2, "CPUID"}, {3, "unified", 260 * mib, 128, "CPUID"}}; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	amd := genoa()
	amd[[2]uint32{4, 0}], amd[[2]uint32{0x8000001d, 0}] = leaf(1, 1, 2, 12, 64), leaf(2, 1, 1, 8, 64)
	if got, want := cpuidCaches(amd.ask), []Cache{{1, "instruction", 32 * kib, 1, "CPUID"}}; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	endless := func(leaf, subleaf uint32) registers { return registers{eax: 1 | 1<<5, ebx: 63} }
	if got := cpuidCaches(endless); len(got) > 16 {
		t.Errorf("%d caches", len(got))
	}
	if got := cpuidCaches(answers{}.ask); len(got) != 0 {
		t.Errorf("of no CPUID: %+v", got)
	}
}

func TestParseLists(t *testing.T) {
	for text, want := range map[string][]int{"0": {0}, "0-2,5": {0, 1, 2, 5}, "": nil, "3-1": nil, "0-99999999999": nil, "a": nil, "1,": nil} {
		if got := parseCPUs(text); !slices.Equal(got, want) {
			t.Errorf("CPUs %q: %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]int64{"32K": 32 * kib, "2M": 2 * mib, "1G": 1 << 30, "512": 512, "": 0, "K": 0, "-1K": 0, "max": 0} {
		if got := parseSize(text); got != want {
			t.Errorf("size %q: %d, want %d", text, got, want)
		}
	}
}

func TestDetectCaches(t *testing.T) {
	caches := DetectCaches(-1)
	if _, err := os.Stat("/sys/devices/system/cpu/cpu0/cache/index0"); err == nil && len(caches) == 0 {
		t.Error("the system lists caches, and none was found")
	}
	for _, c := range caches {
		if c.Level < 1 || c.Bytes < 1 || c.Kind == "" || c.From == "" {
			t.Errorf("%+v", c)
		}
	}
}
