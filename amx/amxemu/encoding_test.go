//go:build linux && amd64 && cgo

package amxemu_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"

	"harness/amx/amxemu"
	. "harness/amx/amxemu/encoded"
)

const none = -1 // no such register

// form is an encoding of a memory operand: [base + index*scale + displacement].
type form struct {
	text         string
	code         []byte
	base, index  int
	scale        int
	displacement int
}

var loads = []form{
	{"tileloadd (%rax), %tmm3", []byte{0xc4, 0xe2, 0x7b, 0x4b, 0x1c, 0x20}, RAX, none, 0, 0},
	{"tileloadd (%rax,%rcx,1), %tmm3", []byte{0xc4, 0xe2, 0x7b, 0x4b, 0x1c, 0x08}, RAX, RCX, 1, 0},
	{"tileloadd (%rax,%rcx,2), %tmm3", []byte{0xc4, 0xe2, 0x7b, 0x4b, 0x1c, 0x48}, RAX, RCX, 2, 0},
	{"tileloadd (%rax,%rcx,4), %tmm3", []byte{0xc4, 0xe2, 0x7b, 0x4b, 0x1c, 0x88}, RAX, RCX, 4, 0},
	{"tileloadd (%rax,%rcx,8), %tmm3", []byte{0xc4, 0xe2, 0x7b, 0x4b, 0x1c, 0xc8}, RAX, RCX, 8, 0},
	{"tileloaddt1 (%rax,%rcx,8), %tmm3", []byte{0xc4, 0xe2, 0x79, 0x4b, 0x1c, 0xc8}, RAX, RCX, 8, 0},
	{"tileloadd (%rsp,%rdx,1), %tmm3", []byte{0xc4, 0xe2, 0x7b, 0x4b, 0x1c, 0x14}, RSP, RDX, 1, 0},
	{"tileloadd 0x40(%rsp,%rbp,1), %tmm3", []byte{0xc4, 0xe2, 0x7b, 0x4b, 0x5c, 0x2c, 0x40}, RSP, RBP, 1, 0x40},
	{"tileloadd (%rbp,%rsi,1), %tmm3", []byte{0xc4, 0xe2, 0x7b, 0x4b, 0x5c, 0x35, 0x00}, RBP, RSI, 1, 0},
	{"tileloadd -0x80(%rbp,%rdi,1), %tmm3", []byte{0xc4, 0xe2, 0x7b, 0x4b, 0x5c, 0x3d, 0x80}, RBP, RDI, 1, -0x80},
	{"tileloadd 0x10(%rbx), %tmm3", []byte{0xc4, 0xe2, 0x7b, 0x4b, 0x5c, 0x23, 0x10}, RBX, none, 0, 0x10},
	{"tileloadd (%r12,%r8,1), %tmm3", []byte{0xc4, 0x82, 0x7b, 0x4b, 0x1c, 0x04}, R12, R8, 1, 0},
	{"tileloadd (%r13,%r9,2), %tmm3", []byte{0xc4, 0x82, 0x7b, 0x4b, 0x5c, 0x4d, 0x00}, R13, R9, 2, 0},
	{"tileloadd 0x12345678(%r13,%r10,1), %tmm3", []byte{0xc4, 0x82, 0x7b, 0x4b, 0x9c, 0x15, 0x78, 0x56, 0x34, 0x12}, R13, R10, 1, 0x12345678},
	{"tileloadd -0x12345678(%r14,%r12,4), %tmm3", []byte{0xc4, 0x82, 0x7b, 0x4b, 0x9c, 0xa6, 0x88, 0xa9, 0xcb, 0xed}, R14, R12, 4, -0x12345678},
	{"tileloadd 0x7f(%r15,%r13,1), %tmm3", []byte{0xc4, 0x82, 0x7b, 0x4b, 0x5c, 0x2f, 0x7f}, R15, R13, 1, 0x7f},
	{"tileloadd (%r8,%r14,1), %tmm3", []byte{0xc4, 0x82, 0x7b, 0x4b, 0x1c, 0x30}, R8, R14, 1, 0},
	{"tileloadd (%r9,%r15,1), %tmm3", []byte{0xc4, 0x82, 0x7b, 0x4b, 0x1c, 0x39}, R9, R15, 1, 0},
	{"tileloadd (%r10,%rbx,1), %tmm3", []byte{0xc4, 0xc2, 0x7b, 0x4b, 0x1c, 0x1a}, R10, RBX, 1, 0},
	{"tileloadd (%r11,%rax,1), %tmm3", []byte{0xc4, 0xc2, 0x7b, 0x4b, 0x1c, 0x03}, R11, RAX, 1, 0},
}

