//go:build linux && amd64 && cgo

package amxemu_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	. "harness/amx/amxemu/encoded"
)

// crash is a program that must end with Go's report of a signal. Its registers are:
// rdi the configuration, rax the tile's address, rcx the stride of 64, rsi writable.
type crash struct {
	config [64]byte
	code   []byte
	// at is where the report must place the fault, from the code's beginning; -1 is
	// anywhere: it may be the emulator's access to memory.
	at      int
	address func() uint64 // what rax is; nil for good memory
	signal  string
}

const (
	illegal    = "SIGILL: illegal instruction"
	protection = "SIGSEGV: segmentation violation"
)

func crashes() map[string]crash {
	usual := *config(full, full, full, moved, full, full, full)
	// invalid is the usual configuration with one byte changed.
	invalid := func(at int, to byte) crash {
		c := usual
		c[at] = to
		return crash{config: c, code: ldtilecfgRDI, signal: protection}
	}
	// undefined is an instruction that the configuration, or its own bytes, forbid.
	undefined := func(code []byte, tiles ...shape) crash {
		return crash{config: *config(tiles...), code: slices.Concat(ldtilecfgRDI, code), at: len(ldtilecfgRDI), signal: illegal}
	}
	accesses := func(code []byte, where func() uint64, signal string) crash {
		return crash{config: usual, code: slices.Concat(ldtilecfgRDI, code), at: -1, address: where, signal: signal}
	}
	nowhere := func() uint64 { return 0xdead0000 }
	startTooHigh := undefined(loadTile3RAX, full, full, full, moved)
	startTooHigh.config[1] = byte(moved.rows)
	usualTiles := []shape{full, full, full, full, full, full, full}

	return map[string]crash{
		"ud2":                             {config: usual, code: []byte{0x0f, 0x0b}, signal: illegal},
		"ud2 after AMX":                   undefined([]byte{0x0f, 0x0b}, full),
		"load from nowhere":               accesses(loadTile3RAX, nowhere, protection),
		"load from a non-canonical":       accesses(loadTile3RAX, func() uint64 { return 1 << 62 }, protection),
		"load runs into a guard page":     accesses(loadTile3RAX, lastRowsAreMissing, protection),
		"load beyond the end of a file":   accesses(loadTile3RAX, beyondFile, "SIGBUS: bus error"),
		"store to nowhere":                accesses([]byte{0xc4, 0xe2, 0x7a, 0x4b, 0x1c, 0x08}, nowhere, protection),   // tilestored %tmm3, (%rax,%rcx,1)
		"store to code":                   accesses([]byte{0xc4, 0xe2, 0x7a, 0x4b, 0x1c, 0x08}, aFunction, protection), // the same
		"configure from nowhere":          accesses([]byte{0xc4, 0xe2, 0x78, 0x49, 0x00}, nowhere, protection),         // ldtilecfg (%rax)
		"store configuration to nowhere":  accesses([]byte{0xc4, 0xe2, 0x79, 0x49, 0x00}, nowhere, protection),         // sttilecfg (%rax)
		"palette 2":                       invalid(0, 2),
		"reserved byte 2":                 invalid(2, 1),
		"reserved byte 15":                invalid(15, 1),
		"rows of 65 bytes":                invalid(16, 65),
		"rows of 320 bytes":               invalid(17, 1),
		"columns of tile 8":               invalid(32, 4),
		"columns of tile 15":              invalid(47, 1),
		"17 rows":                         invalid(48, 17),
		"columns without rows":            invalid(50, 0),
		"rows without columns":            invalid(55, 3),
		"rows of tile 8":                  invalid(56, 1),
		"rows of tile 15":                 invalid(63, 1),
		"load with start_row at the end":  startTooHigh,
		"load unconfigured":               {code: loadTile3RAX, signal: illegal},
		"load a tile of no shape":         undefined(loadTile3RAX, full),
		"load columns not of dwords":      undefined(loadTile3RAX, full, full, full, shape{4, 6}),
		"store columns not of dwords":     undefined(storeTile3RDI, full, full, full, shape{4, 6}),
		"zero unconfigured":               {code: tilezeroFive, signal: illegal},
		"zero a tile of no shape":         undefined(tilezeroFive, full),
		"multiply unconfigured":           {code: tdpbf16ps, signal: illegal},
		"multiply, C of no shape":         undefined(tdpbf16ps, full, full, full, full, full, shape{}, full),
		"multiply, A of no shape":         undefined(tdpbf16ps, full, full, full, shape{}, full, full, full),
		"multiply, B of no shape":         undefined(tdpbf16ps, full, full, full, full, full, full),
		"multiply, rows of A and C":       undefined(tdpbf16ps, full, full, full, shape{15, 64}, full, full, full),
		"multiply, columns of B and C":    undefined(tdpbssd, full, full, full, full, full, full, shape{16, 60}),
		"multiply, K":                     undefined(tdpbssd, full, full, full, shape{16, 60}, full, full, full),
		"multiply, A's columns not dword": undefined(tdpbssd, full, full, full, shape{16, 62}, full, full, shape{15, 64}),
		"multiply, C's columns not dword": undefined(tdpbssd, full, full, full, full, full, shape{16, 62}, shape{16, 62}),
		"multiply into A":                 undefined([]byte{0xc4, 0xe2, 0x4a, 0x5c, 0xdb}, usualTiles...), // tdpbf16ps %tmm6, %tmm3, %tmm3
		"multiply into B":                 undefined([]byte{0xc4, 0xe2, 0x4a, 0x5c, 0xf3}, usualTiles...), // tdpbf16ps %tmm6, %tmm3, %tmm6
		"multiply A by A":                 undefined([]byte{0xc4, 0xe2, 0x62, 0x5c, 0xeb}, usualTiles...), // tdpbf16ps %tmm3, %tmm3, %tmm5
		"load without SIB":                undefined([]byte{0xc4, 0xe2, 0x7b, 0x4b, 0x18}, usualTiles...),
		"load tmm11":                      undefined([]byte{0xc4, 0x62, 0x7b, 0x4b, 0x1c, 0x08}, usualTiles...),
		"load with vvvv":                  undefined([]byte{0xc4, 0xe2, 0x73, 0x4b, 0x1c, 0x08}, usualTiles...),
		"load with W":                     undefined([]byte{0xc4, 0xe2, 0xfb, 0x4b, 0x1c, 0x08}, usualTiles...),
		"load with L":                     undefined([]byte{0xc4, 0xe2, 0x7f, 0x4b, 0x1c, 0x08}, usualTiles...),
		"multiply by tmm14":               undefined([]byte{0xc4, 0xe2, 0x0a, 0x5c, 0xeb}, usualTiles...),
		"multiply tmm11":                  undefined([]byte{0xc4, 0xc2, 0x4a, 0x5c, 0xeb}, usualTiles...),
		"multiply into tmm13":             undefined([]byte{0xc4, 0x62, 0x4a, 0x5c, 0xeb}, usualTiles...),
	}
}

