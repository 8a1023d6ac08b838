package checkpoint

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// writeBuffer is the buffer between tensors and file: many tensors are a few bytes.
const writeBuffer = 1 << 20

// Write stores tensors and metadata as the file path, and returns the SHA-256 that
// the file carries (of the whole file, its own digits taken as zeros). The file
// appears whole or not at all: it is written aside in the same directory, fsynced and
// renamed, and the directory is fsynced. An error leaves a file that was there
// before as it was. Tensors are read, never copied or retained; their order does not
// matter.
func Write(path string, meta map[string]string, tensors []Tensor) (sha256Hex string, err error) {
	sha256Hex, err = write(path, meta, tensors)
	if err != nil {
		return "", fmt.Errorf("write checkpoint %s: %w", path, err)
	}
	return sha256Hex, nil
}

func write(path string, meta map[string]string, tensors []Tensor) (string, error) {
	sorted, err := inFileOrder(tensors)
	if err != nil {
		return "", err
	}
	head, err := encodeHeader(meta, sorted)
	if err != nil {
		return "", err
	}
	// The checksum stands in front of what it covers, so the values are read twice,
	// from memory.
	swap := hostIsBigEndian()
	sum := sha256.New()
	sum.Write(head)
	for _, t := range sorted {
		if err := writeValues(sum, t, swap); err != nil {
			return "", err
		}
	}
	digits := hex.EncodeToString(sum.Sum(nil))
	copy(head[checksumAt:], digits)

	aside := asidePath(path)
	if err := writeSynced(aside, head, sorted, swap); err != nil {
		os.Remove(aside)
		return "", err
	}
	if err := os.Rename(aside, path); err != nil {
		os.Remove(aside)
		return "", err
	}
	return digits, syncDirectory(filepath.Dir(path))
}

// inFileOrder checks tensors and sorts them: eight-byte elements first, which keeps
// every value aligned, then by name.
func inFileOrder(tensors []Tensor) ([]*Tensor, error) {
	sorted := make([]*Tensor, len(tensors))
	for i := range tensors {
		if err := tensors[i].check(); err != nil {
			return nil, err
		}
		sorted[i] = &tensors[i]
	}
	slices.SortFunc(sorted, func(a, b *Tensor) int {
		return cmp.Or(-cmp.Compare(a.dtype().size(), b.dtype().size()), cmp.Compare(a.Name, b.Name))
	})
	names := make(map[string]bool, len(sorted))
	for _, t := range sorted {
		if names[t.Name] {
			return nil, fmt.Errorf("two tensors are named %s", t.Name)
		}
		names[t.Name] = true
	}
	return sorted, nil
}

func writeSynced(path string, head []byte, tensors []*Tensor, swap bool) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	w := bufio.NewWriterSize(f, writeBuffer)
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, t := range tensors {
		if err := writeValues(w, t, swap); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// syncDirectory makes a rename in dir survive a power cut.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
