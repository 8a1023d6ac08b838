package reports

import (
	"cmp"
	"math"

	"gonum.org/v1/plot"
)

// scaleCharts gives every chart its vertical axis, and one to a whole family or to what
// was parted.
func scaleCharts(charts []Chart) {
	type family struct{ name, unit string }
	shared := map[family][2]float64{}
	for i := range charts {
		c := &charts[i]
		c.Scale = scaleOf(*c)
		c.Bottom, c.Top = c.yRange()
		f := family{cmp.Or(c.Family, c.Part), c.Unit}
		if f.name == "" {
			continue
		}
		if r, seen := shared[f]; seen {
			shared[f] = [2]float64{min(r[0], c.Bottom), max(r[1], c.Top)}
		} else {
			shared[f] = [2]float64{c.Bottom, c.Top}
		}
	}
	for i := range charts {
		c := &charts[i]
		if r, is := shared[family{cmp.Or(c.Family, c.Part), c.Unit}]; is {
			c.Bottom, c.Top = r[0], r[1]
		}
	}
}

// scaleOf is fixed for shares right, so that 0.97 does not look like nothing beside
// 1, and logarithmic for gradient norms, whose first steps would flatten the rest.
func scaleOf(c Chart) Scale {
	if len(c.Curves) == 0 {
		return ScaleLinear
	}
	if c.Share {
		return ScaleShare
	}
	switch chartRank(c.Curves[0].Name) {
	case rankScore:
		for _, curve := range c.Curves {
			if low, high, ok := curve.Bounds(); ok && (low < 0 || high > 1) {
				return ScaleLinear
			}
		}
		return ScaleShare
	case rankGradient:
		if _, ok := smallestPositive(c.Curves); ok {
			return ScaleLog
		}
	}
	return ScaleLinear
}

// yRange spans the finite values of all curves and what they are compared with. A
// constant gets 5 % of room instead of the plot library's one unit, which would
// flatten a learning rate.
func (c Chart) yRange() (low, high float64) {
	if c.Scale == ScaleShare {
		return 0, 1
	}
	low, high = math.Inf(1), math.Inf(-1)
	for _, curve := range c.Curves {
		if l, h, ok := curve.Bounds(); ok {
			low, high = min(low, l), max(high, h)
		}
		if curve.Level.Label != "" {
			low, high = min(low, curve.Level.Value), max(high, curve.Level.Value)
		}
	}
	if c.Scale == ScaleLog {
		room := max(1.05, math.Exp((math.Log(high)-math.Log(low))/25))
		return max(low/room, math.SmallestNonzeroFloat64), min(high*room, math.MaxFloat64)
	}
	switch {
	case low > high || low == 0 && high == 0:
		return 0, 1
	case low == high:
		room := math.Abs(low) / 20
		return low - room, high + room
	case math.IsInf(high-low, 0):
		return low / 2, high / 2
	}
	room := (high - low) / 25
	if low >= 0 && low < room {
		return 0, high + room
	}
	return low - room, high + room
}

// ticks places labels at multiples of 1, 2 or 5 times a power of ten, at most about
// most of them: the plot library's own choice is at times only two.
func ticks(most int, label func(float64) string) plot.TickerFunc {
	return func(low, high float64) []plot.Tick {
		step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
		for _, multiple := range []float64{1, 2, 5, 10} {
			if (high-low)/(step*multiple) <= float64(most) {
				step *= multiple
				break
			}
		}
		var labelled []plot.Tick
		for i := math.Ceil(low/step - 1e-9); i <= math.Floor(high/step+1e-9); i++ {
			labelled = append(labelled, plot.Tick{Value: i * step, Label: label(i * step)})
			if len(labelled) == 12 {
				break // i++ stands still where low/step is beyond 2^53
			}
		}
		return labelled
	}
}

// logTicks labels 1, 2 and 5 times the powers of ten, or the powers alone where
// that would be more than eight labels.
func logTicks(low, high float64) []plot.Tick {
	multiples := []float64{1, 2, 5}
	if high/low > 400 {
		multiples = multiples[:1]
	}
	decade := math.Floor(math.Log10(low))
	stride := math.Ceil((math.Log10(high) - decade) / 8)
	var labelled []plot.Tick
	for ; decade <= math.Log10(high); decade += stride {
		for _, m := range multiples {
			if v := m * math.Pow(10, decade); v >= low && v <= high {
				labelled = append(labelled, plot.Tick{Value: v, Label: tick(v)})
			}
		}
	}
	if len(labelled) < 2 {
		return []plot.Tick{{Value: low, Label: tick(round(low, 2))}, {Value: high, Label: tick(round(high, 2))}}
	}
	return labelled
}

// smallestPositive is the smallest finite value of the curves, ok false unless
// there is one and all are above zero.
func smallestPositive(curves []Curve) (smallest float64, ok bool) {
	smallest = math.Inf(1)
	for _, c := range curves {
		if low, _, known := c.Bounds(); known {
			smallest = min(smallest, low)
		}
	}
	return smallest, smallest > 0 && finite(smallest)
}
