package reports

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"harness/runs"
)

// paperFigure is one figure that the paper gives of its core, with the section of
// our facts about the paper that holds it, and how ours is found among a bench's.
type paperFigure struct {
	quantity string
	section  string
	// text is as printed; low and high, in unit, are what ours is compared with.
	text      string
	low, high float64
	ours      func(b benchData) (v float64, f Figure, note string)
}

// paperMachine is what the paper measured, one thread on one core of it.
const paperMachine = "Xeon Silver 4514Y (Emerald Rapids)"

// paperRoofline is the paper's table of its machine.
func paperRoofline() []paperFigure {
	best, square := [3]int{2048, 256, 1280}, [3]int{1024, 1024, 1024}
	return []paperFigure{
		{"bf16 GEMM, M 2,048, K 256, N 1,280 (its best)", "§1", "2,231 GFLOP/s", 2231, 2231,
			func(b benchData) (float64, Figure, string) { return b.fastestGemm(best) }},
		{"bf16 GEMM, 1,024³", "§1", "976–1,074 GFLOP/s", 976, 1074,
			func(b benchData) (float64, Figure, string) { return b.fastestGemm(square) }},
		{"fp32 GEMM, 1,024³, without AMX", "§1", "121 GFLOP/s", 121, 121,
			func(b benchData) (float64, Figure, string) { return b.fp32Gemm(square) }},
		{"AMX over AVX-512 fp32 at the model's shapes", "§1", "about 9×", 9, 9, benchData.gain},
		{"smallest GEMM at two thirds of the best speed", "§1", "about 70 MFLOP", 70, 70, benchData.knee},
		{"dispatch floor of one GEMM call", "§1", "1.4–1.5 µs", 1.4, 1.5, benchData.dispatchFloor},
		{"L2 of a core", "§1", "2 MiB", 2 << 20, 2 << 20,
			func(b benchData) (float64, Figure, string) { return b.cache("l2", "L2") }},
		{"L3 of a socket", "§1", "30 MiB", 30 << 20, 30 << 20,
			func(b benchData) (float64, Figure, string) { return b.cache("l3", "L3") }},
	}
}

