package reports

import "math"

const (
	// smoothingShare is which part of the run the running mean looks back over.
	smoothingShare = 50
	// smoothedFrom is how many points a curve has before a mean of them tells more
	// than they do.
	smoothedFrom = 100
)

// smooth returns the exponential running mean of points: each earlier point counts
// exp(-distance/span) of the newest one, distance in the axis' own count. Weights
// are normalised at every point, so that the mean has no lag at the beginning. A
// point that is not finite stays as it is, a gap of the mean too, and does not
// enter the mean after it.
func smooth(points []Point, span float64) []Point {
	out := make([]Point, len(points))
	var sum, weight, last float64
	for i, p := range points {
		out[i] = p
		if !finite(p.Value) {
			continue
		}
		if weight > 0 {
			decay := math.Exp(-(p.X - last) / span)
			sum, weight = sum*decay, weight*decay
		}
		sum, weight, last = sum+p.Value, weight+1, p.X
		out[i].Value = sum / weight
	}
	return out
}

// smoothCharts adds the running mean to the curves of single training batches.
func smoothCharts(charts []Chart) {
	for i := range charts {
		c := &charts[i]
		for j := range c.Curves {
			curve := &c.Curves[j]
			if (c.Noisy && !curve.Plain || isBatchMetric(curve.Name)) && len(curve.Points) >= smoothedFrom && c.Right > c.Left {
				curve.Smooth = smooth(curve.Points, (c.Right-c.Left)/smoothingShare)
			}
		}
	}
}

// isBatchMetric holds for what every training batch measures afresh, with noise.
func isBatchMetric(name string) bool {
	rank := chartRank(name)
	return isTrainingLoss(name) || rank == rankGradient || rank == rankSpeed
}

func isTrainingLoss(name string) bool { return chartRank(name) == rankTrainingLoss }
