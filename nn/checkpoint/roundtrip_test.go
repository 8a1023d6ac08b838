package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// sample holds every dtype, a scalar, an empty tensor and values whose bits are easily lost.
func sample() ([]Tensor, map[string]string) {
	nan := math.Float32frombits(0x7fc0dead)
	return []Tensor{
		{Name: "w", Shape: []int{2, 3}, F32: []float32{1, -0.5, float32(math.Inf(1)), nan, math.SmallestNonzeroFloat32, float32(math.Copysign(0, -1))}},
		{Name: "clock", Shape: []int{2}, F64: []float64{math.Pi, -1e-300}},
		{Name: "step", Shape: []int{}, I64: []int64{math.MinInt64}},
		{Name: "none", Shape: []int{0, 4}, F32: []float32{}},
	}, map[string]string{"run": `<"ä">`, "at": "12"}
}

func written(t *testing.T) (path string, data []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "a.safetensors")
	tensors, meta := sample()
	if _, err := Write(path, meta, tensors); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, data
}

func TestRoundTripKeepsEveryBit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.safetensors")
	tensors, meta := sample()
	sum, err := Write(path, meta, tensors)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.SHA256 != sum || f.Path != path || !reflect.DeepEqual(f.Meta, meta) {
		t.Errorf("got sum %s path %s meta %v, want %s %s %v", f.SHA256, f.Path, f.Meta, sum, path, meta)
	}
	if want := []string{"clock", "step", "none", "w"}; !reflect.DeepEqual(f.Names(), want) {
		t.Errorf("names %v, want %v", f.Names(), want)
	}
	for _, want := range tensors {
		got, err := f.Tensor(want.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got.dtype() != want.dtype() || !reflect.DeepEqual(got.Shape, want.Shape) || !bytes.Equal(got.memory(), want.memory()) {
			t.Errorf("%s: got %v, want %v", want.Name, got, want)
		}
	}
	if err := Verify(path); err != nil {
		t.Error(err)
	}
}

func TestBytesDoNotDependOnTheOrderOfTensors(t *testing.T) {
	path, first := written(t)
	tensors, meta := sample()
	tensors[0], tensors[3] = tensors[3], tensors[0]
	if _, err := Write(path, meta, tensors); err != nil {
		t.Fatal(err)
	}
	second, _ := os.ReadFile(path)
	if !bytes.Equal(first, second) {
		t.Error("the same state gave other bytes")
	}
}

func TestHeaderIsSafetensors(t *testing.T) {
	_, data := written(t)
	const golden = `{"__metadata__":{"sha256":"6f46046c8d6760cd1e4db201a8cfe3d65a5b54954659689da70023f688de4631","at":"12","run":"\u003c\"ä\"\u003e"},` +
		`"clock":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},"step":{"dtype":"I64","shape":[],"data_offsets":[16,24]},` +
		`"none":{"dtype":"F32","shape":[0,4],"data_offsets":[24,24]},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[24,48]}}`
	padded := golden + strings.Repeat(" ", (8-len(golden)%8)%8)
	if want := []byte{byte(len(padded)), byte(len(padded) >> 8), 0, 0, 0, 0, 0, 0}; !bytes.Equal(data[:8], want) {
		t.Errorf("length % x, want % x", data[:8], want)
	}
	if got := string(data[8 : len(data)-48]); got != padded {
		t.Errorf("header\n%q, want\n%q", got, padded)
	}
	zeroed := bytes.Replace(data, []byte(golden[27:91]), bytes.Repeat([]byte("0"), 64), 1)
	if got := fmt.Sprintf("%x", sha256.Sum256(zeroed)); got != golden[27:91] {
		t.Errorf("SHA-256 of the file with its digits zeroed is %s, the file says %s", got, golden[27:91])
	}
	// The values' own bytes, so that both ends cannot be wrong alike.
	if want := []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xbf}; !bytes.Equal(data[len(data)-24:len(data)-16], want) {
		t.Errorf("1, -0.5 as f32: % x, want % x", data[len(data)-24:len(data)-16], want)
	}
}

