package checkpoint

import (
	"encoding/binary"
	"io"
	"slices"
	"unsafe"
)

// hostIsBigEndian reports whether values in memory have the opposite byte order of
// safetensors, which is little-endian.
func hostIsBigEndian() bool { return binary.NativeEndian.Uint16([]byte{0, 1}) == 1 }

// memory is t's values as the bytes they occupy, aliased, in the host's order.
func (t *Tensor) memory() []byte {
	switch {
	case t.F32 != nil:
		return raw(t.F32)
	case t.F64 != nil:
		return raw(t.F64)
	}
	return raw(t.I64)
}

// raw views a slice of numbers as bytes: converting element by element would need a
// second copy of the model and takes several times as long as hashing it.
func raw[E float32 | float64 | int64](values []E) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), len(values)*int(unsafe.Sizeof(values[0])))
}

// swapChunk is how many bytes are byte-swapped at a time, a multiple of every
// element's size.
const swapChunk = 1 << 16

// writeValues writes t's values, every element's bytes reversed if swap.
func writeValues(w io.Writer, t *Tensor, swap bool) error {
	data := t.memory()
	if !swap {
		_, err := w.Write(data)
		return err
	}
	buffer := make([]byte, 0, swapChunk)
	for chunk := range slices.Chunk(data, swapChunk) {
		buffer = append(buffer[:0], chunk...)
		reverseElements(buffer, int(t.dtype().size()))
		if _, err := w.Write(buffer); err != nil {
			return err
		}
	}
	return nil
}

// reverseElements reverses the bytes of every element of size bytes, in place.
func reverseElements(data []byte, size int) {
	for element := range slices.Chunk(data, size) {
		slices.Reverse(element)
	}
}
