package runs

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
)

// inView joins a table of what attempts wrote, aliased r, with the attempts of
// a run, and leaves out what lies beyond where a later attempt began.
const inView = ` AS r JOIN attempts_in_view AS a ON a.id = r.attempt
	WHERE a.run = ? AND (a.last_step IS NULL OR r.step <= a.last_step) `

// written says what of a run an entry tells, and which attempt wrote it.
type written struct {
	step    int64
	name    string
	index   int
	attempt int
}

// newest leaves out the entries that a later attempt wrote once more: a resume
// does again what was due at the step it starts from, but not all that had been
// written there. What one attempt writes repeatedly stays.
func newest[T any](entries []T, of func(*T) written) []T {
	last := map[written]int{}
	identity := func(e *T) (written, int) {
		w := of(e)
		attempt := w.attempt
		w.attempt = 0
		return w, attempt
	}
	for i := range entries {
		w, attempt := identity(&entries[i])
		last[w] = max(last[w], attempt)
	}
	return slices.DeleteFunc(entries, func(e T) bool {
		w, attempt := identity(&e)
		return attempt < last[w]
	})
}

// collect runs a query and scans each row into a T.
func collect[T any](ctx context.Context, s *Store, doing string, scan func(rows *sql.Rows, into *T) error, query string, args ...any) ([]T, error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, s.explain(doing, err)
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		var v T
		if err := scan(rows, &v); err != nil {
			return nil, s.explain(doing, err)
		}
		out = append(out, v)
	}
	return out, s.explain(doing, rows.Err())
}

// Series returns the metrics of a run that have points in view, by name.
func (s *Store) Series(ctx context.Context, runID string) ([]Series, error) {
	type named struct {
		name, unit, better string
		point              Point
	}
	points, err := collect(ctx, s, "read the metrics of run "+runID, func(rows *sql.Rows, p *named) error {
		var at int64
		err := rows.Scan(&p.name, &p.unit, &p.better, &p.point.Step, &p.point.Tokens, &p.point.Elapsed, &at,
			(*number)(&p.point.Value), &p.point.Attempt)
		p.point.Time = fromNanos(at)
		return err
	}, `SELECT r.name, coalesce(m.unit, ''), coalesce(m.better, ''), r.step, r.tokens, r.elapsed, r.time, r.value, a.number
		FROM points AS r JOIN attempts_in_view AS a ON a.id = r.attempt
		LEFT JOIN metrics AS m ON m.run = a.run AND m.name = r.name
		WHERE a.run = ? AND (a.last_step IS NULL OR r.step <= a.last_step)
		ORDER BY r.name, r.step, a.number, r.seq`, runID)
	if err != nil {
		return nil, err
	}
	var out []Series
	for _, p := range points {
		if len(out) == 0 || out[len(out)-1].Name != p.name {
			out = append(out, Series{Name: p.name, Unit: p.unit, Better: p.better})
		}
		last := &out[len(out)-1]
		// Points are in order of steps, then of attempts: what newest does, without a map.
		n := len(last.Points)
		for n > 0 && last.Points[n-1].Step == p.point.Step && last.Points[n-1].Attempt < p.point.Attempt {
			n--
		}
		last.Points = append(last.Points[:n], p.point)
	}
	return out, nil
}

// Last returns the last point in view of every metric of a run, by name: the one
// that ends its Series. It reads no other points.
func (s *Store) Last(ctx context.Context, runID string) (map[string]Point, error) {
	type named struct {
		name  string
		point Point
	}
	// SELECT DISTINCT would walk over all points; min(name) above the last one is one look-up.
	points, err := collect(ctx, s, "read the last metrics of run "+runID, func(rows *sql.Rows, p *named) error {
		var at int64
		err := rows.Scan(&p.name, &p.point.Step, &p.point.Tokens, &p.point.Elapsed, &at, (*number)(&p.point.Value), &p.point.Attempt)
		p.point.Time = fromNanos(at)
		return err
	}, `WITH RECURSIVE
		shown AS MATERIALIZED (SELECT id, number, coalesce(last_step, 9223372036854775807) AS last_step FROM attempts_in_view WHERE run = ?),
		named (attempt, number, last_step, name) AS (
			SELECT id, number, last_step, (SELECT min(name) FROM points WHERE attempt = id) FROM shown
			UNION ALL
			SELECT attempt, number, last_step, (SELECT min(p.name) FROM points AS p WHERE p.attempt = n.attempt AND p.name > n.name)
			FROM named AS n WHERE name IS NOT NULL)
		SELECT r.name, r.step, r.tokens, r.elapsed, r.time, r.value, n.number
		FROM named AS n CROSS JOIN points AS r ON r.attempt = n.attempt AND r.name = n.name
			AND (r.step, r.seq) = (SELECT step, seq FROM points AS p
				WHERE p.attempt = n.attempt AND p.name = n.name AND p.step <= n.last_step ORDER BY step DESC, seq DESC LIMIT 1)`, runID)
	if err != nil {
		return nil, err
	}
	last := make(map[string]Point, len(points))
	for _, p := range points {
		before, ok := last[p.name]
		if !ok || before.Step < p.point.Step || before.Step == p.point.Step && before.Attempt < p.point.Attempt {
			last[p.name] = p.point
		}
	}
	return last, nil
}

