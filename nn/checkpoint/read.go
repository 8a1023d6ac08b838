package checkpoint

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"
)

// File is a checkpoint in memory.
type File struct {
	Header  // SHA256 was met
	tensors map[string]Tensor
}

// Tensor returns the tensor called name. Its values are the file's own memory: two
// calls return the same slice.
func (f *File) Tensor(name string) (Tensor, error) {
	t, ok := f.tensors[name]
	if !ok {
		return Tensor{}, fmt.Errorf("checkpoint %s has no tensor %q among its %d", f.Path, name, len(f.entries))
	}
	return t, nil
}

// F32 returns the values of an f32 tensor that must have the given shape.
func (f *File) F32(name string, shape ...int) ([]float32, error) {
	t, err := f.typed(name, f32, shape)
	return t.F32, err
}

// F64 returns the values of an f64 tensor that must have the given shape.
func (f *File) F64(name string, shape ...int) ([]float64, error) {
	t, err := f.typed(name, f64, shape)
	return t.F64, err
}

// I64 returns the values of an i64 tensor that must have the given shape.
func (f *File) I64(name string, shape ...int) ([]int64, error) {
	t, err := f.typed(name, i64, shape)
	return t.I64, err
}

func (f *File) typed(name string, want dtype, shape []int) (Tensor, error) {
	t, err := f.Tensor(name)
	if err != nil {
		return Tensor{}, err
	}
	if t.dtype() != want || !slices.Equal(t.Shape, shape) {
		return Tensor{}, fmt.Errorf("checkpoint %s: tensor %q is %s %v, want %s %v", f.Path, name, t.dtype(), t.Shape, want, shape)
	}
	return t, nil
}

// Read loads the file path and verifies the checksum if it carries one. A file that
// is not whole gives a *DamageError.
func Read(path string) (*File, error) { return read(path, true) }

// Verify reads the file path without keeping its values. Unlike Read it also refuses
// a file that carries no checksum.
func Verify(path string) error {
	f, err := read(path, false)
	if err != nil {
		return err
	}
	if f.SHA256 == "" {
		return &DamageError{path, errors.New("it carries no checksum")}
	}
	return nil
}

func read(path string, keep bool) (*File, error) {
	r, err := open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, err := decode(r, r.size, keep)
	if err != nil {
		return nil, r.reason(err)
	}
	f.Path = path
	return f, nil
}

// readBuffer serves the small tensors, readChunk is what is read of a large one
// before it is hashed, from the cache.
const (
	readBuffer = 1 << 16
	readChunk  = 1 << 18
)

// source is a file to read from.
type source struct {
	*bufio.Reader
	file *os.File
	path string
	size int64
}

func open(path string) (*source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	return &source{bufio.NewReaderSize(f, readBuffer), f, path, info.Size()}, nil
}

func (s *source) Close() error { return s.file.Close() }

// reason tells damage from a file that cannot be read.
func (s *source) reason(err error) error {
	if pathErr := (*os.PathError)(nil); errors.As(err, &pathErr) {
		return fmt.Errorf("read checkpoint: %w", err)
	}
	return &DamageError{s.path, err}
}

// decode reads a file of size bytes; the values are only hashed unless keep. It
// allocates no more than a small multiple of size, whatever the bytes say.
func decode(r io.Reader, size int64, keep bool) (*File, error) {
	h, sum, err := decodeStart(r, size)
	if err != nil {
		return nil, err
	}
	f := &File{Header: *h, tensors: make(map[string]Tensor, len(h.entries))}
	err = h.decodeValues(r, sum, func(e *entry) []byte {
		if !keep {
			return nil
		}
		t := e.allocate()
		f.tensors[e.name] = t
		return t.memory()
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// decodeStart reads a file of size bytes up to its values. sum has seen what was read.
func decodeStart(r io.Reader, size int64) (h *Header, sum hash.Hash, err error) {
	if size < lengthBytes {
		return nil, nil, fmt.Errorf("truncated: %d bytes cannot hold a header", size)
	}
	length := make([]byte, lengthBytes)
	if _, err := io.ReadFull(r, length); err != nil {
		return nil, nil, fmt.Errorf("header length: %w", err)
	}
	headerBytes := binary.LittleEndian.Uint64(length)
	if headerBytes > maxHeader {
		return nil, nil, fmt.Errorf("a header of %d bytes is absurd: not a safetensors file", headerBytes)
	}
	valueBytes := size - lengthBytes - int64(headerBytes)
	if valueBytes < 0 {
		return nil, nil, fmt.Errorf("truncated: the header takes %d bytes, the file has %d", headerBytes, size)
	}
	head := make([]byte, lengthBytes+headerBytes)
	copy(head, length)
	if _, err := io.ReadFull(r, head[lengthBytes:]); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	h = new(Header)
	if h.Meta, h.entries, err = decodeHeader(head[lengthBytes:], valueBytes); err != nil {
		return nil, nil, err
	}
	if h.SHA256, err = takeChecksum(h.Meta, head); err != nil {
		return nil, nil, err
	}
	sum = sha256.New()
	sum.Write(head)
	return h, sum, nil
}

// decodeValues reads what follows decodeStart. place says which memory takes an
// entry's values; where it says nil they are only hashed.
func (h *Header) decodeValues(r io.Reader, sum hash.Hash, place func(*entry) []byte) error {
	for i := range h.entries {
		e := &h.entries[i]
		values := place(e)
		if values == nil {
			if _, err := io.CopyN(sum, r, e.end-e.begin); err != nil {
				return fmt.Errorf("tensor %q: %w", e.name, err)
			}
			continue
		}
		for chunk := range slices.Chunk(values, readChunk) {
			if _, err := io.ReadFull(r, chunk); err != nil {
				return fmt.Errorf("tensor %q: %w", e.name, err)
			}
			sum.Write(chunk)
			if hostIsBigEndian() {
				reverseElements(chunk, int(e.dtype.size()))
			}
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); h.SHA256 != "" && got != h.SHA256 {
		return fmt.Errorf("checksum is %s, the file says %s", got, h.SHA256)
	}
	return nil
}

// takeChecksum moves the checksum out of the metadata and zeroes its digits in head,
// as they were when it was taken.
func takeChecksum(meta map[string]string, head []byte) (string, error) {
	digits, ok := meta[checksumKey]
	if !ok {
		return "", nil
	}
	delete(meta, checksumKey)
	if !strings.HasPrefix(string(head[lengthBytes:]), checksumPrefix+digits+`"`) || len(digits) != checksumDigits {
		return "", errors.New("the checksum is not where this program writes it: the header was changed")
	}
	copy(head[checksumAt:], strings.Repeat("0", checksumDigits))
	return digits, nil
}

// allocate makes a tensor of e's dtype and shape, all zero.
func (e *entry) allocate() Tensor {
	t := Tensor{Name: e.name, Shape: e.shape}
	n := (e.end - e.begin) / e.dtype.size()
	switch e.dtype {
	case f32:
		t.F32 = make([]float32, n)
	case f64:
		t.F64 = make([]float64, n)
	case i64:
		t.I64 = make([]int64, n)
	}
	return t
}
