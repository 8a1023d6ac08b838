package amx

import (
	"slices"
	"testing"
)

func TestCPUModel(t *testing.T) {
	for cpuinfo, want := range map[string]string{
		"processor\t: 0\nmodel\t\t: 207\nmodel name\t: Some CPU @ 2 GHz\nflags\t: a b\n": "Some CPU @ 2 GHz",
		"processor : 0\nModel : Board: revision 2\n":                                     "Board: revision 2",
		"processor : 0\n": "",
		"":                "",
	} {
		if got := cpuModel(cpuinfo); got != want {
			t.Errorf("cpuModel(%q) = %q, want %q", cpuinfo, got, want)
		}
	}
}

func TestDetectMachine(t *testing.T) {
	m := DetectMachine()
	if m.CPUModel == "" || m.Cores < 1 || m.OS == "" || m.Arch == "" {
		t.Errorf("incomplete: %+v", m)
	}
	if !slices.IsSorted(m.Flags) {
		t.Errorf("flags are not sorted: %v", m.Flags)
	}
}

// A set's needs are spelt as the machine spells its flags, and an available set has them all.
func TestSetNeeds(t *testing.T) {
	flags := DetectMachine().Flags
	for _, s := range Sets() {
		if !s.Available() {
			continue
		}
		for _, need := range s.Needs {
			if !slices.Contains(flags, need) {
				t.Errorf("set %s is available but needs %s, which the machine's flags lack: %v", s.Name, need, flags)
			}
		}
		if got := s.New().Name; got != s.Name {
			t.Errorf("set %s makes kernels named %s", s.Name, got)
		}
	}
}
