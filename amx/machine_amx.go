package amx

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"
)

// Tiles is what stands between a process and the AMX instructions: the CPU must have
// them, the system must save their state, and it must permit this process to use it.
type Tiles struct {
	Tile, BF16, Int8     bool   // CPUID: AMX-TILE, AMX-BF16, AMX-INT8
	OSXSAVE              bool   // CPUID: the system uses XSAVE, so that XCR0 can be read
	TileConfig, TileData bool   // XCR0, bits 17 and 18: the system saves the state
	Refusal              string // of the permission that was asked for; "" if it was granted
	Identity             Identity
}

// DetectTiles asks the CPU and, for the permission, the system.
func DetectTiles() Tiles {
	t := tilesOf(cpuid, savedStates)
	if err := requestTiles(); err != nil {
		t.Refusal = err.Error()
	}
	return t
}

func tilesOf(ask cpuidFunc, states func() uint64) Tiles {
	edx := ask(7, 0).edx
	t := Tiles{BF16: has(edx, 22), Tile: has(edx, 24), Int8: has(edx, 25), OSXSAVE: has(ask(1, 0).ecx, 27), Identity: identity(ask)}
	if t.OSXSAVE {
		xcr0 := states()
		t.TileConfig, t.TileData = xcr0>>17&1 == 1, xcr0>>18&1 == 1
	}
	return t
}

// Usable reports whether the kernel set amx runs.
func (t Tiles) Usable() bool {
	return t.Tile && t.BF16 && t.TileConfig && t.TileData && t.Refusal == ""
}

// codename of the Intel cores that have AMX, by model of family 6; "" for others.
func (t Tiles) codename() string {
	if t.Identity.Vendor != "GenuineIntel" || t.Identity.Family != 6 {
		return ""
	}
	return map[int]string{143: "Sapphire Rapids", 207: "Emerald Rapids", 173: "Granite Rapids", 174: "Granite Rapids D"}[t.Identity.Model]
}

// Verdict is the state of AMX in one line.
func (t Tiles) Verdict() string {
	name := t.codename()
	switch {
	case t.Usable():
		return "usable"
	case !t.Tile && name != "":
		by := "by the firmware or the system"
		if t.Identity.Hypervisor != "" {
			by = "by the hypervisor (" + t.Identity.Hypervisor + ")"
		}
		return fmt.Sprintf("hidden %s: this model, %s, has AMX", by, name)
	case !t.Tile:
		return "not in this CPU"
	case !t.BF16:
		return "without bf16: the kernel set amx needs it"
	case !t.OSXSAVE || !t.TileConfig || !t.TileData:
		return "the CPU has it, but the system does not save the tiles' state: a newer kernel does"
	}
	return "the CPU has it, but the system refuses it to this process: " + t.Refusal
}

// Condition is one condition of a state, with what it means.
type Condition struct {
	Name    string
	Holds   bool
	Meaning string
}

// Conditions are what AMX needs, in the order in which one builds on another.
func (t Tiles) Conditions() []Condition {
	permission := "arch_prctl granted the tiles' state to this process"
	if t.Refusal != "" {
		permission = "arch_prctl: " + t.Refusal
	}
	say := func(holds bool, yes, no string) string {
		if holds {
			return yes
		}
		return no
	}
	return []Condition{
		{"CPUID amx_tile", t.Tile, say(t.Tile, "the CPU shows tile registers", "the CPU shows no tile registers")},
		{"CPUID amx_bf16", t.BF16, say(t.BF16, "it multiplies bf16 tiles", "it multiplies no bf16 tiles")},
		{"CPUID amx_int8", t.Int8, say(t.Int8, "it multiplies int8 tiles", "it multiplies no int8 tiles")},
		{"CPUID osxsave", t.OSXSAVE, say(t.OSXSAVE, "the system saves extended states", "the system saves no extended states")},
		{"XCR0 bit 17", t.TileConfig, say(t.TileConfig, "the tiles' configuration among them", "not the tiles' configuration")},
		{"XCR0 bit 18", t.TileData, say(t.TileData, "the tiles' data among them", "not the tiles' data")},
		{"permission", t.Refusal == "", permission},
	}
}

// amxPermitted reports whether this process may use AMX: CPUID alone does not say so.
func amxPermitted() bool {
	return cpu.X86.HasAMXTile && cpu.X86.HasAMXBF16 && requestTiles() == nil
}

// Missing says why a set does not run here, "" if it does.
func (s Set) Missing() string {
	if s.Available() {
		return ""
	}
	flags := cpuFlags()
	var lacks []string
	for _, need := range s.Needs {
		if !slices.Contains(flags, need) {
			lacks = append(lacks, need)
		}
	}
	switch {
	case len(lacks) > 0:
		return "the CPU lacks " + strings.Join(lacks, ", ")
	case s.Name == "amx":
		return "AMX is " + DetectTiles().Verdict()
	}
	return "this build does not contain it"
}
