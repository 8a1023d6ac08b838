package amx

import (
	"sync"
	"testing"

	"golang.org/x/sys/cpu"

	"harness/amx/amxemu"
)

// runs reports whether the set can be executed here. On a CPU without AMX the set
// of that name is executed by the emulator, in every test of this package.
func runs(s Set) bool { return s.Name == "amx" && emulatesAMX() || s.Available() }

// emulatesAMX installs the emulator where AMX is missing but the rest of what the
// set is compiled for is there.
var emulatesAMX = sync.OnceValue(func() bool {
	return hasAVX512() && cpu.X86.HasAVX512BF16 && amxemu.Install() == nil
})

// TestAMXExecuted: the set "amx" multiplies on tiles, emulated ones here.
func TestAMXExecuted(t *testing.T) {
	if !emulatesAMX() {
		t.Skip("AMX is not emulated: this CPU has it, or lacks AVX-512 with BF16")
	}
	const m, n, k = 32, 32, 64
	kernels := fromC("amx", BF16, tableAMX)
	c := make([]float32, m*n)
	before := amxemu.Executed()
	kernels.Gemm(NN, m, n, k, make([]float32, m*k), k, make([]float32, k*n), n, nil, c, n)
	// LDTILECFG, 4 TILEZERO, 2 steps of 4 TILELOADD and 4 TDPBF16PS, 4 TILESTORED, TILERELEASE.
	if got := amxemu.Executed() - before; got != 26 {
		t.Errorf("a product of 2x2 tiles over 2 steps executed %d AMX instructions, want 26", got)
	}
}