func TestByteSwap(t *testing.T) {
	tensors := []Tensor{
		{Name: "w", Shape: []int{2}, F32: []float32{1, -0.5}},
		{Name: "n", Shape: []int{swapChunk/8 + 1}, I64: make([]int64, swapChunk/8+1)},
	}
	tensors[1].I64[swapChunk/8] = 0x0102030405060708
	for i := range tensors {
		var plain, swapped bytes.Buffer
		if err := writeValues(&plain, &tensors[i], false); err != nil {
			t.Fatal(err)
		}
		if err := writeValues(&swapped, &tensors[i], true); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(plain.Bytes(), swapped.Bytes()) {
			t.Errorf("%s: nothing was swapped", tensors[i].Name)
		}
		back := swapped.Bytes()
		reverseElements(back, int(tensors[i].dtype().size()))
		if !bytes.Equal(plain.Bytes(), back) {
			t.Errorf("%s: swapped twice is not the original", tensors[i].Name)
		}
	}
}

func TestChecksumIsOfNamesShapesAndValues(t *testing.T) {
	base := Tensor{Name: "w", Shape: []int{2, 1}, F32: []float32{1, 2}}
	sum := Checksum(base)
	if len(sum) != 64 || sum != Checksum(base) {
		t.Fatalf("checksum %q is not stable", sum)
	}
	for what, other := range map[string][]Tensor{
		"name":  {{Name: "v", Shape: []int{2, 1}, F32: []float32{1, 2}}},
		"shape": {{Name: "w", Shape: []int{1, 2}, F32: []float32{1, 2}}},
		"value": {{Name: "w", Shape: []int{2, 1}, F32: []float32{1, 3}}},
		"count": {base, base},
	} {
		if Checksum(other...) == sum {
			t.Errorf("another %s gives the same checksum", what)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	one := []float32{1}
	for _, c := range []struct {
		want    string
		meta    map[string]string
		tensors []Tensor
	}{
		{`two tensors are named a`, nil, []Tensor{{Name: "a", Shape: []int{1}, F32: one}, {Name: "a", Shape: []int{1}, F32: one}}},
		{`tensor name "" is not allowed`, nil, []Tensor{{Shape: []int{1}, F32: one}}},
		{`tensor name "__metadata__" is not allowed`, nil, []Tensor{{Name: "__metadata__", Shape: []int{1}, F32: one}}},
		{`tensor name "\xff": not valid UTF-8`, nil, []Tensor{{Name: "\xff", Shape: []int{1}, F32: one}}},
		{`tensor a: shape [2] holds 2 values, got 1`, nil, []Tensor{{Name: "a", Shape: []int{2}, F32: one}}},
		{`tensor a: shape [-1] has a negative dimension`, nil, []Tensor{{Name: "a", Shape: []int{-1}, F32: one}}},
		{`tensor a: shape [4294967296 4294967296] is too large`, nil, []Tensor{{Name: "a", Shape: []int{1 << 32, 1 << 32}, F32: one}}},
		{`tensor a: 0 of F32, F64 and I64 are set, want one`, nil, []Tensor{{Name: "a", Shape: []int{0}}}},
		{`tensor a: 2 of F32, F64 and I64 are set, want one`, nil, []Tensor{{Name: "a", Shape: []int{1}, F32: one, I64: []int64{1}}}},
		{`metadata key "sha256" is this package's own`, map[string]string{"sha256": ""}, nil},
		{`metadata "a": not valid UTF-8`, map[string]string{"a": "\xff"}, nil},
	} {
		path := filepath.Join(t.TempDir(), "a.safetensors")
		_, err := Write(path, c.meta, c.tensors)
		if want := "write checkpoint " + path + ": " + c.want; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
			t.Errorf("%s: left %v behind", c.want, left)
		}
	}
}
