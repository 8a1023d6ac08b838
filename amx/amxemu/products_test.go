//go:build linux && amd64 && cgo

package amxemu_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	. "harness/amx/amxemu/encoded"
)

// product is an instruction that multiplies tiles: C [m,n] += A [m,k] B [k,n], all
// of dwords.
type product struct {
	name         string
	code         []byte
	intrinsic    Product
	dot          dot
	isFloat      bool
	operands     []operands
	onlySomeCPUs bool // of those that have AMX
}

// operands says how to draw the dwords of A and B, and of C.
type operands struct {
	name     string
	factor   func(*rand.Rand) uint32
	addend   func(*rand.Rand) uint32
	mustHave func(uint32) bool // some results are so and some are not; nil: whatever they are
}

const noIntrinsic Product = -1 // gcc 12 has none

func products() []product {
	return []product{
		{name: "TDPBF16PS", code: tdpbf16ps, intrinsic: BF16, dot: dotBF16, isFloat: true, operands: bf16Operands()},
		{name: "TDPFP16PS", code: tdpfp16ps, intrinsic: noIntrinsic, dot: dotFP16, isFloat: true, operands: fp16Operands(), onlySomeCPUs: true},
		{name: "TDPBSSD", code: tdpbssd, intrinsic: SignedSigned, dot: dotBytes(true, true), operands: byteOperands()},
		{name: "TDPBSUD", code: tdpbsud, intrinsic: SignedUnsigned, dot: dotBytes(true, false), operands: byteOperands()},
		{name: "TDPBUSD", code: tdpbusd, intrinsic: UnsignedSigned, dot: dotBytes(false, true), operands: byteOperands()},
		{name: "TDPBUUD", code: tdpbuud, intrinsic: UnsignedUnsigned, dot: dotBytes(false, false), operands: byteOperands()},
	}
}

// float draws the bits of a floating-point number whose biased exponent is between
// two bounds; a quarter of them are powers of two, zeros or, at the top, infinite.
func float(rng *rand.Rand, fractionBits, exponentBits, low, high int) uint32 {
	fraction := rng.Uint32N(1 << fractionBits)
	if rng.IntN(4) == 0 {
		fraction = 0
	}
	exponent := uint32(low + rng.IntN(high-low+1))
	return fraction | exponent<<fractionBits | rng.Uint32N(2)<<(fractionBits+exponentBits)
}

// halves draws pairs of 16-bit numbers, one in `rare` of them infinite or NaN.
func halves(fractionBits, low, high, rare int) func(*rand.Rand) uint32 {
	exponentBits := 15 - fractionBits
	half := func(rng *rand.Rand) uint32 {
		if rare > 0 && rng.IntN(rare) == 0 {
			top := 1<<exponentBits - 1
			return float(rng, fractionBits, exponentBits, top, top)
		}
		return float(rng, fractionBits, exponentBits, low, high)
	}
	return func(rng *rand.Rand) uint32 { return half(rng) | half(rng)<<16 }
}

func singles(low, high int) func(*rand.Rand) uint32 {
	return func(rng *rand.Rand) uint32 { return float(rng, 23, 8, low, high) }
}

func isZero(bits uint32) bool     { return bits<<1 == 0 }
func isInfinite(bits uint32) bool { return bits<<1 == 0xff<<24 }
func anyBits(rng *rand.Rand) uint32 {
	return rng.Uint32()
}

func bf16Operands() []operands {
	return []operands{
		{"ordinary", halves(7, 120, 134, 0), singles(118, 136), nil},
		{"far apart", halves(7, 90, 160, 0), singles(60, 190), nil},
		{"about the smallest", halves(7, 60, 66, 0), singles(0, 8), isZero},
		{"about the smallest, alone", halves(7, 62, 64, 0), singles(0, 0), isZero},
		{"about the largest", halves(7, 186, 191, 0), singles(248, 254), isInfinite},
		{"denormal", halves(7, 0, 1, 0), singles(0, 2), nil},
		{"denormal by large", halves(7, 0, 250, 0), singles(0, 2), nil},
		{"infinite and NaN", halves(7, 120, 134, 200), singles(250, 255), isNaN},
		{"any", anyBits, anyBits, nil},
	}
}

