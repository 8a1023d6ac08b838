package amx

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Floats returns n zeros for a model's large buffers, on huge pages where the
// kernel grants them on request: a pass over a small page's worth of rows then costs
// no miss in the address cache, and the first touch 1 page fault instead of 512.
func Floats(n int) []float32 {
	x := make([]float32, n)
	const huge = 2 << 20
	if 4*n < 2*huge {
		return x
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(x)))
	skip := int(-start % uintptr(unix.Getpagesize()))
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*n)[skip:]
	bytes = bytes[:len(bytes)/unix.Getpagesize()*unix.Getpagesize()]
	_ = unix.Madvise(bytes, unix.MADV_HUGEPAGE) // advice: without it everything works, slower
	return x
}
