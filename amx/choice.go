package amx

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// Auto is the name that asks for the set that is fastest on this machine.
const Auto = "auto"

// Choice is a kernel set and why it was taken.
type Choice struct {
	Set    Set
	Speeds []Speed   // of the sets compared, fastest first; none if nothing was measured
	When   time.Time // they were measured
	Cached bool      // in an earlier process
}

// Speed is the rate of a set's products in billions of operations a second.
type Speed struct {
	Set string  `json:"set"`
	GOP float64 `json:"gops"`
}

// Why is the reason in a few words.
func (c Choice) Why() string {
	if len(c.Speeds) == 0 {
		return ""
	}
	parts := make([]string, len(c.Speeds))
	for i, s := range c.Speeds {
		parts[i] = fmt.Sprintf("%s %.0f", s.Set, s.GOP)
	}
	why := "measured: " + strings.Join(parts, ", ") + " GOP/s"
	own := slices.IndexFunc(c.Speeds, func(s Speed) bool { return s.Set == c.Set.Name })
	switch {
	case own <= 0:
	case c.Set.Arithmetic == FP32 && c.Speeds[own].GOP >= (1-tie)*c.Speeds[0].GOP:
		why += fmt.Sprintf("; within %.0f%% the more accurate", 100*tie)
	default:
		why += fmt.Sprintf("; within %.0f%% the one taken before", 100*stay)
	}
	return why
}

// String is the set's name, with the reason where there is one.
func (c Choice) String() string {
	if why := c.Why(); why != "" {
		return c.Set.Name + " (" + why + ")"
	}
	return c.Set.Name
}

// Choose finds the named set, or for Auto the fastest on this machine. That is
// measured once for a CPU and a version of the kernels, in some 150 ms, and kept in the user's
// cache directory: it must not change between runs because a measurement was noisy, since
// another set gives other bits. Where nothing can be kept it is measured once a process.
func Choose(name string) (Choice, error) {
	if err := Check(name); err != nil {
		return Choice{}, err
	}
	if name == Auto {
		return newChooser().choose(), nil
	}
	all := Sets()
	return Choice{Set: all[slices.IndexFunc(all, func(s Set) bool { return s.Name == name })]}, nil
}

// Check reports whether Choose would find the named set, without measuring anything.
func Check(name string) error {
	valid := []string{Auto}
	for _, s := range Sets() {
		if why := s.Missing(); s.Name == name && why != "" {
			return fmt.Errorf("select kernel set %q: %s", name, why)
		}
		valid = append(valid, s.Name)
	}
	if !slices.Contains(valid, name) {
		return fmt.Errorf("select kernel set %q: unknown; valid are %s", name, strings.Join(valid, ", "))
	}
	return nil
}

// Select returns kernels of the set that Choose finds.
func Select(name string) (*Kernels, error) {
	c, err := Choose(name)
	if err != nil {
		return nil, err
	}
	return c.Set.New(), nil
}

// Remeasure measures the choice of Auto anew and keeps it. before is what was kept,
// with no set in it if there was nothing.
func Remeasure() (now, before Choice) { return newChooser().refresh() }

// candidates are the sets that Auto chooses from: those that run here, without the
// reference, and without the portable one where there are vectors for fp32.
func candidates(sets []Set) []Set {
	var all []Set
	vectors := false
	for _, s := range sets {
		if s.Name == "reference" || s.Name == "portable" && vectors || !s.Available() {
			continue
		}
		vectors = vectors || s.Arithmetic == FP32
		all = append(all, s)
	}
	return all
}

// tie is how much slower fp32 may be than a 16-bit format and still be taken. Between
// int16 and bf16 speed alone decides: int16 errs less on average, bf16 less on small
// numbers beside large ones, and trainings do not tell them apart (docs/kernels.md).
const tie = 0.05

// stay is how much slower a set that was taken before may be when measured anew, and
// still be taken. Where int16 and bf16 have one peak, 150 ms on a shared core put them
// 4 to 14% apart: the choice would go back and forth.
const stay = 0.20

// fastest is the set that is taken: the fastest, or one of fp32 within a tie of it.
// speeds are sorted, fastest first.
func fastest(speeds []Speed, sets []Set) Set {
	var taken Set
	for _, s := range speeds {
		set := sets[slices.IndexFunc(sets, func(set Set) bool { return set.Name == s.Set })]
		switch {
		case taken.Name == "":
			taken = set
		case s.GOP >= (1-tie)*speeds[0].GOP && set.Arithmetic == FP32 && taken.Arithmetic != FP32:
			taken = set
		}
	}
	return taken
}

