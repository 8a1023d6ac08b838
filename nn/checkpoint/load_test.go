package checkpoint

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// blank is sample with every value 7: memory to load into.
func blank() []Tensor {
	tensors, _ := sample()
	for _, t := range tensors {
		for i := range t.F32 {
			t.F32[i] = 7
		}
		for i := range t.F64 {
			t.F64[i] = 7
		}
		for i := range t.I64 {
			t.I64[i] = 7
		}
	}
	return tensors
}

func TestLoadFillsTheMemoryItIsGiven(t *testing.T) {
	path, _ := written(t)
	want, meta := sample()
	into := blank()
	first := &into[0].F32[0]
	h, err := Load(path, into, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if h.Path != path || h.SHA256 != f.SHA256 || !reflect.DeepEqual(h.Meta, meta) || !reflect.DeepEqual(h.Names(), f.Names()) {
		t.Errorf("header %+v, Read has %+v", h, f.Header)
	}
	for i := range want {
		if !bytes.Equal(into[i].memory(), want[i].memory()) {
			t.Errorf("%s: got %v, want %v", want[i].Name, into[i], want[i])
		}
	}
	if first != &into[0].F32[0] {
		t.Error("the values lie elsewhere")
	}
}

func TestLoadSkipsOnRequestAlone(t *testing.T) {
	path, _ := written(t)
	want, _ := sample()
	var asked []string
	into := blank()[:1]
	_, err := Load(path, into, func(name string) bool {
		asked = append(asked, name)
		return name != "none"
	})
	if err == nil || err.Error() != "load checkpoint "+path+`: nothing takes its tensor "none", F32 [0 4]` {
		t.Errorf("got %v", err)
	}
	if names := strings.Join(asked, " "); names != "clock step none" {
		t.Errorf("asked whether to skip %s", names)
	}
	if _, err = Load(path, into, func(string) bool { return true }); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(into[0].memory(), want[0].memory()) {
		t.Errorf("got %v, want %v: what is asked for is not skipped", into[0], want[0])
	}
}

func TestLoadSaysWhatDiffers(t *testing.T) {
	path, _ := written(t)
	for _, c := range []struct {
		want   string
		change func(all []Tensor) []Tensor
	}{
		{`nothing takes its tensor "w", F32 [2 3]`, func(all []Tensor) []Tensor { return all[1:] }},
		{`it has no tensor "extra" among its 4`, func(all []Tensor) []Tensor {
			return append(all, Tensor{Name: "extra", Shape: []int{1}, I64: []int64{1}})
		}},
		{`tensor "w" is F32 [2 3], want F32 [3 2]`, func(all []Tensor) []Tensor { all[0].Shape = []int{3, 2}; return all }},
		{`tensor "clock" is F64 [2], want I64 [2]`, func(all []Tensor) []Tensor {
			all[1] = Tensor{Name: "clock", Shape: []int{2}, I64: []int64{7, 7}}
			return all
		}},
		{`tensor w: shape [2 3] holds 6 values, got 5`, func(all []Tensor) []Tensor { all[0].F32 = all[0].F32[:5]; return all }},
		{`two tensors are named step`, func(all []Tensor) []Tensor { return append(all, all[2]) }},
	} {
		into := c.change(blank())
		before := Checksum(into...)
		_, err := Load(path, into, nil)
		var damage *DamageError
		if want := "load checkpoint " + path + ": " + c.want; err == nil || err.Error() != want || errors.As(err, &damage) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if Checksum(into...) != before {
			t.Errorf("%s: values were written nevertheless", c.want)
		}
	}
}

func TestLoadFindsDamage(t *testing.T) {
	path, data := written(t)
	try := func(into []Tensor, skip func(string) bool) (string, error) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		h, err := Load(path, into, skip)
		if err != nil {
			return "", err
		}
		return h.SHA256, nil
	}
	everything := func(string) bool { return true }
	for i := range data {
		bit := byte(1) << (i % 8)
		data[i] ^= bit
		for _, into := range [][]Tensor{blank(), nil} { // loaded and skipped
			// As for Read: without the word sha256 it is a file of another program.
			if sum, err := try(into, everything); err == nil && sum != "" {
				t.Errorf("byte %d was changed unnoticed, %d tensors loaded", i, len(into))
			}
		}
		data[i] ^= bit
	}
	var damage *DamageError
	data = data[:len(data)-1]
	if _, err := try(blank(), nil); !errors.As(err, &damage) || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("truncated: %v", err)
	}
	if _, err := Load(path+"x", nil, nil); !errors.Is(err, fs.ErrNotExist) || errors.As(err, &damage) {
		t.Errorf("absent: %v", err)
	}
}

func TestLoadMakesNoSecondCopy(t *testing.T) {
	const n = 4 << 20
	path := filepath.Join(t.TempDir(), "a.safetensors")
	tensors := []Tensor{{Name: "w", Shape: []int{n}, F32: make([]float32, n)}}
	for i := range tensors[0].F32 {
		tensors[0].F32[i] = float32(i) // more than one chunk, none like another
	}
	if _, err := Write(path, nil, tensors); err != nil {
		t.Fatal(err)
	}
	sum := Checksum(tensors...)
	clear(tensors[0].F32)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Load(path, tensors, nil)
	runtime.ReadMemStats(&after)
	if err != nil || Checksum(tensors...) != sum {
		t.Errorf("%v, or other values", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 4*n/8 {
		t.Errorf("loading %d bytes of values allocated %d", 4*n, took)
	}
}

func TestReadHeader(t *testing.T) {
	path, data := written(t)
	_, meta := sample()
	data[len(data)-1] ^= 1 // of a value, which it does not read
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	h, err := ReadHeader(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"clock", "step", "none", "w"}; h.Path != path || !reflect.DeepEqual(h.Meta, meta) || !reflect.DeepEqual(h.Names(), want) {
		t.Errorf("got %+v", h)
	}
	var damage *DamageError
	if err := os.Truncate(path, int64(len(data)-1)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadHeader(path); !errors.As(err, &damage) || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("truncated: %v", err)
	}
	const values = 48
	head := bytes.NewReader(data[:len(data)-values])
	if _, _, err := decodeStart(head, int64(len(data))); err != nil || head.Len() != 0 {
		t.Errorf("more than the header was wanted: %v", err)
	}
}