// lastRowsAreMissing is where two rows of a tile lie before memory ends.
func lastRowsAreMissing() uint64 {
	page := os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err == nil {
		err = unix.Mprotect(memory[page:], unix.PROT_NONE)
	}
	if err != nil {
		panic(err)
	}
	return address(memory[page-2*64:])
}

// beyondFile is mapped memory behind the end of its file.
func beyondFile() uint64 {
	file, err := os.CreateTemp("", "amxemu")
	if err != nil {
		panic(err)
	}
	if err := os.Remove(file.Name()); err != nil {
		panic(err)
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return address(memory)
}

// aFunction is memory that is code.
func aFunction() uint64 {
	code, err := Assemble(make([]byte, 1024))
	if err != nil {
		panic(err)
	}
	return code.Address()
}

// childVariable tells the child process, this test's own binary, how to crash.
const childVariable = "AMXEMU_TEST_CRASH"

func TestMain(m *testing.M) {
	name := os.Getenv(childVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	if _, err := enable(); err != nil {
		panic(err)
	}
	if name == "sent" {
		if err := unix.Kill(os.Getpid(), unix.SIGILL); err != nil {
			panic(err)
		}
		time.Sleep(time.Minute)
	}
	crashes()[name].happen()
}

func (c crash) happen() {
	memory, err := unix.Mmap(-1, 0, 1<<14, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	copy(memory, c.config[:])
	code, err := Assemble(c.code)
	if err != nil {
		panic(err)
	}
	r := Registers{MXCSR: DefaultMXCSR}
	tile := address(memory[4096:])
	if c.address != nil {
		tile = c.address()
	}
	r.General[RDI], r.General[RSI], r.General[RAX], r.General[RCX] = address(memory), address(memory[8192:]), tile, 64
	fmt.Printf("%#x %#x\n", code.Address()+uint64(max(c.at, 0)), tile)
	code.Run(&r)
}

// TestCrashes: what is wrong with a program must look wrong, and be reported where
// it is wrong, as on hardware.
func TestCrashes(t *testing.T) {
	install(t)
	programs := crashes()
	programs["sent"] = crash{at: -1, signal: illegal} // by kill, not by an instruction
	for name, c := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), childVariable+"="+name, "GOTRACEBACK=single")
			var stderr strings.Builder
			child.Stderr = &stderr
			stdout, err := child.Output()
			var exit *exec.ExitError
			status := 2 // Go's
			if addressSanitizer && c.signal != illegal {
				status = 1
			}
			if !errors.As(err, &exit) || exit.ExitCode() != status {
				t.Fatalf("the child ended with %v, want exit status %d:\n%s", err, status, &stderr)
			}
			if status == 1 {
				signal, _, _ := strings.Cut(strings.TrimPrefix(c.signal, "SIG"), ":") // SEGV or BUS
				if want := "ERROR: AddressSanitizer: " + signal; !strings.Contains(stderr.String(), want) {
					t.Errorf("want %s in the report:\n%s", want, &stderr)
				}
				return
			}
			report, _, _ := strings.Cut(stderr.String(), "\n\n")
			if !strings.HasPrefix(report, c.signal+"\n") {
				t.Errorf("want a report of %s, got:\n%s", c.signal, report)
			}
			if name == "sent" {
				return
			}
			var at, tile, pc, fault uint64
			var sigcode int
			if _, err := fmt.Sscanf(string(stdout), "%v %v", &at, &tile); err != nil {
				t.Fatalf("the child printed %q: %v", stdout, err)
			}
			_, place, _ := strings.Cut(report, "\n")
			if n, err := fmt.Sscanf(place, "PC=%v m=%d sigcode=%d addr=%v", &pc, new(int), &sigcode, &fault); n < 3 {
				t.Fatalf("no place in the report: %v\n%s", err, report)
			}
			if c.at >= 0 && pc != at {
				t.Errorf("want PC=%#x in the report:\n%s", at, report)
			}
			const fromKernel = 128 // SI_KERNEL, which stands for #GP
			if c.at >= 0 && c.signal == protection && sigcode != fromKernel {
				t.Errorf("want sigcode=%d in the report:\n%s", fromKernel, report)
			}
			// The kernel does not tell the address of #GP; of others it is in the row.
			var low, high uint64
			if c.signal != illegal && c.at < 0 && name != "load from a non-canonical" {
				low, high = tile, tile+63
				if name == "load runs into a guard page" {
					low, high = low+2*64, high+2*64
				}
			}
			if c.signal != illegal && (fault < low || fault > high) {
				t.Errorf("want addr from %#x to %#x in the report:\n%s", low, high, report)
			}
		})
	}
}

// TestNilStillPanics: a nil dereference in Go is a panic that can be recovered.
func TestNilStillPanics(t *testing.T) {
	install(t)
	if !nilPanics() {
		t.Error("no panic")
	}
}

func nilPanics() (panicked bool) {
	defer func() { panicked = recover() != nil }()
	return *(*byte)(unsafe.Pointer(zero)) == 1
}

var zero *int // the compiler does not know that it is nil
