package reports

// decimate returns at most about 5*buckets points that draw the same picture as
// all of them: in each stretch of consecutive points it keeps the first, the
// last, the smallest, the largest and one non-finite point, in their order. The
// curve's ends and extremes therefore survive exactly; nothing is averaged.
func decimate(points []Point, buckets int) []Point {
	if len(points) <= 5*buckets {
		return points
	}
	kept := make([]Point, 0, 5*buckets)
	for b := range buckets {
		lo, hi := b*len(points)/buckets, (b+1)*len(points)/buckets
		smallest, largest, broken := -1, -1, -1
		for i := lo; i < hi; i++ {
			v := points[i].Value
			if !finite(v) {
				if broken < 0 {
					broken = i
				}
				continue
			}
			if smallest < 0 || v < points[smallest].Value {
				smallest = i
			}
			if largest < 0 || v > points[largest].Value {
				largest = i
			}
		}
		for i := lo; i < hi; i++ {
			if i == lo || i == hi-1 || i == smallest || i == largest || i == broken {
				kept = append(kept, points[i])
			}
		}
	}
	return kept
}
