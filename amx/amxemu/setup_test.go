//go:build linux && amd64 && cgo

package amxemu_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"harness/amx/amxemu"
	"harness/amx/amxemu/encoded"
)

// enable makes AMX work: by the emulator, or where the CPU has AMX, by asking for
// it. There the tests hold the published semantics against silicon.
func enable() (native bool, err error) {
	err = amxemu.Install()
	if !errors.Is(err, amxemu.ErrNative) {
		return false, err
	}
	const requestPermission, tileData = 0x1023, 18
	if _, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0); errno != 0 {
		return true, fmt.Errorf("ask for the permission to use AMX: %w", errno)
	}
	return true, nil
}

func install(t testing.TB) (native bool) {
	t.Helper()
	native, err := enable()
	if err != nil {
		t.Fatal(err)
	}
	if native {
		t.Log("runs on the CPU's own AMX")
	}
	return native
}

type shape struct{ rows, colsb int }

var full = shape{16, 64}

// config is what LDTILECFG reads: palette 1 and the shapes of tiles 0, 1, ...
func config(tiles ...shape) *[64]byte {
	c := [64]byte{1}
	for i, s := range tiles {
		c[16+2*i], c[48+i] = byte(s.colsb), byte(s.rows)
	}
	return &c
}

// arena returns n bytes outside of Go's heap, between pages that nobody may touch;
// they end where their page ends. Flags are added to mmap's.
func arena(t testing.TB, n, flags int) []byte {
	t.Helper()
	page := os.Getpagesize()
	usable := (n + page - 1) / page * page
	memory, err := unix.Mmap(-1, 0, usable+2*page, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(memory); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mprotect(memory[page:page+usable], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	return memory[page+usable-n : page+usable]
}

// filled is an arena of random bytes.
func filled(t testing.TB, rng *rand.Rand, n int) []byte {
	t.Helper()
	a := arena(t, n, 0)
	for i := range a {
		a[i] = byte(rng.Uint32())
	}
	return a
}

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// execute runs code with the registers that set makes; others hold what is no
// address. The caller's goroutine is locked to its thread where it expects tiles to
// outlive the call. AMX instructions change no register, and neither may the code.
func execute(t testing.TB, code []byte, set func(general *[16]uint64)) {
	t.Helper()
	assembled, err := encoded.Assemble(code)
	if err != nil {
		t.Fatal(err)
	}
	defer assembled.Close()
	// Flags left from other arithmetic must stay, and so must the rounding mode.
	const towardsZeroWithFlags = 0x7fbf
	before := encoded.Registers{MXCSR: towardsZeroWithFlags}
	for i := range before.General {
		before.General[i] = rand.Uint64()>>2 | 1<<62
	}
	set(&before.General)
	after := before
	assembled.Run(&after)
	if after != before {
		t.Errorf("% x changed registers:\nbefore %x\nafter  %x", code, before, after)
	}
}

// locked keeps the test on one thread, whose tiles it then owns.
func locked(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(func() { runtime.UnlockOSThread() })
}

// Instructions as an assembler's user writes them, AT&T order. These are the simple
// forms that tests prepare and look at tiles with.
var (
	ldtilecfgRDI  = []byte{0xc4, 0xe2, 0x78, 0x49, 0x07}       // ldtilecfg (%rdi)
	sttilecfgRSI  = []byte{0xc4, 0xe2, 0x79, 0x49, 0x06}       // sttilecfg (%rsi)
	tilerelease   = []byte{0xc4, 0xe2, 0x78, 0x49, 0xc0}       // tilerelease
	loadC         = []byte{0xc4, 0xa2, 0x7b, 0x4b, 0x2c, 0x06} // tileloadd (%rsi,%r8,1), %tmm5
	loadA         = []byte{0xc4, 0xa2, 0x7b, 0x4b, 0x1c, 0x0a} // tileloadd (%rdx,%r9,1), %tmm3
	loadB         = []byte{0xc4, 0xa2, 0x79, 0x4b, 0x34, 0x13} // tileloaddt1 (%rbx,%r10,1), %tmm6
	storeC        = []byte{0xc4, 0x82, 0x7a, 0x4b, 0x2c, 0x23} // tilestored %tmm5, (%r11,%r12,1)
	loadTile3RAX  = []byte{0xc4, 0xe2, 0x7b, 0x4b, 0x1c, 0x08} // tileloadd (%rax,%rcx,1), %tmm3
	storeTile3RDI = []byte{0xc4, 0xe2, 0x7a, 0x4b, 0x1c, 0x0f} // tilestored %tmm3, (%rdi,%rcx,1)
	tilezeroFive  = []byte{0xc4, 0xe2, 0x7b, 0x49, 0xe8}       // tilezero %tmm5
	tilezeroThree = []byte{0xc4, 0xe2, 0x7b, 0x49, 0xd8}       // tilezero %tmm3
	tdpbf16ps     = []byte{0xc4, 0xe2, 0x4a, 0x5c, 0xeb}       // tdpbf16ps %tmm6, %tmm3, %tmm5
	tdpfp16ps     = []byte{0xc4, 0xe2, 0x4b, 0x5c, 0xeb}       // tdpfp16ps %tmm6, %tmm3, %tmm5
	tdpbssd       = []byte{0xc4, 0xe2, 0x4b, 0x5e, 0xeb}       // tdpbssd %tmm6, %tmm3, %tmm5
	tdpbsud       = []byte{0xc4, 0xe2, 0x4a, 0x5e, 0xeb}       // tdpbsud %tmm6, %tmm3, %tmm5
	tdpbusd       = []byte{0xc4, 0xe2, 0x49, 0x5e, 0xeb}       // tdpbusd %tmm6, %tmm3, %tmm5
	tdpbuud       = []byte{0xc4, 0xe2, 0x48, 0x5e, 0xeb}       // tdpbuud %tmm6, %tmm3, %tmm5
	andnEAXEBXECX = []byte{0xc4, 0xe2, 0x60, 0xf2, 0xc8}       // andn %eax, %ebx, %ecx: VEX, map 0F38, not AMX
)

func configure(t testing.TB, c *[64]byte) {
	t.Helper()
	memory := arena(t, 64, 0)
	copy(memory, c[:])
	execute(t, ldtilecfgRDI, func(r *[16]uint64) { r[encoded.RDI] = address(memory) })
}

// configuration is what STTILECFG says.
func configuration(t testing.TB) [64]byte {
	t.Helper()
	memory := arena(t, 64, 0)
	for i := range memory {
		memory[i] = 0xaa
	}
	execute(t, sttilecfgRSI, func(r *[16]uint64) { r[encoded.RSI] = address(memory) })
	return [64]byte(memory)
}

// tile3 is what TILESTORED says of tile 3, densely.
func tile3(t testing.TB, s shape) []byte {
	t.Helper()
	memory := arena(t, s.rows*s.colsb, 0)
	execute(t, storeTile3RDI, func(r *[16]uint64) {
		r[encoded.RDI], r[encoded.RCX] = address(memory), uint64(s.colsb)
	})
	return slices.Clone(memory)
}

// rowsAt gathers a tile's rows from memory, by the definition of base and stride.
func rowsAt(memory []byte, s shape, base, stride int) []byte {
	var dense []byte
	for r := range s.rows {
		dense = append(dense, memory[base+r*stride:][:s.colsb]...)
	}
	return dense
}
