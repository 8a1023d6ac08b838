package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// A safetensors file is: the header's length (8 bytes, little-endian); the header,
// JSON padded with spaces; the tensors' values, without gaps, little-endian.

const (
	lengthBytes = 8
	metadataKey = "__metadata__"
	checksumKey = "sha256"

	// maxHeader is the limit other safetensors readers have.
	maxHeader = 100_000_000

	// checksumPrefix starts every header we write, so that the checksum's digits
	// lie at a fixed place. They count as zeros in the checksum itself.
	checksumPrefix = `{"` + metadataKey + `":{"` + checksumKey + `":"`
	checksumAt     = lengthBytes + len(checksumPrefix)
	checksumDigits = 64
)

// entry is one tensor in a header. Begin and end count bytes from the first value.
type entry struct {
	name       string
	dtype      dtype
	shape      []int
	begin, end int64
}

// encodeHeader returns the length and the header, checksum digits zero. Tensors are
// laid out in the order given.
func encodeHeader(meta map[string]string, tensors []*Tensor) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, lengthBytes))
	b.WriteString(checksumPrefix)
	b.WriteString(strings.Repeat("0", checksumDigits))
	b.WriteString(`"`)
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if key == checksumKey {
			return nil, fmt.Errorf("metadata key %q is this package's own", key)
		}
		k, err := quote(key)
		if err != nil {
			return nil, fmt.Errorf("metadata key %q: %w", key, err)
		}
		v, err := quote(meta[key])
		if err != nil {
			return nil, fmt.Errorf("metadata %q: %w", key, err)
		}
		fmt.Fprintf(&b, ",%s:%s", k, v)
	}
	b.WriteString("}")
	var at int64
	for _, t := range tensors {
		name, err := quote(t.Name)
		if err != nil {
			return nil, fmt.Errorf("tensor name %q: %w", t.Name, err)
		}
		shape := strings.ReplaceAll(fmt.Sprint(t.Shape), " ", ",")
		end := at + int64(t.length())*t.dtype().size()
		fmt.Fprintf(&b, `,%s:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`, name, t.dtype(), shape, at, end)
		at = end
	}
	b.WriteString("}")
	for b.Len()%lengthBytes != 0 {
		b.WriteByte(' ') // values start aligned for readers that map the file
	}
	head := b.Bytes()
	if len(head)-lengthBytes > maxHeader {
		return nil, fmt.Errorf("a header of %d bytes is more than readers accept (%d)", len(head), maxHeader)
	}
	binary.LittleEndian.PutUint64(head, uint64(len(head)-lengthBytes))
	return head, nil
}

func quote(s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("not valid UTF-8")
	}
	return json.Marshal(s)
}

// decodeHeader reads a header's JSON and checks it against the number of value bytes
// that follow it. Entries come back in the order of their values, which they cover
// without gap or overlap.
func decodeHeader(text []byte, valueBytes int64) (map[string]string, []entry, error) {
	members, err := decodeObject(text)
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	meta := map[string]string{}
	var entries []entry
	for _, m := range members {
		if m.key == metadataKey {
			if err := json.Unmarshal(m.value, &meta); err != nil || meta == nil {
				return nil, nil, errors.New("header: metadata is not a mapping of strings")
			}
			continue
		}
		e, err := decodeEntry(m.key, m.value)
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", m.key, err)
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	var at int64
	for _, e := range entries {
		switch {
		case e.end > valueBytes:
			return nil, nil, fmt.Errorf("truncated: tensor %q ends at byte %d of the values, the file has %d", e.name, e.end, valueBytes)
		case e.begin < at:
			return nil, nil, fmt.Errorf("tensor %q begins at byte %d, inside the tensor before it, which ends at %d", e.name, e.begin, at)
		case e.begin > at:
			return nil, nil, fmt.Errorf("%d bytes before tensor %q belong to no tensor", e.begin-at, e.name)
		}
		at = e.end
	}
	if at != valueBytes {
		return nil, nil, fmt.Errorf("%d trailing bytes belong to no tensor", valueBytes-at)
	}
	return meta, entries, nil
}

type member struct {
	key   string
	value json.RawMessage
}

// decodeObject splits a JSON object into members. Unlike a decode into a map it
// refuses duplicate keys: readers disagree on which of the two counts.
func decodeObject(text []byte) ([]member, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not valid UTF-8")
	}
	if !json.Valid(text) {
		return nil, errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var members []member
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{key: token.(string)} // valid JSON has no other keys
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		if seen[m.key] {
			return nil, fmt.Errorf("key %q occurs twice", m.key)
		}
		seen[m.key] = true
		members = append(members, m)
	}
	return members, nil
}

func decodeEntry(name string, text []byte) (entry, error) {
	members, err := decodeObject(text)
	if err != nil {
		return entry{}, err
	}
	e := entry{name: name, begin: -1}
	for _, m := range members {
		switch m.key {
		case "dtype":
			err = json.Unmarshal(m.value, &e.dtype)
		case "shape":
			err = json.Unmarshal(m.value, &e.shape)
		case "data_offsets":
			var offsets []int64
			err = json.Unmarshal(m.value, &offsets)
			if err == nil && len(offsets) != 2 {
				err = errors.New("not a pair")
			}
			if err == nil {
				e.begin, e.end = offsets[0], offsets[1]
			}
		default:
			err = errors.New("unknown key")
		}
		if err != nil {
			return entry{}, fmt.Errorf("%s: %w", m.key, err)
		}
	}
	size := e.dtype.size()
	if size == 0 {
		return entry{}, fmt.Errorf("dtype %q is not one of F32, F64, I64", e.dtype)
	}
	if e.shape == nil {
		return entry{}, errors.New("shape is missing")
	}
	if e.begin < 0 || e.end < e.begin {
		return entry{}, fmt.Errorf("data_offsets [%d,%d] are missing or not ascending from 0", e.begin, e.end)
	}
	n, err := elements(e.shape)
	if err != nil {
		return entry{}, err
	}
	if e.end-e.begin != n*size {
		return entry{}, fmt.Errorf("%s of shape %v takes %d bytes, data_offsets give it %d", e.dtype, e.shape, n*size, e.end-e.begin)
	}
	return e, nil
}
