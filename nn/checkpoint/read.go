package checkpoint

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// File is a checkpoint in memory.
type File struct {
	Path   string
	Meta   map[string]string // without the checksum
	SHA256 string            // the checksum the file carries and met; "" in files of other programs

	names   []string
	tensors map[string]Tensor
}

// Names lists the tensors in the order of the file.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Tensor returns the tensor called name. Its values are the file's own memory: two
// calls return the same slice.
func (f *File) Tensor(name string) (Tensor, error) {
	t, ok := f.tensors[name]
	if !ok {
		return Tensor{}, fmt.Errorf("checkpoint %s has no tensor %q among its %d", f.Path, name, len(f.names))
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
func Read(path string) (*File, error) { return open(path, true) }

// Verify reads the file path without keeping its values. Unlike Read it also refuses
// a file that carries no checksum.
func Verify(path string) error {
	f, err := open(path, false)
	if err != nil {
		return err
	}
	if f.SHA256 == "" {
		return &DamageError{path, errors.New("it carries no checksum")}
	}
	return nil
}

// readBuffer is the buffer between file and tensors.
const readBuffer = 1 << 20

func open(path string, keep bool) (*File, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read checkpoint: %s is not a regular file", path)
	}
	f, err := decode(bufio.NewReaderSize(r, readBuffer), info.Size(), keep)
	if pathErr := (*os.PathError)(nil); errors.As(err, &pathErr) {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	if err != nil {
		return nil, &DamageError{path, err}
	}
	f.Path = path
	return f, nil
}

// decode reads a file of size bytes; the values are only hashed unless keep. It
// allocates no more than a small multiple of size, whatever the bytes say.
func decode(r io.Reader, size int64, keep bool) (*File, error) {
	if size < lengthBytes {
		return nil, fmt.Errorf("truncated: %d bytes cannot hold a header", size)
	}
	length := make([]byte, lengthBytes)
	if _, err := io.ReadFull(r, length); err != nil {
		return nil, fmt.Errorf("header length: %w", err)
	}
	headerBytes := binary.LittleEndian.Uint64(length)
	if headerBytes > maxHeader {
		return nil, fmt.Errorf("a header of %d bytes is absurd: not a safetensors file", headerBytes)
	}
	valueBytes := size - lengthBytes - int64(headerBytes)
	if valueBytes < 0 {
		return nil, fmt.Errorf("truncated: the header takes %d bytes, the file has %d", headerBytes, size)
	}
	head := make([]byte, lengthBytes+headerBytes)
	copy(head, length)
	if _, err := io.ReadFull(r, head[lengthBytes:]); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	meta, entries, err := decodeHeader(head[lengthBytes:], valueBytes)
	if err != nil {
		return nil, err
	}
	f := &File{Meta: meta, tensors: make(map[string]Tensor, len(entries))}
	if f.SHA256, err = takeChecksum(meta, head); err != nil {
		return nil, err
	}

	sum := sha256.New()
	sum.Write(head)
	for _, e := range entries {
		f.names = append(f.names, e.name)
		if !keep {
			if _, err := io.CopyN(sum, r, e.end-e.begin); err != nil {
				return nil, fmt.Errorf("tensor %q: %w", e.name, err)
			}
			continue
		}
		t := e.allocate()
		values := t.memory()
		if _, err := io.ReadFull(r, values); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", e.name, err)
		}
		sum.Write(values)
		if hostIsBigEndian() {
			reverseElements(values, int(e.dtype.size()))
		}
		f.tensors[e.name] = t
	}
	if got := hex.EncodeToString(sum.Sum(nil)); f.SHA256 != "" && got != f.SHA256 {
		return nil, fmt.Errorf("checksum is %s, the file says %s", got, f.SHA256)
	}
	return f, nil
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
