package amx

import (
	"strings"
	"testing"
)

// answers is a CPU that answers CPUID as written down.
type answers map[[2]uint32]registers

func (a answers) ask(leaf, subleaf uint32) registers { return a[[2]uint32{leaf, subleaf}] }

// An Emerald Rapids: family 6, model 207, stepping 2; leaf 7 has the AMX bits 22, 24 and 25.
func emeraldRapids(tiles, hypervisor bool) answers {
	a := answers{
		{0, 0}: {0x20, 0x756e6547, 0x6c65746e, 0x49656e69}, // GenuineIntel in ebx, edx, ecx
		{1, 0}: {0x000c06f2, 0, 1 << 27, 0},
	}
	if tiles {
		a[[2]uint32{7, 0}] = registers{edx: 1<<22 | 1<<24 | 1<<25}
	}
	if hypervisor {
		a[[2]uint32{1, 0}] = registers{0x000c06f2, 0, 1<<27 | 1<<31, 0}
		a[[2]uint32{0x40000000, 0}] = registers{0, 0x4b4d564b, 0x564b4d56, 0x4d} // KVMKVMKVM
	}
	return a
}

// A Zen 4 server: family 15+10, model 17, stepping 1.
func genoa() answers {
	return answers{
		{0, 0}: {0x10, 0x68747541, 0x444d4163, 0x69746e65}, // AuthenticAMD
		{1, 0}: {0x00a10f11, 0, 1 << 27, 0},
	}
}

func TestIdentity(t *testing.T) {
	for _, c := range []struct {
		cpu  answers
		want Identity
	}{
		{emeraldRapids(true, true), Identity{"GenuineIntel", 6, 207, 2, "KVMKVMKVM"}},
		{emeraldRapids(true, false), Identity{"GenuineIntel", 6, 207, 2, ""}},
		{genoa(), Identity{"AuthenticAMD", 25, 17, 1, ""}},
		{answers{}, Identity{}},
		{answers{{1, 0}: {ecx: 1 << 31}}, Identity{Hypervisor: "unnamed"}},
	} {
		if got := identity(c.cpu.ask); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

func TestTiles(t *testing.T) {
	const config, data = 1 << 17, 1 << 18
	for _, c := range []struct {
		name    string
		cpu     answers
		xcr0    uint64
		refusal string
		usable  bool
		verdict string // a part of it
	}{
		{"all there", emeraldRapids(true, false), config | data, "", true, "usable"},
		{"hidden by a hypervisor", emeraldRapids(false, true), 0, "no", false, "hidden by the hypervisor (KVMKVMKVM): this model, Emerald Rapids, has AMX"},
		{"hidden by firmware", emeraldRapids(false, false), 0, "no", false, "hidden by the firmware or the system"},
		{"an old kernel", emeraldRapids(true, false), 7, "no", false, "does not save the tiles' state"},
		{"half of the state", emeraldRapids(true, false), config, "", false, "does not save the tiles' state"},
		{"refused", emeraldRapids(true, false), config | data, "not permitted", false, "refuses it to this process: not permitted"},
		{"another CPU", genoa(), 7, "no", false, "not in this CPU"},
	} {
		tiles := tilesOf(c.cpu.ask, func() uint64 { return c.xcr0 })
		tiles.Refusal = c.refusal
		if tiles.Usable() != c.usable || !strings.Contains(tiles.Verdict(), c.verdict) {
			t.Errorf("%s: usable %v, %q", c.name, tiles.Usable(), tiles.Verdict())
		}
		holding := 0
		for _, condition := range tiles.Conditions() {
			if condition.Holds {
				holding++
			}
		}
		if c.usable != (holding == 7) {
			t.Errorf("%s: %d conditions of 7 hold: %+v", c.name, holding, tiles.Conditions())
		}
	}
	bf16Less := emeraldRapids(true, false)
	bf16Less[[2]uint32{7, 0}] = registers{edx: 1 << 24}
	if tiles := tilesOf(bf16Less.ask, func() uint64 { return config | data }); tiles.Usable() || !strings.Contains(tiles.Verdict(), "without bf16") {
		t.Errorf("without bf16: %q", tiles.Verdict())
	}
	deaf := emeraldRapids(true, false)
	deaf[[2]uint32{1, 0}] = registers{eax: 0x000c06f2}
	tilesOf(deaf.ask, func() uint64 { t.Error("XCR0 was read without OSXSAVE: an illegal instruction"); return 0 })
}

func TestDetectTiles(t *testing.T) {
	tiles := DetectTiles()
	if tiles.Usable() != amxPermitted() {
		t.Errorf("usable %v, permitted %v: %+v", tiles.Usable(), amxPermitted(), tiles)
	}
}

func TestMissing(t *testing.T) {
	for _, s := range Sets() {
		if why := s.Missing(); (why == "") != s.Available() {
			t.Errorf("%s: available %v, missing %q", s.Name, s.Available(), why)
		}
	}
	never := func() bool { return false }
	if why := (Set{Name: "x", Needs: []string{"avx999", "fma9"}, Available: never}).Missing(); why != "the CPU lacks avx999, fma9" {
		t.Error(why)
	}
	if why := (Set{Name: "x", Available: never}).Missing(); why != "this build does not contain it" {
		t.Error(why)
	}
}

func TestMultiplyAddsPerCycle(t *testing.T) {
	for _, c := range []struct {
		cpu   answers
		flags []string
		want  float64
	}{
		{emeraldRapids(true, true), []string{"avx512f", "fma"}, 64},
		{emeraldRapids(true, true), []string{"fma"}, 32},
		{genoa(), []string{"avx512f", "fma"}, 32},
		{genoa(), nil, 0},
		{answers{}, []string{"fma"}, 0},
	} {
		if got := identity(c.cpu.ask).MultiplyAddsPerCycle(c.flags); got != c.want {
			t.Errorf("%+v %v: %v, want %v", identity(c.cpu.ask), c.flags, got, c.want)
		}
	}
}
