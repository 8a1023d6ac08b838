package amx

import "math"

func referenceSoftmaxBand(p []float32, rows, cols, ld, off, window int, scale float32) {
	for r := range rows {
		row := p[r*ld : r*ld+cols]
		first, end := max(r+off-window+1, 0), min(r+off+1, cols)
		top := math.Inf(-1)
		for c := first; c < end; c++ {
			top = math.Max(top, float64(scale)*float64(row[c]))
		}
		sum := 0.0
		for c := first; c < end; c++ {
			sum += math.Exp(float64(scale)*float64(row[c]) - top)
		}
		for c := range row {
			if c < first || c >= end {
				row[c] = 0
				continue
			}
			row[c] = float32(math.Exp(float64(scale)*float64(row[c])-top) / sum)
		}
	}
}

func referenceSoftmaxXent(loss, logits, bias []float32, target []int32, rows, cols, ld int, scale float32) {
	for r := range rows {
		row, hit := logits[r*ld:r*ld+cols], int(target[r])
		score := func(c int) float64 {
			if bias == nil || c == hit {
				return float64(row[c])
			}
			return float64(row[c]) + float64(bias[c])
		}
		top := math.Inf(-1)
		for c := range row {
			top = math.Max(top, score(c))
		}
		sum := 0.0
		for c := range row {
			sum += math.Exp(score(c) - top)
		}
		loss[r] = float32(math.Log(sum) + top - score(hit))
		if scale == 0 {
			continue
		}
		for c := range row {
			prob := math.Exp(score(c)-top) / sum
			if c == hit {
				prob--
			}
			row[c] = float32(float64(scale) * prob)
		}
	}
}
