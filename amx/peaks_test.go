package amx

import (
	"slices"
	"testing"
)

// What a loop says it did is what its instructions did: the peaks rest on it.
func TestBurstsCountTheirOperations(t *testing.T) {
	want := map[string]float64{ // of one round: registers x lanes x products x 2
		"VFMADD231PS zmm": 24 * 16 * 2, "VFMADD231PS ymm": 12 * 8 * 2, "VDPBF16PS zmm": 24 * 16 * 2 * 2, "VPDPWSSD zmm": 24 * 16 * 2 * 2,
		"VPDPBUSD zmm": 24 * 16 * 4 * 2, "TDPBF16PS": 8 * 16 * 16 * 32 * 2, "TDPBSSD": 8 * 16 * 16 * 64 * 2,
	}
	for _, p := range peakKinds() {
		if !p.available() {
			continue
		}
		if got := p.burst(3); got != 3*want[p.instruction] {
			t.Errorf("%s: %v operations in 3 rounds, want %v", p.instruction, got, 3*want[p.instruction])
		}
	}
}

func TestLoopsOverMemoryTouchTheirBufferAlone(t *testing.T) {
	widths := []int{0}
	for _, w := range []int{32, 64} {
		if w <= vectorBytes() {
			widths = append(widths, w)
		}
	}
	const n = 2 * memoryStep / 4
	for _, width := range widths {
		buffers := [2][]float32{alignedFloats(n + 32), alignedFloats(n + 32)}
		for i := range n + 32 {
			buffers[0][i], buffers[1][i] = float32(i), -1
		}
		from, to := buffers[0][16:n+16], buffers[1][16:n+16]
		before := slices.Clone(buffers[0])
		readMemory(width, from, 2)
		copyMemory(width, to, from, 2)
		if !slices.Equal(buffers[0], before) {
			t.Errorf("width %d: reading or copying changed the source", width)
		}
		for i, v := range buffers[1] {
			want := float32(-1)
			if i >= 16 && i < n+16 {
				want = float32(i)
			}
			if v != want {
				t.Fatalf("width %d: copied element %d is %v, want %v", width, i-16, v, want)
			}
		}
		writeMemory(width, to, 2)
		for i, v := range buffers[1] {
			if outside := i < 16 || i >= n+16; outside != (v == -1) {
				t.Fatalf("width %d: element %d is %v after writing", width, i-16, v)
			}
		}
	}
}