// set fills in the registers that make the operand start at base with a stride.
func (f form) set(r *[16]uint64, base uint64, stride int) {
	r[f.base] = base - uint64(f.displacement)
	if f.index != none {
		r[f.index] = uint64(stride / f.scale)
	}
}

// strides are those the form can express.
func (f form) strides() []int {
	if f.index == none {
		return []int{0}
	}
	return []int{0, 8, 104, -104, -8}
}

// The tile that these tests move, and memory around where it lies at any stride.
var (
	moved       = shape{5, 12}
	memorySize  = 2*4*104 + 12
	middleOfAll = 4 * 104
)

func TestTileLoadFormsOfAddress(t *testing.T) {
	install(t)
	locked(t)
	rng := rand.New(rand.NewPCG(1, 2))
	memory := filled(t, rng, memorySize)
	configure(t, config(full, full, full, moved))
	for _, f := range loads {
		for _, stride := range f.strides() {
			execute(t, f.code, func(r *[16]uint64) { f.set(r, address(memory[middleOfAll:]), stride) })
			if got, want := tile3(t, moved), rowsAt(memory, moved, middleOfAll, stride); !bytes.Equal(got, want) {
				t.Errorf("%s, stride %d:\ngot  %x\nwant %x", f.text, stride, got, want)
			}
		}
	}
}

var stores = []form{
	{"tilestored %tmm3, (%rax)", []byte{0xc4, 0xe2, 0x7a, 0x4b, 0x1c, 0x20}, RAX, none, 0, 0},
	{"tilestored %tmm3, (%rdi,%rcx,1)", []byte{0xc4, 0xe2, 0x7a, 0x4b, 0x1c, 0x0f}, RDI, RCX, 1, 0},
	{"tilestored %tmm3, -0x40(%r13,%r12,2)", []byte{0xc4, 0x82, 0x7a, 0x4b, 0x5c, 0x65, 0xc0}, R13, R12, 2, -0x40},
	{"tilestored %tmm3, 0x12340(%rsp,%rbp,1)", []byte{0xc4, 0xe2, 0x7a, 0x4b, 0x9c, 0x2c, 0x40, 0x23, 0x01, 0x00}, RSP, RBP, 1, 0x12340},
}

func TestTileStoreFormsOfAddress(t *testing.T) {
	install(t)
	locked(t)
	rng := rand.New(rand.NewPCG(3, 4))
	tile := filled(t, rng, moved.rows*moved.colsb)
	configure(t, config(full, full, full, moved))
	execute(t, loadTile3RAX, func(r *[16]uint64) { r[RAX], r[RCX] = address(tile), uint64(moved.colsb) })
	for _, f := range stores {
		for _, stride := range f.strides() {
			memory := filled(t, rng, memorySize)
			want := slices.Clone(memory)
			for r := range moved.rows { // in this order: rows may overlap
				copy(want[middleOfAll+r*stride:], tile[r*moved.colsb:][:moved.colsb])
			}
			execute(t, f.code, func(r *[16]uint64) { f.set(r, address(memory[middleOfAll:]), stride) })
			if !bytes.Equal(memory, want) {
				t.Errorf("%s, stride %d: memory differs from definition", f.text, stride)
			}
		}
	}
}

// TestTileLoadWithoutBase: the displacement alone is the address, below 2 GiB, also
// where VEX.B would make base 5 r13.
func TestTileLoadWithoutBase(t *testing.T) {
	install(t)
	locked(t)
	memory := arena(t, memorySize, unix.MAP_32BIT)
	for i := range memory {
		memory[i] = byte(7 * i)
	}
	configure(t, config(full, full, full, moved))
	for _, code := range [][]byte{
		{0xc4, 0xe2, 0x7b, 0x4b, 0x1c, 0x0d}, // tileloadd disp32(,%rcx,1), %tmm3
		{0xc4, 0xc2, 0x7b, 0x4b, 0x1c, 0x0d}, // the same with VEX.B
	} {
		code = binary.LittleEndian.AppendUint32(code, uint32(address(memory[middleOfAll:])))
		execute(t, code, func(r *[16]uint64) { r[RCX] = 104 })
		if got, want := tile3(t, moved), rowsAt(memory, moved, middleOfAll, 104); !bytes.Equal(got, want) {
			t.Errorf("% x:\ngot  %x\nwant %x", code, got, want)
		}
	}
}

