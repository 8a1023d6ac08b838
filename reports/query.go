package reports

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"harness/runs"
)

// record is all that the store knows of one run.
type record struct {
	run         runs.Run
	series      []runs.Series
	scores      []runs.Score
	generations []runs.Generation
	events      []runs.Event
	artifacts   []runs.Artifact
	tables      []runs.Table
	gone        map[string]bool // paths of artifacts that are no longer on disk
}

// LoadRun reads a run from the store and lays out its page. runID is an id or
// whatever else runs.Store.Find understands.
func LoadRun(ctx context.Context, store *runs.Store, runID string) (RunPage, error) {
	r, err := query(ctx, store, runID)
	if err != nil {
		return RunPage{}, err
	}
	return newRunPage(r), nil
}

func query(ctx context.Context, store *runs.Store, runID string) (r record, err error) {
	if r.run, err = store.Find(ctx, runID); err != nil {
		return r, fmt.Errorf("read run %s: %w", runID, err)
	}
	id := r.run.ID
	if r.series, err = store.Series(ctx, id); err != nil {
		return r, fmt.Errorf("read metrics of run %s: %w", runID, err)
	}
	if r.scores, err = store.Scores(ctx, id); err != nil {
		return r, fmt.Errorf("read scores of run %s: %w", runID, err)
	}
	if r.generations, err = store.Generations(ctx, id); err != nil {
		return r, fmt.Errorf("read generations of run %s: %w", runID, err)
	}
	if r.events, err = store.Events(ctx, id); err != nil {
		return r, fmt.Errorf("read events of run %s: %w", runID, err)
	}
	if r.artifacts, err = store.Artifacts(ctx, id); err != nil {
		return r, fmt.Errorf("read artifacts of run %s: %w", runID, err)
	}
	r.gone = map[string]bool{}
	for _, a := range r.artifacts {
		r.gone[a.Path] = isGone(store.Dir(), a.Path)
	}
	if r.tables, err = store.Tables(ctx, id); err != nil {
		return r, fmt.Errorf("read tables of run %s: %w", runID, err)
	}
	return r, nil
}

// isGone says whether a file of the store is certain not to exist.
func isGone(dir, path string) bool {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
