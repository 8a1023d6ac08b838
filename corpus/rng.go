package corpus

import "math/bits"

// stream is one stream of pseudo-random numbers: SplitMix64 (Steele, Lea and
// Flood, "Fast splittable pseudorandom number generators", 2014). It is written
// out here rather than taken from math/rand/v2 because batches must stay the
// same under every later Go release.
type stream struct{ state uint64 }

// newStream starts the stream of one purpose; equal arguments give equal streams.
func newStream(seed int64, purpose string, index int64) stream {
	h := mix(uint64(seed))
	for i := 0; i < len(purpose); i++ {
		h = mix(h ^ uint64(purpose[i]))
	}
	return stream{mix(mix(h) + uint64(index))}
}

// mix is SplitMix64's finaliser: a bijection in which every input bit reaches
// every output bit.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *stream) next() uint64 {
	v := mix(r.state)
	r.state += 0x9e3779b97f4a7c15
	return v
}

// below draws evenly from [0, n), n > 0 (Lemire, "Fast random integer generation
// in an interval", 2019).
func (r *stream) below(n int64) int64 {
	hi, lo := bits.Mul64(r.next(), uint64(n))
	if lo < uint64(n) {
		for reject := -uint64(n) % uint64(n); lo < reject; {
			hi, lo = bits.Mul64(r.next(), uint64(n))
		}
	}
	return int64(hi)
}

// shuffle permutes ids (Fisher and Yates).
func (r *stream) shuffle(ids []int32) {
	for i := len(ids) - 1; i > 0; i-- {
		j := r.below(int64(i) + 1)
		ids[i], ids[j] = ids[j], ids[i]
	}
}