// The configuration's operand may have any form, also without SIB; its index is part
// of the address.
func TestConfigurationFormsOfAddress(t *testing.T) {
	install(t)
	locked(t)
	// configuration is one of several, so that leftovers of the last cannot pass.
	pick := func(i int) *[64]byte { return config(shape{1 + i%16, 4 + 4*(i%15)}, full, shape{3, 62}) }
	memory := arena(t, 64, 0)
	for i, f := range []form{
		{"ldtilecfg (%rax)", []byte{0xc4, 0xe2, 0x78, 0x49, 0x00}, RAX, none, 0, 0},
		{"ldtilecfg 0x40(%rbx)", []byte{0xc4, 0xe2, 0x78, 0x49, 0x43, 0x40}, RBX, none, 0, 0x40},
		{"ldtilecfg -0x12345(%rcx)", []byte{0xc4, 0xe2, 0x78, 0x49, 0x81, 0xbb, 0xdc, 0xfe, 0xff}, RCX, none, 0, -0x12345},
		{"ldtilecfg 0x20(%rsp)", []byte{0xc4, 0xe2, 0x78, 0x49, 0x44, 0x24, 0x20}, RSP, none, 0, 0x20},
		{"ldtilecfg (%rbp)", []byte{0xc4, 0xe2, 0x78, 0x49, 0x45, 0x00}, RBP, none, 0, 0},
		{"ldtilecfg (%r12)", []byte{0xc4, 0xc2, 0x78, 0x49, 0x04, 0x24}, R12, none, 0, 0},
		{"ldtilecfg (%r13)", []byte{0xc4, 0xc2, 0x78, 0x49, 0x45, 0x00}, R13, none, 0, 0},
		{"ldtilecfg 0x1000(%r13)", []byte{0xc4, 0xc2, 0x78, 0x49, 0x85, 0x00, 0x10, 0x00, 0x00}, R13, none, 0, 0x1000},
		{"ldtilecfg (%r8,%r15,4)", []byte{0xc4, 0x82, 0x78, 0x49, 0x04, 0xb8}, R8, R15, 4, 0},
		{"ldtilecfg -0x80(%rax,%r12,8)", []byte{0xc4, 0xa2, 0x78, 0x49, 0x44, 0xe0, 0x80}, RAX, R12, 8, -0x80},
	} {
		copy(memory, pick(i)[:])
		execute(t, f.code, func(r *[16]uint64) {
			f.set(r, address(memory), 0)
			if f.index != none {
				const index = 12345
				r[f.index] = index
				r[f.base] -= uint64(index * f.scale)
			}
		})
		if got := configuration(t); got != *pick(i) {
			t.Errorf("%s:\ngot  %x\nwant %x", f.text, got, *pick(i))
		}
	}

	// ldtilecfg (,%rdx,2)
	copy(memory, pick(20)[:])
	execute(t, []byte{0xc4, 0xe2, 0x78, 0x49, 0x04, 0x55, 0, 0, 0, 0}, func(r *[16]uint64) { r[RDX] = address(memory) / 2 })
	if got := configuration(t); got != *pick(20) {
		t.Errorf("no base: got %x", got)
	}

	// Relative to RIP, with the configuration among the code: ldtilecfg 2(%rip); jmp over it.
	execute(t, slices.Concat([]byte{0xc4, 0xe2, 0x78, 0x49, 0x05, 2, 0, 0, 0, 0xeb, 64}, pick(21)[:]), func(*[16]uint64) {})
	if got := configuration(t); got != *pick(21) {
		t.Errorf("after RIP: got %x", got)
	}
	// jmp over it; ldtilecfg -73(%rip)
	execute(t, slices.Concat([]byte{0xeb, 64}, pick(22)[:], []byte{0xc4, 0xe2, 0x78, 0x49, 0x05, 0xb7, 0xff, 0xff, 0xff}), func(*[16]uint64) {})
	if got := configuration(t); got != *pick(22) {
		t.Errorf("before RIP: got %x", got)
	}

	for i, f := range []form{
		{"sttilecfg (%rsi)", []byte{0xc4, 0xe2, 0x79, 0x49, 0x06}, RSI, none, 0, 0},
		{"sttilecfg 0x7f(%r9)", []byte{0xc4, 0xc2, 0x79, 0x49, 0x41, 0x7f}, R9, none, 0, 0x7f},
		{"sttilecfg (%r14,%rbp,1)", []byte{0xc4, 0xc2, 0x79, 0x49, 0x04, 0x2e}, R14, RBP, 1, 0},
	} {
		configure(t, pick(i))
		clear(memory)
		execute(t, f.code, func(r *[16]uint64) { f.set(r, address(memory), 0) })
		if [64]byte(memory) != *pick(i) {
			t.Errorf("%s:\ngot  %x\nwant %x", f.text, memory, *pick(i))
		}
	}
}

