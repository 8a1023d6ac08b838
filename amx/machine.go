package amx

import (
	"bufio"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"
)

// Machine is what a run's provenance says about the computer it ran on.
type Machine struct {
	CPUModel string   // as the system names it; "unknown" where it does not
	Cores    int      // logical cores this process may use
	Flags    []string // CPU features that bear on the choice of kernels, sorted
	OS, Arch string   // as Go names them
}

// DetectMachine asks the CPU and, on Linux, /proc/cpuinfo. It never fails: what
// cannot be found out is left empty or "unknown".
func DetectMachine() Machine {
	m := Machine{CPUModel: "unknown", Cores: runtime.NumCPU(), Flags: cpuFlags(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if model := cpuModel(string(info)); model != "" {
			m.CPUModel = model
		}
	}
	return m
}

// cpuModel returns the first model name in the text of /proc/cpuinfo, or "". x86
// calls it "model name"; ARM systems say "Model" or "Hardware", or nothing.
func cpuModel(cpuinfo string) string {
	scanner := bufio.NewScanner(strings.NewReader(cpuinfo))
	scanner.Buffer(nil, 1<<20) // a line of flags is long
	for scanner.Scan() {
		key, value, found := strings.Cut(scanner.Text(), ":")
		if key = strings.TrimSpace(key); found && (key == "model name" || key == "Model" || key == "Hardware") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func cpuFlags() []string {
	x, arm := cpu.X86, cpu.ARM64
	features := map[string]bool{
		"avx":         x.HasAVX,
		"avx2":        x.HasAVX2,
		"fma":         x.HasFMA,
		"bmi2":        x.HasBMI2,
		"avx_vnni":    x.HasAVXVNNI,
		"avx512f":     x.HasAVX512F,
		"avx512dq":    x.HasAVX512DQ,
		"avx512bw":    x.HasAVX512BW,
		"avx512vl":    x.HasAVX512VL,
		"avx512_vnni": x.HasAVX512VNNI,
		"avx512_bf16": x.HasAVX512BF16,
		"amx_tile":    x.HasAMXTile,
		"amx_int8":    x.HasAMXInt8,
		"amx_bf16":    x.HasAMXBF16,
		"asimd":       arm.HasASIMD,
		"asimdhp":     arm.HasASIMDHP,
		"asimddp":     arm.HasASIMDDP,
		"sve":         arm.HasSVE,
		"sve2":        arm.HasSVE2,
	}
	var flags []string
	for name, present := range features {
		if present {
			flags = append(flags, name)
		}
	}
	slices.Sort(flags)
	return flags
}
