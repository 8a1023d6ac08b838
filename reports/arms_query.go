package reports

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"harness/runs"
)

// LoadArms compares runs of the store. No run for a selection is runs.ErrNotFound, a
// baseline that is none of the arms ErrNoBaseline.
func LoadArms(ctx context.Context, store *runs.Store, sel Selection) (ArmsPage, error) {
	all, err := store.Runs(ctx)
	if err != nil {
		return ArmsPage{}, err
	}
	chosen, err := choose(ctx, store, all, &sel)
	if err != nil {
		return ArmsPage{}, err
	}
	counted, leftOut := countable(chosen)
	var loaded []ArmRun
	for _, run := range counted {
		r, why, err := loadArmRun(ctx, store, run)
		if err != nil {
			return ArmsPage{}, err
		}
		if why != "" {
			leftOut = append(leftOut, LeftOut{run.Name, run.ID, why, run.Seed})
			continue
		}
		r.Shared = slices.ContainsFunc(all, func(other runs.Run) bool { return other.ID != run.ID && beside(run, other) })
		loaded = append(loaded, r)
	}
	if len(loaded) == 0 {
		var names []string
		for _, l := range leftOut {
			names = append(names, fmt.Sprintf("%s (%s): %s", l.Arm, l.ID, l.Why))
		}
		return ArmsPage{}, fmt.Errorf("none of the chosen runs can be compared: %s", listOf(names, 5))
	}
	return newArmsPage(loaded, leftOut, sel)
}

// choose finds the selected runs, newest first, and names the baseline where the
// selection leaves it to the first of its runs.
func choose(ctx context.Context, store *runs.Store, all []runs.Run, sel *Selection) ([]runs.Run, error) {
	taken := map[string]bool{}
	for i, ref := range sel.Runs {
		run, err := store.Find(ctx, ref)
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			taken[r.ID] = taken[r.ID] || r.ID == run.ID || r.Name == ref && run.Name == ref
		}
		if i == 0 {
			sel.Baseline = cmp.Or(sel.Baseline, run.Name)
		}
	}
	if sel.Tag != "" || sel.Prefix != "" {
		found := false
		for _, r := range all {
			if (sel.Tag == "" || slices.Contains(r.Tags, sel.Tag)) && strings.HasPrefix(r.Name, sel.Prefix) {
				taken[r.ID], found = true, true
			}
		}
		if !found {
			return nil, sel.nothing(all)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(r runs.Run) bool { return !taken[r.ID] }), nil
}

// nothing says that the tag and the prefix choose no run, and what there would be.
func (sel Selection) nothing(all []runs.Run) error {
	if sel.Prefix != "" {
		what := fmt.Sprintf("no name begins with %q", sel.Prefix)
		if sel.Tag != "" {
			what = fmt.Sprintf("no run with the tag %q has a name that begins with %q", sel.Tag, sel.Prefix)
		}
		return fmt.Errorf("%w: %s", runs.ErrNotFound, what)
	}
	var tags []string
	for _, r := range all {
		tags = append(tags, r.Tags...)
	}
	slices.Sort(tags)
	tags = slices.Compact(tags)
	if len(tags) == 0 {
		return fmt.Errorf("%w: none has the tag %q, nor any other", runs.ErrNotFound, sel.Tag)
	}
	return fmt.Errorf("%w: none has the tag %q; there are %s", runs.ErrNotFound, sel.Tag, listOf(tags, 10))
}

// countable keeps the newest finished run of each arm and seed. all is newest first.
func countable(all []runs.Run) (counted []runs.Run, leftOut []LeftOut) {
	type place struct {
		arm  string
		seed int64
	}
	newest := map[place]string{}
	for _, r := range all {
		at := place{r.Name, r.Seed}
		switch by, taken := newest[at]; {
		case r.State != runs.Finished:
			why := string(r.State)
			if r.Step > 0 {
				why += " at step " + humanize.Comma(r.Step)
			}
			leftOut = append(leftOut, LeftOut{r.Name, r.ID, why, r.Seed})
		case taken:
			leftOut = append(leftOut, LeftOut{r.Name, r.ID, "the newer run " + by + " has the same name and seed", r.Seed})
		default:
			newest[at] = r.ID
			counted = append(counted, r)
		}
	}
	return counted, leftOut
}

