package runs

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkMetric is what recording costs the trainer: the buffer alone, commits run beside it.
func BenchmarkMetric(b *testing.B) {
	s := open(b, b.TempDir())
	rec := begin(b, s, create(b, s, "bench").ID, 0)
	for i := 0; b.Loop(); i++ {
		rec.Metric("train/loss", int64(i), int64(i), 1)
	}
	b.StopTimer()
	finish(b, rec, Finished)
}

// BenchmarkCommit is how fast points reach the disk, 1,000 in a transaction.
func BenchmarkCommit(b *testing.B) {
	s := open(b, b.TempDir())
	rec := begin(b, s, create(b, s, "bench").ID, 0)
	const batch = 1000
	step := int64(0)
	for b.Loop() {
		for range batch / 10 {
			step++
			for m := range 10 {
				rec.Metric(fmt.Sprintf("metric/%d", m), step, step, 1)
			}
		}
		if err := rec.Flush(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "points/s")
	finish(b, rec, Finished)
}

// BenchmarkSeries reads 10 metrics of 10,000 points each.
func BenchmarkSeries(b *testing.B) {
	s := open(b, b.TempDir())
	run := create(b, s, "bench")
	rec := begin(b, s, run.ID, 0)
	const metrics, steps = 10, 10_000
	for step := range int64(steps) {
		for m := range metrics {
			rec.Metric(fmt.Sprintf("metric/%d", m), step, step, 1)
		}
	}
	finish(b, rec, Finished)
	for b.Loop() {
		if series := must[[]Series](b)(s.Series(context.Background(), run.ID)); len(series) != metrics || len(series[0].Points) != steps {
			b.Fatalf("%d series", len(series))
		}
	}
	b.ReportMetric(float64(b.N*metrics*steps)/b.Elapsed().Seconds(), "points/s")
}

// BenchmarkLast finds the last points of a run of 20 metrics of 10,000 points
// each, resumed once, among 50 other runs.
func BenchmarkLast(b *testing.B) {
	s := open(b, b.TempDir())
	const metrics, steps, others = 20, 10_000, 50
	var run Run
	for i := range others + 1 {
		run = create(b, s, "bench")
		perMetric := int64(100)
		if i == others {
			perMetric = steps
		}
		for _, from := range []int64{0, perMetric / 2} {
			rec := begin(b, s, run.ID, from)
			for step := from; step < from+perMetric/2; step++ {
				for m := range metrics {
					rec.Metric(fmt.Sprintf("metric/%d", m), step, step, 1)
				}
			}
			finish(b, rec, Finished)
		}
	}
	for b.Loop() {
		if last := must[map[string]Point](b)(s.Last(context.Background(), run.ID)); len(last) != metrics || last["metric/0"].Step != steps-1 {
			b.Fatalf("%v", last)
		}
	}
}
