package amx

import (
	"math"
	"runtime"
	"time"
)

// choiceMix stands for a training step: a forward, a gradient of the input and one of
// the weights, at the width of the released model and with few tokens, since every set has to
// run it several times in an instant.
func choiceMix(tokens int) []Product {
	return []Product{
		{Trans: NN, M: tokens, K: 256, N: 1280},
		{Trans: NT, M: tokens, K: 1280, N: 256},
		{Trans: TN, M: 256, K: tokens, N: 1280},
	}
}

// compareSets measures the rate of every set over the mix. Rounds go over all sets in turn,
// so that a disturbance meets all of them, and the best time of each product counts. A
// first round with few tokens warms the core up and drops those without a chance.
func compareSets(sets []Set) []Speed {
	const (
		tokens  = 512
		budget  = 120 * time.Millisecond // of the rounds; one at least is made
		most    = 8
		chances = 0.6 // of the fastest in the first round
	)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	kernels := make([]*Kernels, len(sets))
	for i, s := range sets {
		kernels[i] = s.New()
	}
	first := newContest(choiceMix(tokens/8), kernels)
	first.round(nil)
	first.round(nil)
	trial := first.rates()
	best := 0.0
	for _, r := range trial {
		best = max(best, r)
	}
	in := func(i int) bool { return trial[i] >= chances*best }
	final := newContest(choiceMix(tokens), kernels)
	for begun, n := time.Now(), 0; n == 0 || n < most && time.Since(begun) < budget; n++ {
		final.round(in)
	}
	rates := final.rates()
	speeds := make([]Speed, len(sets))
	for i, s := range sets {
		speeds[i] = Speed{s.Name, rates[i]}
		if !in(i) {
			speeds[i].GOP = trial[i]
		}
	}
	return speeds
}

// contest times products with several kernels.
type contest struct {
	products []Product
	operands []operandsOf
	kernels  []*Kernels
	best     [][]time.Duration // by kernels and product
}

func newContest(products []Product, kernels []*Kernels) *contest {
	c := &contest{products: products, kernels: kernels}
	for _, p := range products {
		c.operands = append(c.operands, p.operands())
	}
	for range kernels {
		never := make([]time.Duration, len(products))
		for i := range never {
			never[i] = math.MaxInt64
		}
		c.best = append(c.best, never)
	}
	return c
}

// round runs every product once with the kernels that are in, all if in is nil.
func (c *contest) round(in func(int) bool) {
	for i, k := range c.kernels {
		if in != nil && !in(i) {
			continue
		}
		for j, p := range c.products {
			start := ThreadTime()
			p.gemm(k, c.operands[j])
			c.best[i][j] = min(c.best[i][j], ThreadTime()-start)
		}
	}
}

// rates are billions of operations a second over all products, in their best times.
func (c *contest) rates() []float64 {
	rates := make([]float64, len(c.kernels))
	for i, times := range c.best {
		flop, seconds := 0.0, 0.0
		for j, p := range c.products {
			flop, seconds = flop+p.flop(), seconds+times[j].Seconds()
		}
		rates[i] = flop / seconds / 1e9
	}
	return rates
}