// Scores returns the scores of a run in view, by step, then as recorded.
func (s *Store) Scores(ctx context.Context, runID string) ([]Score, error) {
	scores, err := collect(ctx, s, "read the scores of run "+runID, func(rows *sql.Rows, v *Score) error {
		var at int64
		err := rows.Scan(&v.Step, &v.Tokens, &at, &v.Name, (*number)(&v.Value), (*number)(&v.Low), (*number)(&v.High),
			(*number)(&v.Chance), &v.N, &v.Seed, &v.Unit, &v.Attempt)
		v.Time = fromNanos(at)
		return err
	}, `SELECT r.step, r.tokens, r.time, r.name, r.value, r.low, r.high, r.chance, r.n, r.seed, r.unit, a.number
		FROM scores`+inView+`ORDER BY r.step, a.number, r.seq`, runID)
	if err != nil {
		return nil, err
	}
	return newest(scores, func(v *Score) written { return written{v.Step, v.Name, 0, v.Attempt} }), nil
}

// Generations returns the generations of a run in view, by step, then by index.
func (s *Store) Generations(ctx context.Context, runID string) ([]Generation, error) {
	generations, err := collect(ctx, s, "read the generations of run "+runID, func(rows *sql.Rows, g *Generation) error {
		var at int64
		var encoded []byte
		err := rows.Scan(&g.Step, &g.Tokens, &at, &g.Index, &g.Prompt, &g.Text, &g.Reference, &encoded, &g.Attempt)
		if err != nil {
			return err
		}
		g.Time = fromNanos(at)
		var scores map[string]number
		if err := json.Unmarshal(encoded, &scores); err != nil {
			return err
		}
		g.Scores = make(map[string]float64, len(scores))
		for name, v := range scores {
			g.Scores[name] = float64(v)
		}
		return nil
	}, `SELECT r.step, r.tokens, r.time, r.prompt_no, r.prompt, r.text, r.reference, r.scores, a.number
		FROM generations`+inView+`ORDER BY r.step, a.number, r.prompt_no, r.seq`, runID)
	if err != nil {
		return nil, err
	}
	return newest(generations, func(g *Generation) written { return written{g.Step, "", g.Index, g.Attempt} }), nil
}

// Events returns all events of a run, those of replaced steps too, in the
// order in which they happened.
func (s *Store) Events(ctx context.Context, runID string) ([]Event, error) {
	return collect(ctx, s, "read the events of run "+runID, func(rows *sql.Rows, e *Event) error {
		var at int64
		err := rows.Scan(&e.Step, &e.Kind, &e.Text, &e.Elapsed, &at, &e.Attempt)
		e.Time = fromNanos(at)
		return err
	}, `SELECT r.step, r.kind, r.text, r.elapsed, r.time, a.number FROM events AS r JOIN attempts AS a ON a.id = r.attempt
		WHERE a.run = ? ORDER BY a.number, r.seq`, runID)
}

// Artifacts returns the files of a run in view, by step, then as recorded.
func (s *Store) Artifacts(ctx context.Context, runID string) ([]Artifact, error) {
	artifacts, err := collect(ctx, s, "read the artifacts of run "+runID, func(rows *sql.Rows, f *Artifact) error {
		var at int64
		err := rows.Scan(&f.Step, &f.Kind, &f.Path, &f.SHA256, &f.Bytes, &at, &f.Attempt)
		f.Time = fromNanos(at)
		return err
	}, `SELECT r.step, r.kind, r.path, r.sha256, r.bytes, r.time, a.number
		FROM artifacts`+inView+`ORDER BY r.step, a.number, r.seq`, runID)
	if err != nil {
		return nil, err
	}
	return newest(artifacts, func(f *Artifact) written { return written{f.Step, f.Kind + "\x00" + f.Path, 0, f.Attempt} }), nil
}

// Tables returns the tables of a run in view, by step, then as recorded.
func (s *Store) Tables(ctx context.Context, runID string) ([]Table, error) {
	tables, err := collect(ctx, s, "read the tables of run "+runID, func(rows *sql.Rows, t *Table) error {
		var at int64
		var columns, cells []byte
		if err := rows.Scan(&t.Step, &t.Name, &columns, &cells, &at, &t.Attempt); err != nil {
			return err
		}
		t.Time = fromNanos(at)
		var head []text
		var body [][]text
		if err := json.Unmarshal(columns, &head); err != nil {
			return err
		}
		if err := json.Unmarshal(cells, &body); err != nil {
			return err
		}
		t.Columns = asStrings(head)
		for _, row := range body {
			t.Rows = append(t.Rows, asStrings(row))
		}
		return nil
	}, `SELECT r.step, r.name, r.columns, r.cells, r.time, a.number
		FROM tables`+inView+`ORDER BY r.step, a.number, r.seq`, runID)
	if err != nil {
		return nil, err
	}
	return newest(tables, func(t *Table) written { return written{t.Step, t.Name, 0, t.Attempt} }), nil
}
