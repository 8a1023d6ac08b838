package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"harness/amx"
	"harness/runs"
)

func (c *cli) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can do, and what would stop or slow a run",
		Long: `Look at the machine in about a second: its CPU and caches, whether AMX is there and
permitted, the speed of a core, the kernel sets that run here and which one a run
takes, and whether the places that a run writes to can be written. "harness bench"
measures everything.

The exit code is 1 if something would stop a run; warnings do not change it.`,
		Example: "  harness doctor\n  harness doctor --json",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := c.examine(cmd.Context())
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if asJSON {
				err = writeJSON(w, e.json())
			} else {
				e.write(w, resultWidth(w))
			}
			if err == nil && len(e.problems) > 0 {
				err = errors.New("a run would not start here: " + strings.Join(e.problems, "; "))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything as JSON")
	return cmd
}

// examination is what the doctor found.
type examination struct {
	program  map[string]string // provenance of the program
	machine  amx.Machine
	identity amx.Identity
	kernel   string // release of the system's, "" where it is not known
	core     int    // that was claimed, -1 for none
	coreNote string // why none was
	siblings []int
	caches   []amx.Cache
	memory   int64 // available bytes, 0 where it is not known
	tiles    amx.Tiles
	sets     []setState
	choice   amx.Choice
	keptAt   string // where the choice is kept, "" if it cannot be

	frequency  float64 // GHz, 0 where it cannot be measured
	peak       amx.Measurement
	contention amx.Contention
	denormals  float64 // how many times slower

	places   []place
	warnings []string
	problems []string
}

// setState is a kernel set and why it does not run here, "" if it does.
type setState struct {
	amx.Set
	missing string
}

// place is a directory that the program writes to.
type place struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	State string `json:"state"`
	OK    bool   `json:"ok"`
}

func (c *cli) examine(ctx context.Context) (e examination, err error) {
	e = examination{program: runs.Provenance(nil), machine: amx.DetectMachine(), identity: amx.Identify(), kernel: kernelRelease(),
		memory: amx.AvailableMemory(), tiles: amx.DetectTiles()}
	for _, s := range amx.Sets() {
		e.sets = append(e.sets, setState{s, s.Missing()})
	}
	core, err := amx.ClaimCore("")
	if err != nil {
		return e, fmt.Errorf("claim a core: %w", err)
	}
	defer func() { err = errors.Join(err, core.Release()) }()
	e.core, e.coreNote = core.ID, core.Reason
	e.caches, e.siblings = amx.DetectCaches(core.ID), amx.Siblings(core.ID)
	if err := e.measure(ctx); err != nil {
		return e, err
	}
	if e.choice, err = amx.Choose(amx.Auto); err != nil {
		return e, err
	}
	if again, err := amx.Choose(amx.Auto); err == nil && again.Cached {
		e.keptAt = amx.ChoicePath() // it was read from there
	}
	e.places = c.places()
	e.judge(core.Oversubscribed)
	return e, nil
}

func (e *examination) measure(ctx context.Context) (err error) {
	quick := amx.Effort{Quick: true}
	frequency, err := amx.MeasureFrequency(ctx, quick)
	if err != nil {
		return err
	}
	for _, m := range frequency {
		e.frequency = m.Value // the last is that beside wide vectors, as in a run
	}
	peaks, err := amx.MeasurePeaks(ctx, quick)
	if err != nil {
		return err
	}
	for _, m := range peaks {
		if m.Name == "fp32" {
			e.peak = m
		}
	}
	if e.contention, err = amx.MeasureContention(ctx); err != nil {
		return err
	}
	e.denormals, err = amx.MeasureDenormals(ctx)
	return err
}

// Limits beyond which the doctor warns.
const (
	leastShare    = 0.9  // of the core, while computing
	leastSteady   = 0.85 // median speed over the best
	leastOfTheory = 0.75 // measured fp32 peak over what the CPU does in theory
	mostDenormals = 4.0  // times slower
	leastMemory   = 1 << 30
)

