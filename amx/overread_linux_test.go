package amx

import (
	"math/rand/v2"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fenced returns n floats that end where memory ends: one read past them kills
// the process. (Writes past the end are caught by the guard bands already.)
func fenced(t *testing.T, n int) []float32 {
	t.Helper()
	page := os.Getpagesize()
	usable := (4*n + page - 1) / page * page
	memory, err := unix.Mmap(-1, 0, usable+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(memory) })
	if err := unix.Mprotect(memory[usable:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&memory[usable-4*n])), n)
}

// TestNoReadsPastTheEnd dies of SIGSEGV, in C, if a kernel reads beyond an operand.
func TestNoReadsPastTheEnd(t *testing.T) {
	eachSet(t, func(t *testing.T, k *Kernels) {
		var ops []operation
		for _, w := range []int{1, 7, 18, 45} {
			ops = append(ops, rowOperations(3, w, 2)...)
			for _, trans := range transposes {
				ops = append(ops, gemmOperation(trans, w, 70-w, 20+w, 1, false), gemmOperation(trans, 1+w/9, w, 19, 0, true))
			}
		}
		for _, op := range ops {
			rng := rand.New(rand.NewPCG(1, 1))
			data := make([][]float32, len(op.buffers))
			for i, shape := range op.buffers {
				data[i] = fenced(t, span(shape))
				for e := range data[i] {
					data[i][e] = shape.value(rng, e)
				}
			}
			op.run(k, data)
		}
	})
}
