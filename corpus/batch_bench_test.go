package corpus

import "testing"

func BenchmarkBatch(b *testing.B) {
	cfg, dir := twoSources(b)
	c := opened(b, cfg, dir)
	const sequence, windows = 256, 4
	s, err := c.Sampler(1, sequence, windows, 1<<40)
	if err != nil {
		b.Fatal(err)
	}
	step := int64(0)
	for b.Loop() {
		s.Batch(step)
		step++
	}
	b.ReportMetric(float64(step*sequence*windows)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkSeek resumes after ten million windows.
func BenchmarkSeek(b *testing.B) {
	cfg, dir := twoSources(b)
	c := opened(b, cfg, dir)
	for b.Loop() {
		s, err := c.Sampler(1, 256, 10, 2e6)
		if err != nil {
			b.Fatal(err)
		}
		s.Batch(1e6)
	}
}
