//go:build linux && amd64 && cgo

package amxemu_test

import (
	"fmt"
	"testing"

	"harness/amx/amxemu"
	"harness/amx/amxemu/encoded"
)

// BenchmarkGemm says what a kernel's tests will cost: seconds, not machine limits.
func BenchmarkGemm(b *testing.B) {
	install(b)
	for _, n := range []int{256, 512} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x, y, z := make([]uint16, n*n), make([]uint16, n*n), make([]float32, n*n)
			for i := range x {
				x[i], y[i] = 0x3f80, 0x3f80 // 1
			}
			before := amxemu.Executed()
			for b.Loop() {
				encoded.Gemm(n, allFull, z, x, y)
			}
			b.ReportMetric(float64(amxemu.Executed()-before)/float64(b.N), "instructions/op")
		})
	}
}