// chooser chooses among sets; tests give it other sets, times and places.
type chooser struct {
	sets  []Set
	speed func([]Set) []Speed
	cache choiceCache
	now   func() time.Time
}

// chosen holds what was measured in this process by the cache's key, for processes
// that have no cache: two calls of one run must not differ.
var chosen = struct {
	sync.Mutex
	choices map[string]keptChoice
}{choices: map[string]keptChoice{}}

func newChooser() chooser {
	sets := candidates(Sets())
	return chooser{sets: sets, speed: compareSets, cache: choiceCache{path: choicePath(), key: choiceKey(DetectMachine(), cpuid(1, 0).eax, sets)}, now: time.Now}
}

func (c chooser) choose() Choice {
	if len(c.sets) == 1 {
		return Choice{Set: c.sets[0]}
	}
	chosen.Lock()
	defer chosen.Unlock()
	if kept, err := c.cache.load(); err == nil {
		if choice, ok := c.accept(kept); ok {
			choice.Cached = true
			return choice
		}
	}
	if kept, is := chosen.choices[c.cache.path+c.cache.key]; is {
		if choice, ok := c.accept(kept); ok {
			return choice
		}
	}
	return c.keep(Choice{}, false)
}

func (c chooser) refresh() (now, before Choice) {
	chosen.Lock()
	defer chosen.Unlock()
	if kept, err := c.cache.load(); err == nil {
		before, _ = c.accept(kept)
	}
	if len(c.sets) == 1 {
		return Choice{Set: c.sets[0]}, before
	}
	return c.keep(before, true), before
}

// keep measures and stores; the set taken before has the benefit of doubt. Unless replace is set, a process that stored at the same
// time and was first decides for both. The cache is a help, not a duty: what cannot be stored is measured again.
func (c chooser) keep(before Choice, replace bool) Choice {
	speeds := c.speed(c.sets)
	slices.SortStableFunc(speeds, func(a, b Speed) int { return int(math.Copysign(1, b.GOP-a.GOP)) })
	kept := keptChoice{Set: fastest(speeds, c.sets).Name, Speeds: speeds, When: c.now().UTC().Round(time.Second)}
	if i := slices.IndexFunc(speeds, func(s Speed) bool { return s.Set == before.Set.Name }); i >= 0 && speeds[i].GOP >= (1-stay)*speeds[0].GOP {
		kept.Set = before.Set.Name
	}
	if first, err := c.cache.store(kept, replace); err == nil {
		if _, ok := c.accept(first); ok {
			kept = first
		} else {
			c.cache.store(kept, true) // what lies there is of no use to anybody; as above, without a duty
		}
	}
	chosen.choices[c.cache.path+c.cache.key] = kept
	choice, _ := c.accept(kept)
	return choice
}

// accept checks what a cache holds: whoever wrote it, the set must be one of ours.
func (c chooser) accept(kept keptChoice) (Choice, bool) {
	i := slices.IndexFunc(c.sets, func(s Set) bool { return s.Name == kept.Set })
	if i < 0 || len(kept.Speeds) == 0 {
		return Choice{}, false
	}
	for _, s := range kept.Speeds {
		known := slices.ContainsFunc(c.sets, func(set Set) bool { return set.Name == s.Set })
		if !known || math.IsNaN(s.GOP) || math.IsInf(s.GOP, 0) || s.GOP <= 0 {
			return Choice{}, false
		}
	}
	return Choice{Set: c.sets[i], Speeds: kept.Speeds, When: kept.When}, true
}

//go:embed *.c *.h
var sources embed.FS

// choiceKey names what a measurement holds for: the CPU, the sets, and the kernels as
// they were written and built, since another build may be faster elsewhere.
func choiceKey(m Machine, signature uint32, sets []Set) string {
	hash := sha256.New()
	fmt.Fprintln(hash, m.CPUModel, signature, m.Flags, m.OS, m.Arch)
	for _, s := range sets {
		fmt.Fprintln(hash, s.Name)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "CGO_CFLAGS", "CGO_CPPFLAGS", "GOAMD64", "-race", "-asan", "-msan":
				fmt.Fprintln(hash, s.Key, s.Value)
			}
		}
	}
	names, err := fs.Glob(sources, "*")
	for _, name := range names {
		var text []byte
		if text, err = sources.ReadFile(name); err != nil {
			break
		}
		hash.Write(text)
	}
	if err != nil {
		panic(err) // the files are part of the program
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// keptChoice is a choice in the cache.
type keptChoice struct {
	Set    string    `json:"set"`
	Speeds []Speed   `json:"speeds"`
	When   time.Time `json:"measured"`
}
