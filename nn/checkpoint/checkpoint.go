// Package checkpoint keeps named tensors in safetensors files, so that a
// training that dies at any moment finds its last state whole.
//
// Inputs are tensors in memory and free-form string metadata; outputs are files
// that any safetensors reader opens. Bytes are a function of names, shapes,
// values and metadata alone: equal states make equal files. Every file carries a
// SHA-256 of itself, so that truncation and bit rot are found when it is read.
//
// Non-goals: what the tensors mean, when to write one, sharding, and dtypes other
// than F32, F64 and I64.
package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Tensor is a named array, row-major. Exactly one of F32, F64 and I64 is set (not
// nil) and gives the dtype; its length is the product of Shape. An empty Shape is
// a scalar.
type Tensor struct {
	Name  string
	Shape []int
	F32   []float32
	F64   []float64
	I64   []int64
}

// dtype is an element type, by the name safetensors gives it.
type dtype string

const (
	f32 dtype = "F32"
	f64 dtype = "F64"
	i64 dtype = "I64"
)

// size is the width of one element in bytes, 0 for a dtype this package lacks.
func (d dtype) size() int64 {
	switch d {
	case f32:
		return 4
	case f64, i64:
		return 8
	}
	return 0
}

func (t *Tensor) dtype() dtype {
	switch {
	case t.F32 != nil:
		return f32
	case t.F64 != nil:
		return f64
	}
	return i64
}

func (t *Tensor) length() int { return len(t.F32) + len(t.F64) + len(t.I64) }

// check refuses what a file could not hold or a reader would not accept.
func (t *Tensor) check() error {
	if t.Name == "" || t.Name == metadataKey {
		return fmt.Errorf("tensor name %q is not allowed", t.Name)
	}
	set := 0
	for _, isSet := range []bool{t.F32 != nil, t.F64 != nil, t.I64 != nil} {
		if isSet {
			set++
		}
	}
	if set != 1 {
		return fmt.Errorf("tensor %s: %d of F32, F64 and I64 are set, want one", t.Name, set)
	}
	want, err := elements(t.Shape)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	if int64(t.length()) != want {
		return fmt.Errorf("tensor %s: shape %v holds %d values, got %d", t.Name, t.Shape, want, t.length())
	}
	return nil
}

// maxElements keeps byte counts far from overflowing an int64.
const maxElements = math.MaxInt64 / 64

// elements is the product of a shape.
func elements(shape []int) (int64, error) {
	// A zero anywhere makes the product zero whatever the others are, so the
	// overflow check must not see them first.
	if i := slices.IndexFunc(shape, func(d int) bool { return d < 0 }); i >= 0 {
		return 0, fmt.Errorf("shape %v has a negative dimension", shape)
	}
	if slices.Contains(shape, 0) {
		return 0, nil
	}
	n := int64(1)
	for _, d := range shape {
		if int64(d) > maxElements/n {
			return 0, fmt.Errorf("shape %v is too large", shape)
		}
		n *= int64(d)
	}
	return n, nil
}

// Checksum is the SHA-256, in hex, of tensors' names, dtypes, shapes and values in
// the order given: the identity of a set of weights, whatever metadata and
// companions a file stores them with.
func Checksum(tensors ...Tensor) string {
	sum := sha256.New()
	for i := range tensors {
		t := &tensors[i]
		fmt.Fprintf(sum, "%s %s %v\n", strconv.Quote(t.Name), t.dtype(), t.Shape)
		// A hash never returns an error.
		_ = writeValues(sum, t, hostIsBigEndian())
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// DamageError says that a file is not a whole checkpoint. Files that cannot be
// opened or read at all give the operating system's error instead.
type DamageError struct {
	Path   string
	Reason error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("checkpoint %s is damaged: %v", e.Path, e.Reason)
}

// Unwrap gives the reason.
func (e *DamageError) Unwrap() error { return e.Reason }

// ErrNone is returned by Latest where a directory holds no whole checkpoint.
var ErrNone = errors.New("no whole checkpoint")
