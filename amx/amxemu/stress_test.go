//go:build linux && amd64 && cgo

package amxemu_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"harness/amx/amxemu"
	. "harness/amx/amxemu/encoded"
)

// gemm is a product of small integers, which every order of additions gets right.
type gemm struct {
	n       int
	a, b    []uint16
	c, want []float32
}

var allFull = config(full, full, full, full, full, full, full, full)

func newGemm(rng *rand.Rand, n int) *gemm {
	// bf16 has the upper half of the float's bits: integers to 256 are exact.
	bits := []uint16{0, 0x3f80, 0xbf80, 0x4000, 0xc040}
	values := []float32{0, 1, -1, 2, -3}
	g := &gemm{n, make([]uint16, n*n), make([]uint16, n*n), make([]float32, n*n), make([]float32, n*n)}
	a, b := make([]float32, n*n), make([]float32, n*n)
	for i := range n {
		for k := range n {
			x, y := rng.IntN(len(bits)), rng.IntN(len(bits))
			g.a[i*n+k], a[i*n+k] = bits[x], values[x]
			g.b[i/2*2*n+2*k+i%2], b[i*n+k] = bits[y], values[y] // row i of B is in a pair with its neighbour
		}
	}
	for i := range n {
		for k := range n {
			for j := range n {
				g.want[i*n+j] += a[i*n+k] * b[k*n+j]
			}
		}
	}
	return g
}

func (g *gemm) right() bool {
	clear(g.c)
	Gemm(g.n, allFull, g.c, g.a, g.b)
	return slices.Equal(g.c, g.want)
}

// TestUnderStress multiplies on many threads at once while the garbage collector
// runs, memory is allocated, signals storm at the threads, and nil is dereferenced.
func TestUnderStress(t *testing.T) {
	native := install(t)
	const workers, rounds, n = 8, 40, 64
	before := amxemu.Executed()
	rng := rand.New(rand.NewPCG(12, 13))
	var running, disturbing sync.WaitGroup
	done := make(chan struct{})
	threads := make(chan int, workers)
	disturb := func(f func()) {
		disturbing.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					f()
				}
			}
		})
	}
	for i := range workers {
		g := newGemm(rng, n)
		running.Go(func() {
			if i%2 == 0 { // the others change threads between calls
				runtime.LockOSThread() // and the thread ends with the goroutine
			}
			threads <- unix.Gettid()
			var garbage [][]byte
			for round := range rounds {
				garbage = append(garbage, make([]byte, 1<<12))
				if !g.right() {
					t.Errorf("worker %d, round %d: wrong product", i, round)
					return
				}
				if !nilPanics() {
					t.Errorf("worker %d, round %d: no panic", i, round)
				}
			}
			runtime.KeepAlive(garbage)
		})
	}
	var ids []int
	for range workers {
		ids = append(ids, <-threads)
	}
	disturb(runtime.GC)
	disturb(func() {
		for _, id := range ids {
			// SIGURG is how Go preempts; a thread may have ended.
			if err := unix.Tgkill(unix.Getpid(), id, unix.SIGURG); err != nil && err != unix.ESRCH {
				t.Errorf("signal thread %d: %v", id, err)
			}
		}
	})
	running.Wait()
	close(done)
	disturbing.Wait()
	// Per round: configuring, releasing, and for each of 2x2 blocks of C its 4 tiles
	// loaded and stored, and 2 steps of 4 loads and 4 products.
	const instructions = workers * rounds * (2 + 4*(4+4+2*(4+4)))
	if got := amxemu.Executed() - before; got != instructions && !native {
		t.Errorf("Executed counted %d instructions, want %d", got, instructions)
	}
}

// TestTilesBelongToThreads: what one thread does to its tiles, another's do not feel.
func TestTilesBelongToThreads(t *testing.T) {
	install(t)
	const threads = 4
	var all sync.WaitGroup
	var barrier [3]sync.WaitGroup
	for i := range barrier {
		barrier[i].Add(threads)
	}
	for i := range threads {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			rng := rand.New(rand.NewPCG(uint64(i), 14))
			s := shape{3 + i, 8 + 4*i}
			memory := filled(t, rng, s.rows*s.colsb)
			meet := func(at int) { barrier[at].Done(); barrier[at].Wait() }
			configure(t, config(full, full, full, s))
			meet(0)
			execute(t, loadTile3RAX, func(r *[16]uint64) { r[RAX], r[RCX] = address(memory), uint64(s.colsb) })
			meet(1)
			if got := tile3(t, s); !slices.Equal(got, memory) {
				t.Errorf("thread %d has another's tile", i)
			}
			if i == 0 {
				execute(t, tilerelease, func(*[16]uint64) {})
			}
			meet(2)
			if got := configuration(t); i > 0 && got != *config(full, full, full, s) {
				t.Errorf("thread %d lost its configuration", i)
			}
		})
	}
	all.Wait()
}