func fp16Operands() []operands {
	return []operands{
		{"ordinary", halves(10, 10, 20, 0), singles(118, 136), nil},
		{"far apart", halves(10, 0, 30, 0), singles(60, 190), nil},
		{"denormal", halves(10, 0, 1, 0), singles(70, 85), nil},
		{"infinite and NaN", halves(10, 10, 20, 200), singles(250, 255), isNaN},
		{"any", anyBits, anyBits, nil},
	}
}

func byteOperands() []operands {
	extreme := func(rng *rand.Rand) (dword uint32) {
		for range 4 {
			dword = dword<<8 | []uint32{0x80, 0xff, 0x7f, 0}[rng.IntN(4)]
		}
		return dword
	}
	constant := func(x uint32) func(*rand.Rand) uint32 { return func(*rand.Rand) uint32 { return x } }
	return []operands{
		{"any", anyBits, anyBits, nil},
		{"extreme", extreme, func(rng *rand.Rand) uint32 { return 0x7fffffff + rng.Uint32N(2) }, nil}, // overflow wraps both ways
		{"all 0x80", constant(0x80808080), constant(0x7fffffff), nil},
	}
}

// sizes are numbers of rows of C, columns of C and dwords of K.
var sizes = [][3]int{{16, 16, 16}, {1, 1, 1}, {5, 7, 3}, {16, 3, 16}, {3, 16, 2}, {7, 15, 11}, {13, 1, 16}, {1, 16, 9}}

// matrix is a tile's content with rows further apart in memory than they are long.
type matrix struct {
	bytes         []byte
	rows, columns int // of dwords
	stride        int // in bytes
}

func draw(t testing.TB, rng *rand.Rand, rows, columns int, value func(*rand.Rand) uint32) matrix {
	m := matrix{rows: rows, columns: columns, stride: 4*columns + 12}
	m.bytes = filled(t, rng, (rows-1)*m.stride+4*columns)
	for r := range rows {
		for c := range columns {
			binary.LittleEndian.PutUint32(m.bytes[r*m.stride+4*c:], value(rng))
		}
	}
	return m
}

func (m matrix) at(r, c int) uint32 { return binary.LittleEndian.Uint32(m.bytes[r*m.stride+4*c:]) }
func (m matrix) shape() shape       { return shape{m.rows, 4 * m.columns} }

// expected is C + A.B, in the bytes of c and between its rows what is there.
func expected(p product, c, a, b matrix) matrix {
	want := c
	want.bytes = slices.Clone(c.bytes)
	row, column := make([]uint32, a.columns), make([]uint32, a.columns)
	for m := range c.rows {
		for n := range c.columns {
			for k := range a.columns {
				row[k], column[k] = a.at(m, k), b.at(k, n)
			}
			binary.LittleEndian.PutUint32(want.bytes[m*c.stride+4*n:], p.dot(c.at(m, n), row, column))
		}
	}
	return want
}

// compare wants equal bits, of a NaN only that it is one.
func (p product) compare(t *testing.T, got, want matrix) {
	t.Helper()
	bad := 0
	for r := range want.rows {
		for c := range want.columns {
			g, w := got.at(r, c), want.at(r, c)
			if g == w || p.isFloat && isNaN(g) && isNaN(w) {
				copy(got.bytes[r*got.stride+4*c:][:4], want.bytes[r*want.stride+4*c:])
				continue
			}
			if bad++; bad <= 3 {
				t.Errorf("row %d, column %d: got %#08x, want %#08x", r, c, g, w)
			}
		}
	}
	if bad > 3 {
		t.Errorf("... %d of %d elements differ", bad, want.rows*want.columns)
	}
	if bad == 0 && !slices.Equal(got.bytes, want.bytes) {
		t.Error("memory between the rows was changed")
	}
}

