package checkpoint

import (
	"fmt"
	"slices"
)

// Header is what a file says of its values.
type Header struct {
	Path   string
	Meta   map[string]string // without the checksum
	SHA256 string            // the checksum the file carries; "" in files of other programs

	entries []entry // in the order of the file
}

// Names lists the tensors in the order of the file.
func (h *Header) Names() []string {
	names := make([]string, len(h.entries))
	for i := range h.entries {
		names[i] = h.entries[i].name
	}
	return names
}

// ReadHeader reads the header of the file path and none of its values. It finds a
// truncated file, but bytes that changed are found by Read, Load and Verify alone.
func ReadHeader(path string) (*Header, error) {
	r, err := open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	h, _, err := decodeStart(r, r.size)
	if err != nil {
		return nil, r.reason(err)
	}
	h.Path = path
	return h, nil
}

// Load is Read into memory that is there: the file's values overwrite those of into,
// whose names, dtypes and shapes must be those of the file. Every tensor of into must
// be in the file, and every tensor of the file in into or else skipped: skip(name)
// says so, nil skips none. A difference is found before any value is written. After
// any other error, damage among them, the values of into are undefined.
func Load(path string, into []Tensor, skip func(name string) bool) (*Header, error) {
	r, err := open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	h, sum, err := decodeStart(r, r.size)
	if err != nil {
		return nil, r.reason(err)
	}
	h.Path = path
	taken, err := h.match(into, skip)
	if err != nil {
		return nil, fmt.Errorf("load checkpoint %s: %w", path, err)
	}
	err = h.decodeValues(r, sum, func(e *entry) []byte {
		if t := taken[e.name]; t != nil {
			return t.memory()
		}
		return nil
	})
	if err != nil {
		return nil, r.reason(err)
	}
	return h, nil
}

// match returns into by name, or says how it differs from h.
func (h *Header) match(into []Tensor, skip func(name string) bool) (map[string]*Tensor, error) {
	taken := make(map[string]*Tensor, len(into))
	for i := range into {
		t := &into[i]
		if err := t.check(); err != nil {
			return nil, err
		}
		if taken[t.Name] != nil {
			return nil, fmt.Errorf("two tensors are named %s", t.Name)
		}
		taken[t.Name] = t
	}
	found := 0
	for _, e := range h.entries {
		t := taken[e.name]
		switch {
		case t == nil && (skip == nil || !skip(e.name)):
			return nil, fmt.Errorf("nothing takes its tensor %q, %s %v", e.name, e.dtype, e.shape)
		case t == nil:
			continue
		case t.dtype() != e.dtype || !slices.Equal(t.Shape, e.shape):
			return nil, fmt.Errorf("tensor %q is %s %v, want %s %v", e.name, e.dtype, e.shape, t.dtype(), t.Shape)
		}
		found++
	}
	if found == len(into) {
		return taken, nil
	}
	there := h.Names()
	i := slices.IndexFunc(into, func(t Tensor) bool { return !slices.Contains(there, t.Name) })
	return nil, fmt.Errorf("it has no tensor %q among its %d", into[i].Name, len(there))
}
