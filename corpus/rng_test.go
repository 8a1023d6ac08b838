package corpus

import (
	"math"
	"slices"
	"testing"
)

func TestStreamIsSplitMix64(t *testing.T) {
	// First outputs for the state 1234567, from the authors' reference program.
	r := stream{1234567}
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423} {
		if got := r.next(); got != want {
			t.Errorf("output %d is %d, want %d", i, got, want)
		}
	}
}

func TestStreamsOfPurposesDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range int64(10) {
		for _, purpose := range []string{"", "a", "b", "ab", "ba"} {
			for index := range int64(10) {
				r := newStream(seed, purpose, index)
				seen[r.next()] = true
			}
		}
	}
	if len(seen) != 500 {
		t.Errorf("%d different streams of 500", len(seen))
	}
}

func TestBelowAndShuffleAreEven(t *testing.T) {
	r := newStream(1, "test", 0)
	const n = 60000
	var at [3][3]float64
	for range n {
		ids := []int32{0, 1, 2}
		r.shuffle(ids)
		if !slices.Equal(slices.Sorted(slices.Values(ids)), []int32{0, 1, 2}) {
			t.Fatal("not a permutation")
		}
		for i, id := range ids {
			at[i][id]++
		}
	}
	for i := range at {
		for id, k := range at[i] {
			if math.Abs(k-n/3) > 5*math.Sqrt(n/3) {
				t.Errorf("%d stands at %d in %v of %d", id, i, k, n)
			}
		}
	}
}
