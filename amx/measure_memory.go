package amx

// #include "peaks.h"
// #cgo noescape read_memory
// #cgo nocallback read_memory
// #cgo noescape write_memory
// #cgo nocallback write_memory
// #cgo noescape copy_memory
// #cgo nocallback copy_memory
// #cgo nocallback nothing
import "C"

import (
	"context"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// level is one level of the memory to measure, by a buffer that fits it and no
// level above.
type level struct {
	name  string
	bytes int64
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// levels sizes the buffers: half a cache, of the last level half of this CPU's share, and
// of the memory four times the last level. What is not known is taken from common cores.
func levels(caches []Cache, available int64) []level {
	size := func(l int, fallback int64) (int64, int) {
		if bytes, shared := dataCache(caches, l); bytes > 0 {
			return bytes, max(shared, 1)
		}
		return fallback, 1
	}
	l1, _ := size(1, 32*kib)
	l2, _ := size(2, mib)
	l3, shared := size(3, 0)
	// A shared cache may be far larger than what one core gets of it, and a hypervisor
	// may show a socket's to a machine that owns a slice: 16 MiB are enough to leave L2.
	share := min(l3/int64(shared)/2, 16*mib)
	all := []level{{"L1", l1 / 2}, {"L2", l2 / 2}}
	if l3 > 0 {
		all = append(all, level{"L3", max(share, 2*l2)})
	}
	memory := min(max(4*l3, 64*mib), 512*mib)
	if available > 0 {
		memory = min(memory, available/4)
	}
	if 2*memory >= 3*max(l3, 8*l2) { // else the caches would be measured once more
		all = append(all, level{"DRAM", memory})
	}
	for i := range all {
		all[i].bytes = all[i].bytes / memoryStep * memoryStep
	}
	return all
}

// memoryStep is what the loops over memory do at once.
const memoryStep = 512

// MeasureBandwidth measures what one core reads a second at each level of its memory:
// L1, L2, L3, DRAM. The Detail has what it writes, and copies: every byte once that is
// written, or read and written.
func MeasureBandwidth(ctx context.Context, e Effort, caches []Cache) ([]Measurement, error) {
	b := sampling{least: 10, length: 200 * time.Microsecond, budget: 100 * time.Millisecond}
	if e.Quick {
		b.least, b.budget = 5, 20*time.Millisecond
	}
	width := vectorBytes()
	var all []Measurement
	for _, l := range levels(caches, AvailableMemory()) {
		buffer := alignedFloats(int(l.bytes / 4))
		for i := range buffer {
			buffer[i] = 1
		}
		half := len(buffer) / 2 / memoryStep * memoryStep
		rounds := max(1, mib/int(l.bytes)) // a call costs as much as once over L1
		gbps := func(floats int, call func()) (Measurement, error) {
			times, err := b.times(ctx, call)
			if err != nil {
				return Measurement{}, err
			}
			return rate(Measurement{Group: GroupBandwidth, Name: l.name, Unit: "GB/s"}, float64(4*rounds*floats), times), nil
		}
		read, err := gbps(len(buffer), func() { readMemory(width, buffer, rounds) })
		if err != nil {
			return nil, err
		}
		write, err := gbps(len(buffer), func() { writeMemory(width, buffer, rounds) })
		if err != nil {
			return nil, err
		}
		both, err := gbps(2*half, func() { copyMemory(width, buffer[half:2*half], buffer[:half], rounds) })
		if err != nil {
			return nil, err
		}
		read.Detail = map[string]string{"bytes": strconv.FormatInt(l.bytes, 10), "write": fixed(write.Value, 1), "copy": fixed(both.Value, 1)}
		all = append(all, read)
	}
	return all, nil
}

// The loops over memory: a multiple of memoryStep bytes that starts at a cache line,
// in vectors of width bytes or, with 0, in what the compiler takes.
func readMemory(width int, x []float32, rounds int) {
	C.read_memory(C.int(width), start(x), C.long(4*len(x)), C.long(rounds))
}

func writeMemory(width int, x []float32, rounds int) {
	C.write_memory(C.int(width), start(x), C.long(4*len(x)), C.long(rounds))
}

func copyMemory(width int, to, from []float32, rounds int) {
	C.copy_memory(C.int(width), start(to), start(from), C.long(4*len(from)), C.long(rounds))
}

func start(x []float32) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(x)) }

// AvailableMemory is what a process may still take, 0 where that is not known.
func AvailableMemory() int64 {
	var available int64
	for line := range strings.Lines(readLine("/proc/meminfo")) {
		if rest, is := strings.CutPrefix(line, "MemAvailable:"); is {
			available = parseSize(strings.TrimSuffix(strings.TrimSpace(rest), " kB") + "K")
		}
	}
	// A container may have less than its machine ("max" is no size).
	const group = "/sys/fs/cgroup/memory."
	if most := parseSize(readLine(group + "max")); most > 0 {
		available = min(available, max(0, most-parseSize(readLine(group+"current"))))
	}
	return available
}

// MeasureDispatch measures what a call costs before any arithmetic: for each set a product
// of one element by one with its operand packed before, and an empty call into C.
func MeasureDispatch(ctx context.Context, e Effort, sets []Set) ([]Measurement, error) {
	b := sampling{least: 20, length: 200 * time.Microsecond, budget: 50 * time.Millisecond}
	if e.Quick {
		b.budget = 5 * time.Millisecond
	}
	var all []Measurement
	for _, s := range sets {
		k := s.New()
		var p Packed
		one, c := []float32{1}, []float32{0}
		k.Pack(&p, NN, 1, 1, one, 1)
		times, err := b.times(ctx, func() { k.GemmPacked(1, one, 1, &p, nil, c, 1) })
		if err != nil {
			return nil, err
		}
		all = append(all, microseconds(Measurement{Group: GroupDispatch, Name: "smallest GEMM, " + s.Name, Detail: map[string]string{"set": s.Name}}, times))
	}
	times, err := b.times(ctx, func() { C.nothing() })
	if err != nil {
		return nil, err
	}
	return append(all, microseconds(Measurement{Group: GroupDispatch, Name: "empty call into C"}, times)), nil
}