// loadArmRun reads what counts of a run; why says what it lacks to be compared.
func loadArmRun(ctx context.Context, store *runs.Store, run runs.Run) (r ArmRun, why string, err error) {
	r = ArmRun{Run: run, Speed: math.NaN()}
	for _, a := range run.Attempts {
		r.Time += attemptTime(a)
	}
	last, err := store.Last(ctx, run.ID)
	if err != nil {
		return r, "", err
	}
	loss, measured := last[comparedLoss]
	switch {
	case !measured:
		return r, "it has no validation loss", nil
	case !finite(loss.Value):
		return r, "its validation loss is " + number(loss.Value), nil
	}
	r.Loss = loss
	throughput, err := store.Metric(ctx, run.ID, "throughput")
	if err != nil {
		return r, "", err
	}
	var speeds []float64
	for _, p := range throughput {
		if finite(p.Value) {
			speeds = append(speeds, p.Value)
		}
	}
	r.Speed = medianOf(speeds)
	scores, err := store.Scores(ctx, run.ID)
	if err != nil {
		return r, "", err
	}
	for _, s := range scores { // by step
		i := slices.IndexFunc(r.Scores, func(known runs.Score) bool { return known.Name == s.Name })
		if i < 0 {
			r.Scores = append(r.Scores, s)
		} else {
			r.Scores[i] = s
		}
	}
	tables, err := store.Tables(ctx, run.ID)
	if err != nil {
		return r, "", err
	}
	r.Stored, r.Active = accounted(tables, run.Provenance)
	r.Grown = grownSince(tables)
	return r, "", nil
}

// comparedLoss is the metric that arms are compared by.
const comparedLoss = "validation/loss"

// accounted is how many parameters a run's newest table of them, or else its provenance,
// counts as stored, and as acting on a token besides embedding rows: the body, the shared
// experts and the routed ones that act.
func accounted(tables []runs.Table, provenance map[string]string) (stored, active int64) {
	whole := func(text string) int64 {
		n, err := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	stored, active = whole(provenance["parameters"]), whole(provenance["body_parameters"])
	for _, t := range tables { // by step
		if t.Name != "parameters" {
			continue
		}
		counts := map[string]int64{}
		for _, row := range t.Rows {
			if len(row) > 1 {
				counts[row[0]] = whole(row[1])
			}
		}
		stored = cmp.Or(counts["stored"], stored)
		if body := counts["body"]; body > 0 {
			active = body + counts["shared experts"] + counts["experts active"]
		}
	}
	return stored, active
}

// grownSince holds for tables of a run that grew after its parameters were last counted.
func grownSince(tables []runs.Table) (grown bool) {
	for _, t := range tables { // by step
		switch t.Name {
		case lineageTable:
			grown = true
		case "parameters":
			grown = false
		}
	}
	return grown
}

// beside holds for runs that had processes on one machine at one time.
func beside(a, b runs.Run) bool {
	for _, x := range a.Attempts {
		for _, y := range b.Attempts {
			xEnd, yEnd := x.Started.Add(attemptTime(x)), y.Started.Add(attemptTime(y))
			if x.Host == y.Host && laterOf(x.Started, y.Started).Before(earlierOf(xEnd, yEnd)) {
				return true
			}
		}
	}
	return false
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlierOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// listOf joins at most n parts.
func listOf(parts []string, n int) string {
	if len(parts) > n {
		parts = append(slices.Clone(parts[:n]), fmt.Sprintf("and %d more", len(parts)-n))
	}
	return strings.Join(parts, ", ")
}
