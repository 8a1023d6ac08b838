package amx

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/cpu"
)

// Cache is one cache of a core.
type Cache struct {
	Level    int
	Kind     string // "data", "instruction" or "unified"
	Bytes    int64
	SharedBy int    // logical CPUs, 0 where that is not known
	From     string // who said so
}

// DetectCaches returns the caches of a logical CPU, nearest first: from sysfs or,
// where a container hides that, from CPUID, which answers for the core that runs it.
// It is empty where neither knows.
func DetectCaches(cpuID int) []Cache {
	if caches := sysfsCaches(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cache", max(cpuID, 0))); len(caches) > 0 {
		return caches
	}
	return cpuidCaches(cpuid)
}

func sysfsCaches(dir string) (caches []Cache) {
	indexes, err := filepath.Glob(filepath.Join(dir, "index[0-9]*"))
	if err != nil {
		return nil
	}
	for _, index := range indexes {
		level, err := strconv.Atoi(readLine(filepath.Join(index, "level")))
		bytes := parseSize(readLine(filepath.Join(index, "size")))
		if err != nil || bytes == 0 {
			continue
		}
		caches = append(caches, Cache{Level: level, Kind: strings.ToLower(readLine(filepath.Join(index, "type"))), Bytes: bytes,
			SharedBy: len(parseCPUs(readLine(filepath.Join(index, "shared_cpu_list")))), From: "sysfs"})
	}
	return caches
}

// cpuidCaches reads the cache leaf of Intel (4) or of AMD (0x8000001d): the same format.
func cpuidCaches(ask cpuidFunc) (caches []Cache) {
	leaf := uint32(4)
	if vendor := identity(ask).Vendor; vendor == "AuthenticAMD" || vendor == "HygonGenuine" {
		leaf = 0x8000_001d
	}
	const most = 16 // no CPU has as many; a hypervisor may answer without end
	for i := range uint32(most) {
		r := ask(leaf, i)
		kind := r.eax & 31
		if kind == 0 || kind > 3 {
			break
		}
		ways, partitions, line, sets := int64(r.ebx>>22)+1, int64(r.ebx>>12&1023)+1, int64(r.ebx&4095)+1, int64(r.ecx)+1
		caches = append(caches, Cache{Level: int(r.eax >> 5 & 7), Kind: [4]string{"", "data", "instruction", "unified"}[kind],
			Bytes: ways * partitions * line * sets, SharedBy: int(r.eax>>14&4095) + 1, From: "CPUID"})
	}
	return caches
}

// dataCache is the size of a level's data cache and who shares it, 0 if not known.
func dataCache(caches []Cache, level int) (bytes int64, sharedBy int) {
	for _, c := range caches {
		if c.Level == level && c.Kind != "instruction" {
			return c.Bytes, c.SharedBy
		}
	}
	return 0, 0
}

// Siblings returns the logical CPUs that share the execution units of cpuID, itself
// among them; none where that is not known. A hypervisor may present two of them as cores.
func Siblings(cpuID int) []int {
	return parseCPUs(readLine(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", max(cpuID, 0))))
}

func readLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// parseSize reads "32K" or "1M" as sysfs writes them; 0 for anything else.
func parseSize(s string) int64 {
	unit := int64(1)
	switch {
	case strings.HasSuffix(s, "K"):
		unit = 1 << 10
	case strings.HasSuffix(s, "M"):
		unit = 1 << 20
	case strings.HasSuffix(s, "G"):
		unit = 1 << 30
	}
	n, err := strconv.ParseInt(strings.TrimRight(s, "KMG"), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n * unit
}

// parseCPUs reads a list like "0-3,8"; none if it is anything else.
func parseCPUs(s string) (cpus []int) {
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if err == nil && isRange {
			to, err = strconv.Atoi(last)
		}
		if err != nil || to < from || to-from > maxListedCPUs {
			return nil
		}
		for id := from; id <= to; id++ {
			cpus = append(cpus, id)
		}
	}
	return cpus
}

const maxListedCPUs = 1 << 16

// vectorBytes is the width of the widest vectors, 0 where only the compiler knows.
func vectorBytes() int {
	switch {
	case cpu.X86.HasAVX512F:
		return 64
	case cpu.X86.HasAVX:
		return 32
	}
	return 0
}