// TestInstructionsInARow: some that are AMX, one that begins like them and is not,
// and AMX again.
func TestInstructionsInARow(t *testing.T) {
	native := install(t)
	if !cpu.X86.HasBMI1 {
		t.Skip("the CPU lacks BMI1, whose ANDN this test executes")
	}
	configured := config(full, full, full, moved)
	memory := arena(t, 64, 0)
	copy(memory, configured[:])
	stored := arena(t, 64, 0)
	code, err := Assemble(slices.Concat(ldtilecfgRDI, tilezeroThree, andnEAXEBXECX, sttilecfgRSI, tilerelease))
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close()
	before := amxemu.Executed()
	r := Registers{MXCSR: DefaultMXCSR}
	r.General[RDI], r.General[RSI], r.General[RAX], r.General[RBX] = address(memory), address(stored), 0xff, 0xf0
	code.Run(&r)
	if r.General[RCX] != 0x0f {
		t.Errorf("ANDN between AMX instructions gave %#x, want 0xf", r.General[RCX])
	}
	if !bytes.Equal(stored, configured[:]) {
		t.Errorf("after ANDN: stored %x", stored)
	}
	if got := amxemu.Executed() - before; got != 4 && !native {
		t.Errorf("Executed counted %d instructions, want 4", got)
	}
}

// TestTileNumbers loads each tile by its number, and finds it there.
func TestTileNumbers(t *testing.T) {
	install(t)
	locked(t)
	rng := rand.New(rand.NewPCG(5, 6))
	var shapes []shape
	for i := range 8 {
		shapes = append(shapes, shape{16 - i, 64 - 4*i})
	}
	configure(t, config(shapes...))
	var tiles [8][]byte
	move := func(memory []byte, tile int, code []byte) {
		code = slices.Clone(code)
		code[4] = code[4]&^0x38 | byte(tile<<3) // ModRM.reg
		execute(t, code, func(r *[16]uint64) {
			r[RAX], r[RDI], r[RCX] = address(memory), address(memory), uint64(shapes[tile].colsb)
		})
	}
	for i, s := range shapes {
		tiles[i] = filled(t, rng, s.rows*s.colsb)
		move(tiles[i], i, loadTile3RAX)
	}
	check := func(what string) {
		t.Helper()
		for i, s := range shapes {
			got := arena(t, s.rows*s.colsb, 0)
			move(got, i, storeTile3RDI)
			if !bytes.Equal(got, tiles[i]) {
				t.Errorf("%s, tile %d: got %x, want %x", what, i, got, tiles[i])
			}
		}
	}
	check("loaded")
	execute(t, tilezeroFive, func(*[16]uint64) {})
	clear(tiles[5])
	check("tilezero %tmm5")
	configure(t, config(shapes...))
	for i := range tiles {
		clear(tiles[i])
	}
	check("configured again")
	execute(t, tilerelease, func(*[16]uint64) {})
	if got := configuration(t); got != [64]byte{} {
		t.Errorf("after TILERELEASE the configuration is %x", got)
	}
	configure(t, config(shapes...))
	configure(t, &[64]byte{1: 7, 2: 8, 60: 9}) // palette 0 is valid, whatever follows
	if got := configuration(t); got != [64]byte{} {
		t.Errorf("after palette 0 the configuration is %x", got)
	}
}

// TestStartRow: moves begin at the configuration's start_row, which they and others reset.
func TestStartRow(t *testing.T) {
	install(t)
	locked(t)
	rng := rand.New(rand.NewPCG(7, 8))
	memory := filled(t, rng, moved.rows*moved.colsb)
	const start = 3
	c := config(full, full, full, moved)
	c[1] = start
	for _, code := range [][]byte{loadTile3RAX, storeTile3RDI, tilezeroThree} {
		t.Run(fmt.Sprintf("% x", code), func(t *testing.T) {
			locked(t)
			configure(t, c)
			if got := configuration(t); got != *c {
				t.Errorf("configuration %x, want %x", got, *c)
			}
			stored := filled(t, rng, len(memory))
			want := slices.Clone(stored)
			execute(t, code, func(r *[16]uint64) {
				r[RAX], r[RDI], r[RCX] = address(memory), address(stored), uint64(moved.colsb)
			})
			if &code[0] == &storeTile3RDI[0] {
				clear(want[start*moved.colsb:])
			}
			if !bytes.Equal(stored, want) {
				t.Errorf("stored %x, want %x", stored, want)
			}
			if got := configuration(t); got[1] != 0 {
				t.Errorf("start_row is %d afterwards", got[1])
			}
			loaded := make([]byte, len(memory))
			if &code[0] == &loadTile3RAX[0] {
				copy(loaded[start*moved.colsb:], memory[start*moved.colsb:])
			}
			if got := tile3(t, moved); !bytes.Equal(got, loaded) {
				t.Errorf("tile %x, want %x", got, loaded)
			}
		})
	}
}