// paperComparison sets the paper's table beside what the bench measured.
func paperComparison(b benchData) Comparison {
	c := Comparison{Title: "The paper's roofline, and ours", Here: b.cpu(),
		Meaning: "One thread on one core each. Times (×): ours over the paper's. §: the section of our notes on the paper."}
	for _, p := range paperRoofline() {
		row := ComparisonRow{Quantity: p.quantity, Paper: p.text, Section: p.section}
		var v float64
		v, row.Ours, row.Note = p.ours(b)
		if row.Ours.Value != "" && v > 0 {
			row.Ratio = times(v/p.high, v/p.low)
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// paperTraining are the speeds of training that the paper prints. Its arms are wider
// than the released models, so that no speed of another shape is to be taken for them.
func paperTraining(b benchData) Comparison {
	c := Comparison{Title: "Beside the paper's training speeds", Here: b.cpu(),
		Meaning: "Forward, backward and update on one core. The paper's arms have d_model 384 and their cost per token is not published: " +
			"they stand here for scale. Another shape's speed is not the paper's speed, so no ratio is given."}
	for _, arm := range []struct{ name, speed string }{
		{"window MoE, E 128, k 4, d_model 384", "6,616 tokens/s"},
		{"compute-matched dense, d_model 384", "14,572 tokens/s"},
	} {
		c.Rows = append(c.Rows, ComparisonRow{Quantity: arm.name, Section: "§3", Paper: arm.speed, Note: "another shape than measured here"})
	}
	if m, ok := b.named(runs.GroupTrain, runs.TrainThroughput); ok {
		row := ComparisonRow{Quantity: b.spec(), Paper: "not published", Ours: figureOf(m)}
		if cost, ok := b.named(runs.GroupTrain, runs.TrainFlops); ok {
			row.Note = figureOf(cost).Value + " per token"
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// fastestGemm is the best speed at a shape, of AMX if it was measured, else of
// whatever is fastest, with a note that says so.
func (b benchData) fastestGemm(shape [3]int) (float64, Figure, string) {
	amx, hasAMX := b.bestAt(shape, func(g gemm) bool { return g.set == "amx" })
	if hasAMX {
		return amx.Value, figureOf(amx.Measurement), "kernel set amx"
	}
	best, ok := b.bestAt(shape, func(gemm) bool { return true })
	if !ok {
		return 0, Figure{}, "not measured at this shape"
	}
	return best.Value, figureOf(best.Measurement), fmt.Sprintf("%s; instead %s (%s), the fastest here", b.noAMX(), best.set, best.arithmetic)
}

func (b benchData) fp32Gemm(shape [3]int) (float64, Figure, string) {
	best, ok := b.bestAt(shape, gemm.isFP32)
	if !ok {
		return 0, Figure{}, "not measured at this shape"
	}
	return best.Value, figureOf(best.Measurement), "kernel set " + best.set
}

// gain is how much faster than fp32 the set amx is, or else the fastest one, as the
// geometric mean over the shapes of the paper's 70 MFLOP and more: smaller ones are
// limited by other things than arithmetic.
func (b benchData) gain() (float64, Figure, string) {
	low, high, sum, n := math.Inf(1), 0.0, 0.0, 0
	faster := func(g gemm) bool { return !g.isFP32() }
	if b.hasSet("amx") {
		faster = func(g gemm) bool { return g.set == "amx" }
	}
	var sets []string
	for _, shape := range b.shapes() {
		fp32, ok := shape.best(gemm.isFP32)
		other, found := shape.best(faster)
		if !ok || !found || fp32.Value <= 0 || fp32.flop() < 70e6 {
			continue
		}
		gain := other.Value / fp32.Value
		low, high, sum, n = min(low, gain), max(high, gain), sum+math.Log(gain), n+1
		if !slices.Contains(sets, other.set) {
			sets = append(sets, other.set)
		}
	}
	if n == 0 {
		return 0, Figure{}, "no shape of 70 MFLOP was measured in fp32 and in another arithmetic"
	}
	note := strings.Join(sets, ", ") + " over fp32, shapes of 70 MFLOP and more"
	if !b.hasSet("amx") {
		note = b.noAMX() + "; instead " + note
	}
	mean := math.Exp(sum / float64(n))
	return mean, Figure{threeDigits(mean) + "×", fmt.Sprintf("%s–%s over shapes, n\u00a0%d", threeDigits(low), threeDigits(high), n)}, note
}

// knee is the smallest measured GEMM that reaches two thirds of the set's best speed,
// as the paper's rule of 70 MFLOP for 1,500 of 2,231 GFLOP/s does.
func (b benchData) knee() (float64, Figure, string) {
	fastest, ok := b.best(func(gemm) bool { return true })
	if !ok {
		return 0, Figure{}, "no GEMM was measured"
	}
	smallest, n := math.Inf(1), 0
	for _, g := range b.gemms() {
		if g.set == fastest.set {
			n++
			if g.Value >= fastest.Value*2/3 {
				smallest = min(smallest, g.flop()/1e6)
			}
		}
	}
	// No ratio: the true knee lies somewhere between two of the shapes.
	return 0, Figure{"≤ " + threeDigits(smallest) + " MFLOP", fmt.Sprintf("of %d shapes measured", n)}, "kernel set " + fastest.set
}

// dispatchFloor is the first of its group: a bench measures the floor before variations.
func (b benchData) dispatchFloor() (float64, Figure, string) {
	all := b.group(runs.GroupDispatch)
	if len(all) == 0 {
		return 0, Figure{}, "not measured"
	}
	return all[0].Value, figureOf(all[0]), all[0].Name
}

// cache is the size of a cache as the provenance states it, with its bandwidth.
func (b benchData) cache(key, level string) (float64, Figure, string) {
	note := "its bandwidth was not measured"
	if m, ok := b.named(runs.GroupBandwidth, level); ok {
		note = "read at " + figureOf(m).Value
	}
	size, err := strconv.ParseUint(b.bench.Provenance[key], 10, 63)
	if err != nil || size == 0 {
		return 0, Figure{}, join("its size is not known", note)
	}
	return float64(size), Figure{Value: humanize.IBytes(size), Spread: "as stated"}, note
}

// noAMX says why there are no figures of AMX.
func (b benchData) noAMX() string {
	verdict := b.bench.Provenance["amx"]
	if verdict == "" {
		return "AMX was not measured"
	}
	return "AMX: " + verdict
}

// times prints a ratio, or the range of one.
func times(low, high float64) string {
	a, z := ratio(low), ratio(high)
	if a == z {
		return a + "×"
	}
	return a + "–" + z + "×"
}

func ratio(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(round(v, 2), 'f', -1, 64), ".0")
}
