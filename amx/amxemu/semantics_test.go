//go:build linux && amd64 && cgo

package amxemu_test

import (
	"math"
	"math/big"
)

// The instructions' arithmetic, after Intel's manual (volume 2, "Operation") and
// written with exact numbers, apart from how the emulator does it. An element of C
// is dot(its old value, A's row of dwords, B's column of dwords).
type dot func(c uint32, a, b []uint32) uint32

// dotBF16 is TDPBF16PS.
func dotBF16(c uint32, a, b []uint32) uint32 {
	return dotPairs(c, a, b, func(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) })
}

// dotFP16 is TDPFP16PS.
func dotFP16(c uint32, a, b []uint32) uint32 { return dotPairs(c, a, b, fp16) }

func dotPairs(c uint32, a, b []uint32, widen func(uint16) float32) uint32 {
	var even, odd float32
	for k := range a {
		even = fma(widen(uint16(a[k])), widen(uint16(b[k])), even)
		odd = fma(widen(uint16(a[k]>>16)), widen(uint16(b[k]>>16)), odd)
	}
	return math.Float32bits(fma(1, math.Float32frombits(c), fma(1, even, odd)))
}

func fp16(h uint16) float32 {
	exponent, fraction := int(h>>10&31), float64(h&0x3ff)
	value := math.Ldexp(1024+fraction, exponent-25)
	switch {
	case exponent == 0:
		value = math.Ldexp(fraction, -24)
	case exponent == 31 && fraction == 0:
		value = math.Inf(1)
	case exponent == 31:
		value = math.NaN()
	}
	if h>>15 == 1 {
		value = -value
	}
	return float32(value)
}

const smallestNormal = 0x1p-126

// fma is x*y + z rounded once to nearest even, with denormals read as zero and
// results below the smallest normal number, as rounded with unbounded exponent,
// flushed to zero of their sign.
func fma(x, y, z float32) float32 {
	x, y, z = readDenormal(x), readDenormal(y), readDenormal(z)
	wide := float64(x)*float64(y) + float64(z) // right but for the rounding
	product := float64(x) * float64(y)         // exact
	if math.IsNaN(wide) || math.IsInf(wide, 0) || product == 0 {
		return float32(wide) // z itself, where the product is zero
	}
	exact := new(big.Float).SetPrec(2000).SetFloat64(product)
	exact.Add(exact, new(big.Float).SetFloat64(float64(z)))
	if exact.Sign() == 0 {
		return 0 // they cancel: +0 when rounding to nearest
	}
	rounded := new(big.Float).SetPrec(24).SetMode(big.ToNearestEven).Set(exact)
	if magnitude := new(big.Float).Abs(rounded); magnitude.Cmp(big.NewFloat(smallestNormal)) < 0 {
		return float32(math.Copysign(0, wide))
	}
	result, _ := rounded.Float32() // exact, or beyond the largest: infinite
	return result
}

func readDenormal(x float32) float32 {
	if math.Abs(float64(x)) < smallestNormal {
		return float32(math.Copysign(0, float64(x)))
	}
	return x
}

// dotBytes is TDPBSSD, TDPBSUD, TDPBUSD or TDPBUUD.
func dotBytes(aSigned, bSigned bool) dot {
	extend := func(b byte, signed bool) int64 {
		if signed {
			return int64(int8(b))
		}
		return int64(b)
	}
	return func(c uint32, a, b []uint32) uint32 {
		sum := int64(int32(c))
		for k := range a {
			for shift := 0; shift < 32; shift += 8 {
				sum += extend(byte(a[k]>>shift), aSigned) * extend(byte(b[k]>>shift), bSigned)
			}
		}
		return uint32(sum)
	}
}

func isNaN(bits uint32) bool { return bits&0x7fffffff > 0x7f800000 }
