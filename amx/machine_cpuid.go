package amx

// #include "peaks.h"
// #cgo noescape identify
// #cgo nocallback identify
// #cgo nocallback saved_states
// #cgo nocallback float_control
import "C"

import (
	"encoding/binary"
	"strings"
)

// registers are those that CPUID answers in.
type registers struct{ eax, ebx, ecx, edx uint32 }

// cpuidFunc answers a leaf and subleaf, with zeros where there is no such leaf.
type cpuidFunc func(leaf, subleaf uint32) registers

// cpuid asks this CPU.
func cpuid(leaf, subleaf uint32) registers {
	ask := func(leaf, subleaf uint32) registers {
		var out [4]C.uint
		C.identify(C.uint(leaf), C.uint(subleaf), &out[0])
		return registers{uint32(out[0]), uint32(out[1]), uint32(out[2]), uint32(out[3])}
	}
	// Above the highest leaf of a range Intel answers with some other leaf.
	const ranges = 0xc000_0000
	if highest := ask(leaf&ranges, 0).eax; leaf > highest {
		return registers{}
	}
	return ask(leaf, subleaf)
}

// savedStates is the register XCR0: the states that the system saves for a process.
// It must not be asked for where CPUID does not say OSXSAVE.
func savedStates() uint64 { return uint64(C.saved_states()) }

// Identity is how an x86 CPU names itself; zero elsewhere.
type Identity struct {
	Vendor        string // "GenuineIntel", "AuthenticAMD"
	Family, Model int
	Stepping      int
	Hypervisor    string // "" on bare metal, "unnamed" where it gives no name
}

// Identify asks the CPU.
func Identify() Identity { return identity(cpuid) }

func identity(ask cpuidFunc) Identity {
	zero := ask(0, 0)
	id := Identity{Vendor: letters(zero.ebx, zero.edx, zero.ecx)}
	one := ask(1, 0)
	id.Stepping = int(one.eax & 15)
	id.Model, id.Family = int(one.eax>>4&15), int(one.eax>>8&15)
	if id.Family == 6 || id.Family == 15 {
		id.Model |= int(one.eax >> 16 & 15 << 4)
	}
	if id.Family == 15 {
		id.Family += int(one.eax >> 20 & 255)
	}
	if one.ecx>>31 == 1 {
		h := ask(0x4000_0000, 0)
		if id.Hypervisor = letters(h.ebx, h.ecx, h.edx); id.Hypervisor == "" {
			id.Hypervisor = "unnamed"
		}
	}
	return id
}

// letters is the text in registers, without what is not printable.
func letters(words ...uint32) string {
	var text []byte
	for _, w := range words {
		text = binary.LittleEndian.AppendUint32(text, w)
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, string(text)))
}

// has reports whether a bit of a word is set.
func has(word uint32, bit int) bool { return word>>bit&1 == 1 }

// FlushesDenormals reports whether this thread treats denormal numbers as zero, which
// programs get from libraries that were linked with -ffast-math: results then differ
// from those of any other process.
func FlushesDenormals() bool {
	const denormalsAreZero, flushToZero = 1 << 6, 1 << 15
	return C.float_control()&(denormalsAreZero|flushToZero) != 0
}
