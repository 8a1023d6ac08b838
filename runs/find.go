package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Find returns the run that ref means: "latest", a full id, an exact name (the
// newest run of that name), or a prefix that only one id has. Ids match in any
// case. ErrNotFound comes with near candidates, ErrAmbiguous with all.
func (s *Store) Find(ctx context.Context, ref string) (Run, error) {
	all, err := s.Runs(ctx)
	if err != nil {
		return Run{}, err
	}
	switch {
	case len(all) == 0:
		return Run{}, fmt.Errorf("%w: the store %s has no runs", ErrNotFound, s.dir)
	case ref == "":
		return Run{}, fmt.Errorf("%w: no id or name was given", ErrNotFound)
	}
	if ref == "latest" {
		return all[0], nil
	}
	var named, prefixed []Run
	for _, r := range all {
		switch {
		case strings.EqualFold(r.ID, ref):
			return r, nil
		case r.Name == ref:
			named = append(named, r)
		case strings.HasPrefix(r.ID, strings.ToUpper(ref)):
			prefixed = append(prefixed, r)
		}
	}
	switch {
	case len(named) > 0:
		return named[0], nil
	case len(prefixed) == 1:
		return prefixed[0], nil
	case len(prefixed) > 1:
		return Run{}, fmt.Errorf("%w %q: could be %s", ErrAmbiguous, ref, listed(prefixed))
	}
	if near := nearest(all, ref); len(near) > 0 {
		return Run{}, fmt.Errorf("%w: %q; near: %s", ErrNotFound, ref, listed(near))
	}
	return Run{}, fmt.Errorf("%w: %q", ErrNotFound, ref)
}

// nearest returns runs whose names or ids differ from ref by few letters or hold it, best first.
func nearest(all []Run, ref string) []Run {
	limit := max(1, len([]rune(ref))/3)
	distance := func(r Run) int {
		d := min(levenshtein.ComputeDistance(strings.ToLower(ref), strings.ToLower(r.Name)),
			levenshtein.ComputeDistance(strings.ToUpper(ref), r.ID))
		if strings.Contains(strings.ToLower(r.Name), strings.ToLower(ref)) {
			d = min(d, limit)
		}
		return d
	}
	near := slices.DeleteFunc(slices.Clone(all), func(r Run) bool { return distance(r) > limit })
	slices.SortStableFunc(near, func(a, b Run) int { return distance(a) - distance(b) })
	return near
}

// listed names at most five runs.
func listed(some []Run) string {
	var parts []string
	for i, r := range some {
		if i == 5 {
			parts = append(parts, fmt.Sprintf("and %d more", len(some)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", r.ID, r.Name))
	}
	return strings.Join(parts, ", ")
}