// TestProducts holds every product, by hand-encoded instructions and by the
// compiler's, against the semantics, on tiles that are asymmetric in all three sizes.
func TestProducts(t *testing.T) {
	native := install(t)
	locked(t)
	multiply := func(p product) []byte {
		return slices.Concat(ldtilecfgRDI, loadC, loadA, loadB, p.code, storeC, tilerelease)
	}
	for _, p := range products() {
		if native && p.onlySomeCPUs {
			continue
		}
		for i, o := range p.operands {
			var have, lack bool
			t.Run(p.name+"/"+o.name, func(t *testing.T) {
				locked(t)
				rng := rand.New(rand.NewPCG(uint64(i), 9))
				for _, size := range sizes {
					t.Run(fmt.Sprint(size), func(t *testing.T) {
						locked(t)
						m, n, k := size[0], size[1], size[2]
						a, b, c := draw(t, rng, m, k, o.factor), draw(t, rng, k, n, o.factor), draw(t, rng, m, n, o.addend)
						want := expected(p, c, a, b)
						for r := range m {
							for j := range n {
								is := o.mustHave != nil && o.mustHave(want.at(r, j))
								have, lack = have || is, lack || !is
							}
						}

						configured := arena(t, 64, 0)
						copy(configured, config(full, full, full, a.shape(), full, c.shape(), b.shape())[:])
						stored := c
						stored.bytes = arena(t, len(c.bytes), 0)
						copy(stored.bytes, c.bytes) // for what lies between the rows
						for r := range m {
							clear(stored.bytes[r*c.stride:][:4*n])
						}
						execute(t, multiply(p), func(r *[16]uint64) {
							r[RDI] = address(configured)
							r[RSI], r[R8] = address(c.bytes), uint64(c.stride)
							r[RDX], r[R9] = address(a.bytes), uint64(a.stride)
							r[RBX], r[R10] = address(b.bytes), uint64(b.stride)
							r[R11], r[R12] = address(stored.bytes), uint64(stored.stride)
						})
						p.compare(t, stored, want)

						if p.intrinsic != noIntrinsic {
							Intrinsics(p.intrinsic, config(c.shape(), a.shape(), b.shape()), c.bytes, c.stride, a.bytes, a.stride, b.bytes, b.stride)
							p.compare(t, c, want)
						}
					})
				}
			})
			if o.mustHave != nil && (!have || !lack) {
				t.Errorf("%s, %s: the operands do not lead where they should", p.name, o.name)
			}
		}
	}
}

// TestNoExceptions: with all floating-point exceptions unmasked in MXCSR, a product
// of infinities, NaN, overflow and underflow raises none and leaves no flag.
func TestNoExceptions(t *testing.T) {
	install(t)
	rng := rand.New(rand.NewPCG(10, 11))
	a, b, c := draw(t, rng, 16, 16, anyBits), draw(t, rng, 16, 16, anyBits), draw(t, rng, 16, 16, anyBits)
	configured := arena(t, 64, 0)
	copy(configured, config(full, full, full, full, full, full, full)[:])
	code, err := Assemble(slices.Concat(ldtilecfgRDI, loadC, loadA, loadB, tdpbf16ps, storeC, tilerelease))
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close()
	r := Registers{MXCSR: 0}
	r.General = [16]uint64{
		RDI: address(configured), RSI: address(c.bytes), R8: uint64(c.stride), RDX: address(a.bytes), R9: uint64(a.stride),
		RBX: address(b.bytes), R10: uint64(b.stride), R11: address(c.bytes), R12: uint64(c.stride),
	}
	code.Run(&r)
	if r.MXCSR != 0 {
		t.Errorf("MXCSR is %#x, want 0", r.MXCSR)
	}
}
