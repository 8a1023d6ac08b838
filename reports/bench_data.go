package reports

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"harness/runs"
)

// benchData is a bench with its GEMMs read from their details.
type benchData struct {
	bench runs.Bench
	all   []gemm
}

// gemm is a measured product C[m, n] = op(A)[m, k] op(B)[k, n].
type gemm struct {
	runs.Measurement
	set, arithmetic, trans string
	m, k, n                int
	ofPeak                 float64 // 0 if not known
}

func newBenchData(b runs.Bench) benchData {
	data := benchData{bench: b}
	for _, m := range b.Results {
		if m.Group != runs.GroupGemm {
			continue
		}
		d := m.Detail
		g := gemm{Measurement: m, set: cmp.Or(d["set"], "unnamed set"), trans: d["trans"], m: int(share(d["m"])), k: int(share(d["k"])), n: int(share(d["n"])), ofPeak: share(d["of_peak"])}
		g.arithmetic = cmp.Or(d["arithmetic"], arithmeticOf(g.set))
		data.all = append(data.all, g)
	}
	return data
}

// share reads a share or another figure of a detail, 0 where there is none.
func share(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !finite(v) || v < 0 {
		return 0
	}
	return v
}

// arithmeticOf is what a kernel set multiplies in, for benches that do not say.
func arithmeticOf(set string) string {
	switch set {
	case "amx", "avx512bf16":
		return "bf16"
	case "vnni16":
		return "int16"
	}
	return "fp32"
}

func (g gemm) isFP32() bool { return g.arithmetic == "fp32" }

func (g gemm) shape() [3]int { return [3]int{g.m, g.k, g.n} }

func (g gemm) flop() float64 { return 2 * float64(g.m) * float64(g.k) * float64(g.n) }

// intensity counts the bytes that must move whatever the kernel set: float32
// operands read once and the result written once.
func (g gemm) intensity() float64 {
	m, k, n := float64(g.m), float64(g.k), float64(g.n)
	return g.flop() / (4 * (m*k + k*n + m*n))
}

// measuredShape is all that was measured at one shape and transposition.
type measuredShape []gemm

// shapes groups the GEMMs, in the order of their first measurement.
func (b benchData) shapes() []measuredShape {
	type key struct {
		trans string
		shape [3]int
	}
	place := map[key]int{}
	var shapes []measuredShape
	for _, g := range b.all {
		k := key{g.trans, g.shape()}
		i, seen := place[k]
		if !seen {
			i = len(shapes)
			place[k] = i
			shapes = append(shapes, nil)
		}
		shapes[i] = append(shapes[i], g)
	}
	return shapes
}

func (s measuredShape) best(of func(gemm) bool) (best gemm, ok bool) {
	for _, g := range s {
		if of(g) && (!ok || g.Value > best.Value) {
			best, ok = g, true
		}
	}
	return best, ok
}

func (b benchData) best(of func(gemm) bool) (gemm, bool) { return measuredShape(b.all).best(of) }

func (b benchData) bestAt(shape [3]int, of func(gemm) bool) (gemm, bool) {
	return b.best(func(g gemm) bool { return g.shape() == shape && of(g) })
}

func (b benchData) gemms() []gemm { return b.all }

func (b benchData) hasSet(name string) bool {
	_, ok := b.best(func(g gemm) bool { return g.set == name })
	return ok
}

// sets are the kernel sets, in the order of their first measurement.
func (b benchData) sets() []string {
	var names []string
	seen := map[string]bool{}
	for _, g := range b.all {
		if !seen[g.set] {
			seen[g.set] = true
			names = append(names, g.set)
		}
	}
	return names
}

func (b benchData) group(name string) []runs.Measurement {
	var found []runs.Measurement
	for _, m := range b.bench.Results {
		if m.Group == name {
			found = append(found, m)
		}
	}
	return found
}

func (b benchData) named(group, name string) (runs.Measurement, bool) {
	for _, m := range b.group(group) {
		if m.Name == name {
			return m, true
		}
	}
	return runs.Measurement{}, false
}

func (b benchData) cpu() string { return cmp.Or(b.bench.Provenance["cpu"], "this core") }

func (b benchData) spec() string { return cmp.Or(b.bench.Provenance["spec"], "this spec") }

// threeDigits prints what repeats to a per cent at best; whole from a thousand on.
func threeDigits(v float64) string {
	if math.Abs(v) >= 1000 {
		return humanize.Comma(int64(math.Round(v)))
	}
	return number(round(v, 3))
}

// figureOf prints a measurement with its spread.
func figureOf(m runs.Measurement) Figure {
	f := Figure{Value: threeDigits(m.Value)}
	if m.Unit != "" {
		f.Value = withUnit(f.Value, strings.Replace(m.Unit, "us", "µs", 1)) // the kernels' packages write ASCII
	}
	switch {
	case m.N == 0:
		f.Spread = "calculated"
	case m.N == 1:
		f.Spread = "n\u00a01"
	default:
		f.Spread = threeDigits(m.Low) + "–" + threeDigits(m.High)
		comma := ", "
		if median := share(m.Detail["median"]); median > 0 { // the value is the best, then
			f.Spread += ", median\u00a0" + threeDigits(median)
			comma = ",\u00a0" // so that a narrow cell breaks before the median
		}
		f.Spread += fmt.Sprintf("%sn\u00a0%d", comma, m.N)
	}
	return f
}
