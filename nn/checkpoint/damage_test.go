package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// file builds a safetensors file from a header and values.
func file(header, values string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header+values...)
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	const four = "\x00\x00\x80\x3f"
	for _, c := range []struct {
		want string
		data []byte
	}{
		{"truncated: 0 bytes cannot hold a header", nil},
		{"truncated: 7 bytes cannot hold a header", make([]byte, 7)},
		{"a header of 18446744073709551615 bytes is absurd: not a safetensors file", bytes.Repeat([]byte{255}, 8)},
		{"truncated: the header takes 9 bytes, the file has 8", []byte{9, 0, 0, 0, 0, 0, 0, 0}},
		{"header: not JSON", file("", "")},
		{"header: not a JSON object", file("[]", "")},
		{"header: not JSON", file(`{"a":`, "")},
		{"header: not JSON", file(`{}{}`, "")},
		{"header: not valid UTF-8", file("{\"\xff\":1}", "")},
		{`header: key "a" occurs twice`, file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":1}`, "")},
		{"header: metadata is not a mapping of strings", file(`{"__metadata__":{"a":1}}`, "")},
		{"header: metadata is not a mapping of strings", file(`{"__metadata__":null}`, "")},
		{`tensor "a": not a JSON object`, file(`{"a":1}`, "")},
		{`tensor "a": dtype "BF16" is not one of F32, F64, I64`, file(`{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}`, "ab")},
		{`tensor "a": dtype "" is not one of F32, F64, I64`, file(`{"a":{}}`, "")},
		{`tensor "a": DTYPE: unknown key`, file(`{"a":{"DTYPE":"F32"}}`, "")},
		{`tensor "a": shape is missing`, file(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, four)},
		{`tensor "a": shape [-1] has a negative dimension`, file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, four)},
		{`tensor "a": shape [4611686018427387904 4] is too large`, file(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, "")},
		{`tensor "a": F32 of shape [2] takes 8 bytes, data_offsets give it 4`, file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, four)},
		{`tensor "a": data_offsets: not a pair`, file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}`, four)},
		{`tensor "a": data_offsets [4,0] are missing or not ascending from 0`, file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, four)},
		{`tensor "a": data_offsets [-4,0] are missing or not ascending from 0`, file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, four)},
		{`truncated: tensor "a" ends at byte 4 of the values, the file has 3`, file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, four[:3])},
		{`1 trailing bytes belong to no tensor`, file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, four+"x")},
		{`4 bytes before tensor "a" belong to no tensor`, file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, four+four)},
		{`tensor "b" begins at byte 0, inside the tensor before it, which ends at 4`,
			file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, four)},
		{"the checksum is not where this program writes it: the header was changed", file(`{ "__metadata__":{"sha256":"00"}}`, "")},
	} {
		path := filepath.Join(t.TempDir(), "a.safetensors")
		if err := os.WriteFile(path, c.data, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Read(path)
		var damage *DamageError
		if want := "checkpoint " + path + " is damaged: " + c.want; !errors.As(err, &damage) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestForeignFileIsReadButNotVerified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.safetensors")
	data := file(`{"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   `, "\x00\x00\x80\x3f")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := f.F32("b", 1); err != nil || b[0] != 1 || f.SHA256 != "" {
		t.Errorf("got %v, %v, checksum %q", b, err, f.SHA256)
	}
	if err := Verify(path); err == nil || !strings.HasSuffix(err.Error(), "it carries no checksum") {
		t.Errorf("verify: %v", err)
	}
}

func TestTypedAccessNamesFileAndTensor(t *testing.T) {
	path, _ := written(t)
	f, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if step, err := f.I64("step"); err != nil || len(step) != 1 {
		t.Errorf("step: %v, %v", step, err)
	}
	if clock, err := f.F64("clock", 2); err != nil || len(clock) != 2 {
		t.Errorf("clock: %v, %v", clock, err)
	}
	_, errName := f.F32("W", 2, 3)
	_, errType := f.F64("w", 2, 3)
	_, errShape := f.F32("w", 3, 2)
	for _, c := range []struct {
		err  error
		want string
	}{
		{errName, ` has no tensor "W" among its 4`},
		{errType, `: tensor "w" is F32 [2 3], want F64 [2 3]`},
		{errShape, `: tensor "w" is F32 [2 3], want F32 [3 2]`},
	} {
		if want := "checkpoint " + path + c.want; c.err == nil || c.err.Error() != want {
			t.Errorf("got  %v\nwant %s", c.err, want)
		}
	}
}

func TestEveryTruncationAndEveryFlippedBitIsFound(t *testing.T) {
	path, data := written(t)
	for n := range data {
		if err := os.WriteFile(path, data[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil {
			t.Errorf("the first %d of %d bytes were taken for a checkpoint", n, len(data))
		}
	}
	for i := range data {
		for bit := range 8 {
			data[i] ^= 1 << bit
			_, err := decode(bytes.NewReader(data), int64(len(data)), true)
			f, _ := decode(bytes.NewReader(data), int64(len(data)), false)
			// A flip inside the words __metadata__ or sha256 makes a file of another
			// program, which has no checksum; Verify still refuses it.
			if err == nil && f.SHA256 != "" {
				t.Errorf("bit %d of byte %d was flipped unnoticed", bit, i)
			}
			data[i] ^= 1 << bit
		}
	}
}

func TestReadErrorsOfTheSystemAreNotDamage(t *testing.T) {
	dir := t.TempDir()
	_, err := Read(filepath.Join(dir, "absent"))
	var damage *DamageError
	if !errors.Is(err, fs.ErrNotExist) || errors.As(err, &damage) {
		t.Errorf("absent: %v", err)
	}
	if _, err := Read(dir); err == nil || errors.As(err, &damage) {
		t.Errorf("directory: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	path := filepath.Join(f.TempDir(), "a.safetensors")
	tensors, meta := sample()
	if _, err := Write(path, meta, tensors); err != nil {
		f.Fatal(err)
	}
	data, _ := os.ReadFile(path)
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Add(file(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, ""))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decode(bytes.NewReader(data), int64(len(data)), true)
		if err != nil {
			return
		}
		// What was accepted can be written again and is the same.
		var back []Tensor
		for _, name := range got.Names() {
			tensor, err := got.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			back = append(back, tensor)
		}
		path := filepath.Join(t.TempDir(), "b.safetensors")
		if _, err := Write(path, got.Meta, back); err != nil {
			t.Fatal(err)
		}
		again, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range back {
			if have, err := again.Tensor(want.Name); err != nil || Checksum(have) != Checksum(want) {
				t.Errorf("tensor %q came back as %v, %v", want.Name, have, err)
			}
		}
	})
}
