package amx

import (
	"math/rand/v2"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fences hands out operands that touch memory which must not be read: one access
// beyond them kills the process. Masked intrinsics and inline assembly are seen by
// nothing else.
type fences struct{ maps [][]byte }

// floats returns n floats that end where memory ends, or start where it starts.
// (Writes past either are caught by the guard bands already.)
func (f *fences) floats(t *testing.T, n int, atStart bool) []float32 {
	t.Helper()
	page := os.Getpagesize()
	usable := (4*n + page - 1) / page * page
	memory, err := unix.Mmap(-1, 0, usable+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	f.maps = append(f.maps, memory)
	for _, fence := range [][]byte{memory[:page], memory[page+usable:]} {
		if err := unix.Mprotect(fence, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	at := page
	if !atStart {
		at += usable - 4*n
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&memory[at])), n)
}

func (f *fences) free() {
	for _, memory := range f.maps {
		unix.Munmap(memory)
	}
	f.maps = nil
}

// run runs op twice, on operands that end at a fence and on such that start there.
func (f *fences) run(t *testing.T, k *Kernels, op operation) {
	for _, atStart := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(1, 1))
		data := make([][]float32, len(op.buffers))
		for i, shape := range op.buffers {
			data[i] = f.floats(t, span(shape), atStart)
			for e := range data[i] {
				data[i][e] = shape.value(rng, e)
			}
		}
		op.run(k, data)
		f.free()
	}
}

// fencedShapes reach every engine's tiles, full and partial, with K in one block and
// in several, B that is kept for a second block of rows, and operands read in place
// or copied. Two dimensions at a time are long at most: AMX may be emulated.
var fencedShapes = []struct{ m, n, k, pad int }{
	{1, 64, 33, 0}, {1, 300, 70, 0}, {2, 17, 1, 1}, {6, 64, 32, 0}, {8, 32, 256, 0},
	{7, 65, 257, 0}, {13, 130, 70, 3}, {33, 49, 64, 0}, {39, 193, 321, 1},
	{200, 139, 40, 0}, {300, 70, 290, 0}, {115, 20, 1290, 0}, {530, 18, 325, 1},
}

// TestNoReadsPastTheEnd dies of SIGSEGV, in C, if a kernel reads beyond an operand, or
// before it.
func TestNoReadsPastTheEnd(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		var ops []operation
		for _, w := range []int{1, 7, 18, 45, 64, 80} {
			ops = append(ops, rowOperations(3, w, 2)...)
		}
		for _, s := range fencedShapes {
			ops = append(ops, gemmForms(s.m, s.n, s.k, s.pad)...)
		}
		for _, n := range []int{1, 15, 33, 64, 130} {
			for _, dh := range []int{5, 16, 33} {
				ops = append(ops, mixerOperations(dh, n, n%3)...)
			}
		}
		var f fences
		for _, op := range ops {
			f.run(t, k, op)
		}
	})
}
