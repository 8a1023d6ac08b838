package main

import "harness/amx"

type doctorJSON struct {
	Program   string       `json:"code_version"`
	System    string       `json:"os"`
	Arch      string       `json:"arch"`
	Kernel    string       `json:"kernel,omitempty"`
	CPU       string       `json:"cpu"`
	Identity  identityJSON `json:"cpu_identity"`
	Flags     []string     `json:"cpu_flags"`
	Cores     int          `json:"cores"`
	Core      int          `json:"core"` // that can be claimed; -1 is none
	CoreNote  string       `json:"core_note,omitempty"`
	Siblings  []int        `json:"hyperthreads"`
	Caches    []cacheJSON  `json:"caches"`
	Memory    int64        `json:"available_memory_bytes"` // 0 is unknown
	Frequency number       `json:"frequency_ghz"`          // 0 is unknown
	Peak      number       `json:"fp32_peak_gflops"`
	CoreShare number       `json:"core_share"`
	Steady    number       `json:"median_over_best_speed"`
	Denormals number       `json:"denormal_slowdown"`
	AMX       amxJSON      `json:"amx"`
	Sets      []setJSON    `json:"kernel_sets"`
	Choice    choiceJSON   `json:"auto"`
	Places    []place      `json:"places"`
	Warnings  []string     `json:"warnings"`
	Problems  []string     `json:"problems"`
}

type identityJSON struct {
	Vendor     string `json:"vendor"`
	Family     int    `json:"family"`
	Model      int    `json:"model"`
	Stepping   int    `json:"stepping"`
	Hypervisor string `json:"hypervisor,omitempty"`
}

type cacheJSON struct {
	Level    int    `json:"level"`
	Kind     string `json:"kind"`
	Bytes    int64  `json:"bytes"`
	SharedBy int    `json:"shared_by"` // CPUs; 0 is unknown
	From     string `json:"from"`
}

type amxJSON struct {
	Usable     bool            `json:"usable"`
	Verdict    string          `json:"verdict"`
	Conditions []conditionJSON `json:"conditions"`
}

type conditionJSON struct {
	Name    string `json:"name"`
	Holds   bool   `json:"holds"`
	Meaning string `json:"meaning"`
}

type setJSON struct {
	Name       string `json:"name"`
	Arithmetic string `json:"arithmetic"`
	Runs       bool   `json:"runs"`
	Missing    string `json:"missing,omitempty"`
}

type choiceJSON struct {
	Set    string      `json:"set"`
	Why    string      `json:"why,omitempty"`
	Speeds []amx.Speed `json:"speeds"`
	Cached bool        `json:"cached"`
	KeptAt string      `json:"kept_in,omitempty"`
}

func newChoiceJSON(c amx.Choice, keptAt string) choiceJSON {
	return choiceJSON{Set: c.Set.Name, Why: c.Why(), Speeds: append([]amx.Speed{}, c.Speeds...), Cached: c.Cached, KeptAt: keptAt}
}

func (e examination) json() doctorJSON {
	j := doctorJSON{Program: e.program["code_version"], System: e.machine.OS, Arch: e.machine.Arch, Kernel: e.kernel, CPU: e.machine.CPUModel,
		Identity: identityJSON(e.identity), Flags: append([]string{}, e.machine.Flags...), Cores: e.machine.Cores, Core: e.core, CoreNote: e.coreNote,
		Siblings: append([]int{}, e.siblings...), Caches: []cacheJSON{}, Memory: e.memory, Frequency: number(e.frequency), Peak: number(e.peak.Value),
		CoreShare: number(e.contention.Share), Steady: number(e.contention.Steady), Denormals: number(e.denormals),
		AMX: amxJSON{Usable: e.tiles.Usable(), Verdict: e.tiles.Verdict()}, Choice: newChoiceJSON(e.choice, e.keptAt),
		Places: e.places, Warnings: append([]string{}, e.warnings...), Problems: append([]string{}, e.problems...)}
	for _, c := range e.caches {
		j.Caches = append(j.Caches, cacheJSON(c))
	}
	for _, c := range e.tiles.Conditions() {
		j.AMX.Conditions = append(j.AMX.Conditions, conditionJSON(c))
	}
	for _, s := range e.sets {
		j.Sets = append(j.Sets, setJSON{s.Name, string(s.Arithmetic), s.missing == "", s.missing})
	}
	return j
}