// judge draws conclusions from what was found.
func (e *examination) judge(oversubscribed bool) {
	warn := func(format string, args ...any) { e.warnings = append(e.warnings, fmt.Sprintf(format, args...)) }
	switch {
	case oversubscribed:
		warn("every core has a run already: another one shares and is slower")
	case e.core < 0:
		warn("no core can be claimed, so that a run wanders between cores: %s", e.coreNote)
	}
	if len(e.siblings) > 1 {
		warn("core %d shares its execution units with its hyperthread: CPUs %s; while something runs on both, each is slower", e.core, numbers(e.siblings))
	}
	if e.contention.Share < leastShare {
		warn("this process got %.0f%% of its core's time while computing: something else runs there", 100*e.contention.Share)
	}
	if e.contention.Steady < leastSteady {
		warn("the core's speed is not steady, its median %.0f%% of its best: another hyperthread or machine has a part of it", 100*e.contention.Steady)
	}
	if theory := e.frequency * e.identity.MultiplyAddsPerCycle(e.machine.Flags); theory > 0 && e.peak.Value < leastOfTheory*theory {
		warn("fp32 reaches %.0f of %.0f GFLOP/s that this CPU does at %.2f GHz: the core is shared, or slowed down for wide vectors", e.peak.Value, theory, e.frequency)
	}
	if amx.FlushesDenormals() {
		warn("denormal numbers are taken for zero in this process: a library has set the CPU so, and results differ from other machines'")
	}
	if e.denormals > mostDenormals {
		warn("arithmetic on denormal numbers is %.0f times slower: models that vanish are slow", e.denormals)
	}
	if e.tiles.Tile && !e.tiles.Usable() {
		warn("AMX: %s", e.tiles.Verdict())
	}
	if e.memory > 0 && e.memory < leastMemory {
		warn("little memory is left: %d MiB", e.memory>>20)
	}
	if len(e.choice.Speeds) > 0 && e.keptAt == "" {
		warn("the choice of kernels cannot be kept in %s: it is measured at each start, and may differ between runs; --kernels fixes it", cmp.Or(amx.ChoicePath(), "a cache directory, there is none"))
	}
	for _, p := range e.places {
		if p.Name == placeStore && !p.OK {
			e.problems = append(e.problems, "the store "+p.Path+" is "+p.State)
		}
	}
}

const placeStore = "store"

// places are the directories that a run writes to, which are not made by looking.
func (c *cli) places() []place {
	places := []place{{Name: placeStore, Path: c.store}}
	if dir, err := os.UserCacheDir(); err == nil {
		places = append(places, place{Name: "cache", Path: filepath.Join(dir, "harness")})
	} else {
		places = append(places, place{Name: "cache", State: err.Error()})
	}
	places = append(places, place{Name: "core locks", Path: amx.DefaultLockDir()}, place{Name: "scratch", Path: os.TempDir()})
	for i := range places {
		if p := &places[i]; p.Path != "" {
			if absolute, err := filepath.Abs(p.Path); err == nil {
				p.Path = absolute
			}
			p.State, p.OK = writable(p.Path)
		}
	}
	if p := &places[0]; p.OK && exists(p.Path) {
		// A database that cannot be opened would stop a run as well.
		s, err := runs.OpenReadOnly(p.Path)
		switch {
		case err == nil:
			s.Close() // opened for reading: there is nothing to lose
		case !errors.Is(err, runs.ErrNoStore):
			p.State, p.OK = err.Error(), false
		}
	}
	return places
}

// writable says whether a directory can be written, or could be once it is made.
func writable(path string) (state string, ok bool) {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return "no directory", false
	case err == nil && unix.Access(path, unix.W_OK|unix.X_OK) != nil:
		return "not writable", false
	case err == nil:
		return "writable", true
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR): // the latter below a file
		return err.Error(), false
	}
	if parent := filepath.Dir(path); parent != path {
		if state, ok := writable(parent); !ok {
			return "not there, and " + parent + " is " + state, false
		}
	}
	return "not there yet, can be made", true
}

// kernelRelease is the version of the system's kernel.
func kernelRelease() string {
	if runtime.GOOS != "linux" {
		return ""
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(release))
}
