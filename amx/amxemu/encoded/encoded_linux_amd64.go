package encoded

// #include "encoded.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// General registers, by the number that encodes them.
const (
	RAX = iota
	RCX
	RDX
	RBX
	RSP
	RBP
	RSI
	RDI
	R8
	R9
	R10
	R11
	R12
	R13
	R14
	R15
)

// DefaultMXCSR rounds to nearest even, handles denormals and masks all exceptions.
const DefaultMXCSR = 0x1f80

// Registers are the CPU's when code begins, and after Run, when it ended.
type Registers struct {
	General [16]uint64
	MXCSR   uint32
}

// Code is machine code in memory that can be executed and not written.
type Code struct {
	mapping []byte
	entry   unsafe.Pointer
}

// Assemble makes code of the bytes and a jump back to Run behind them. It ends where
// its page ends, and the next page cannot be read.
func Assemble(code []byte) (*Code, error) {
	code = append(slices.Clone(code), 0xff, 0x25, 0, 0, 0, 0) // jmp *(rip+0), and the address
	code = binary.LittleEndian.AppendUint64(code, uint64(uintptr(C.encoded_exit)))
	page := os.Getpagesize()
	usable := (len(code) + page - 1) / page * page
	mapping, err := unix.Mmap(-1, 0, usable+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map memory for code: %w", err)
	}
	entry := usable - len(code)
	copy(mapping[entry:], code)
	err = errors.Join(
		unix.Mprotect(mapping[:usable], unix.PROT_READ|unix.PROT_EXEC),
		unix.Mprotect(mapping[usable:], unix.PROT_NONE),
	)
	if err != nil {
		return nil, fmt.Errorf("protect code: %w", errors.Join(err, unix.Munmap(mapping)))
	}
	return &Code{mapping, unsafe.Pointer(&mapping[entry])}, nil
}

// Address is where the code's first byte lies.
func (c *Code) Address() uint64 { return uint64(uintptr(c.entry)) }

// Run executes the code once, on the calling thread. Memory that it reaches through
// registers must not be Go's, whose collector does not know of them.
func (c *Code) Run(r *Registers) {
	C.encoded_enter((*C.encoded_registers)(unsafe.Pointer(r)), c.entry)
}

// Close unmaps the code.
func (c *Code) Close() error { return unix.Munmap(c.mapping) }

// Product names an instruction that multiplies tiles.
type Product int

const (
	BF16 Product = iota
	SignedSigned
	SignedUnsigned
	UnsignedSigned
	UnsignedUnsigned
)

// Intrinsics loads tiles c, a and b, whose rows are so many bytes apart, multiplies
// with the compiler's intrinsics and stores c. The configuration is of tiles 0 = c, 1 = a, 2 = b.
func Intrinsics(p Product, config *[64]byte, c []byte, ldc int, a []byte, lda int, b []byte, ldb int) {
	C.encoded_product(C.int(p), unsafe.Pointer(config), unsafe.Pointer(&c[0]), C.long(ldc),
		unsafe.Pointer(&a[0]), C.long(lda), unsafe.Pointer(&b[0]), C.long(ldb))
}

// Gemm adds A.B to C [n, n] f32, n a multiple of 32: A [n, n] bf16, B [n/2, n, 2] bf16
// with each pair of rows interleaved. All eight tiles are configured 16 x 64 bytes.
func Gemm(n int, config *[64]byte, c []float32, a, b []uint16) {
	C.encoded_gemm(C.long(n), unsafe.Pointer(config), (*C.float)(&c[0]), (*C.uint16_t)(&a[0]), (*C.uint16_t)(&b[0]))
}
