package runs

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	"github.com/oklog/ulid/v2"
)

// Create adds a run to the store and makes its directory.
func (s *Store) Create(ctx context.Context, n NewRun) (Run, error) {
	created := s.now()
	id, err := ulid.New(ulid.Timestamp(created), ulid.DefaultEntropy())
	if err != nil {
		return Run{}, fmt.Errorf("create run %q: make an id: %w", n.Name, err)
	}
	run := id.String()
	err = s.write(ctx, fmt.Sprintf("create run %q", n.Name), func(tx *sql.Tx) error {
		notes := sql.NullString{String: n.Notes, Valid: n.Notes != ""}
		_, err := tx.ExecContext(ctx, `INSERT INTO runs (id, name, notes, spec, spec_hash, seed, created) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			run, n.Name, notes, n.Spec, n.SpecHash, n.Seed, nanos(created))
		if err != nil {
			return err
		}
		for _, tag := range n.Tags {
			if _, err := tx.ExecContext(ctx, `INSERT INTO tags (run, tag) VALUES (?, ?) ON CONFLICT DO NOTHING`, run, tag); err != nil {
				return err
			}
		}
		for key, value := range n.Provenance {
			if _, err := tx.ExecContext(ctx, `INSERT INTO provenance (run, key, value) VALUES (?, ?, ?)`, run, key, value); err != nil {
				return err
			}
		}
		return os.MkdirAll(s.RunDir(run), 0o755)
	})
	if err != nil {
		return Run{}, err
	}
	return s.byID(ctx, run)
}

// Runs returns all runs, newest first.
func (s *Store) Runs(ctx context.Context) ([]Run, error) { return s.load(ctx, "") }

func (s *Store) byID(ctx context.Context, id string) (Run, error) {
	found, err := s.load(ctx, id)
	if err != nil {
		return Run{}, err
	}
	if len(found) == 0 {
		return Run{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	return found[0], nil
}

// load reads one run, or all if id is "", newest first.
func (s *Store) load(ctx context.Context, id string) ([]Run, error) {
	const doing = "read the runs"
	found, err := collect(ctx, s, doing, func(rows *sql.Rows, r *Run) error {
		var created int64
		err := rows.Scan(&r.ID, &r.Name, &r.Notes, &r.Spec, &r.SpecHash, &r.Seed, &created)
		r.Created = fromNanos(created)
		r.State, r.Provenance = Pending, map[string]string{}
		return err
	}, `SELECT id, name, coalesce(notes, ''), spec, spec_hash, seed, created FROM runs WHERE id = ?1 OR ?1 = '' ORDER BY id DESC`, id)
	if err != nil {
		return nil, err
	}
	attempts, err := s.attempts(ctx, s.db, id)
	if err != nil {
		return nil, s.explain(doing, err)
	}
	type pair struct{ run, key, value string }
	scanPair := func(rows *sql.Rows, p *pair) error { return rows.Scan(&p.run, &p.key, &p.value) }
	tags, err := collect(ctx, s, doing, scanPair, `SELECT run, tag, '' FROM tags WHERE run = ?1 OR ?1 = '' ORDER BY run, tag`, id)
	if err != nil {
		return nil, err
	}
	provenance, err := collect(ctx, s, doing, scanPair, `SELECT run, key, value FROM provenance WHERE run = ?1 OR ?1 = ''`, id)
	if err != nil {
		return nil, err
	}
	place := make(map[string]*Run, len(found))
	for i := range found {
		r := &found[i]
		place[r.ID] = r
		if r.Attempts = attempts[r.ID]; len(r.Attempts) > 0 {
			last := r.Attempts[len(r.Attempts)-1]
			r.State, r.Step, r.Tokens = last.State, last.Step, last.Tokens
		}
	}
	// A run created between two of these queries is not in place: it is left out.
	for _, t := range tags {
		if r := place[t.run]; r != nil {
			r.Tags = append(r.Tags, t.key)
		}
	}
	for _, p := range provenance {
		if r := place[p.run]; r != nil {
			r.Provenance[p.key] = p.value
		}
	}
	return found, nil
}
