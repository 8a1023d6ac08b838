package amx

import (
	"fmt"
	"unsafe"
)

// Packed is a right operand that Kernels.Pack laid out, in a format only the set
// that packed it can read. The zero value is ready for use.
type Packed struct {
	set    string
	t      Trans
	n, k   int
	memory memory
}

// mustBelong panics unless set packed p: another set's format would be read as numbers.
func (p *Packed) mustBelong(set string) {
	if p.set != set {
		panic(fmt.Sprintf("amx: GemmPacked of %s: operand was packed by %q", set, p.set))
	}
}

// memory is a buffer that starts at a multiple of a cache line and only grows.
type memory struct{ data []float32 }

const lineFloats = 16 // a cache line of 64 bytes

// reserve returns the start of at least size bytes.
func (m *memory) reserve(size int) unsafe.Pointer {
	if need := (size+3)/4 + lineFloats; need > len(m.data) {
		m.data = make([]float32, need)
	}
	return m.start()
}

func (m *memory) start() unsafe.Pointer {
	if len(m.data) == 0 {
		return nil
	}
	address := uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))
	return unsafe.Pointer(&m.data[(-address%(4*lineFloats))/4])
}
