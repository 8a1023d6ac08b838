package runs

import (
	"context"
	"database/sql"
)

// Metric returns the points in view of one metric of a run: its Series without the
// others. A metric that the run has not is no points.
func (s *Store) Metric(ctx context.Context, runID, name string) ([]Point, error) {
	points, err := collect(ctx, s, "read metric "+name+" of run "+runID, func(rows *sql.Rows, p *Point) error {
		var at int64
		err := rows.Scan(&p.Step, &p.Tokens, &p.Elapsed, &at, (*number)(&p.Value), &p.Attempt)
		p.Time = fromNanos(at)
		return err
	}, `SELECT r.step, r.tokens, r.elapsed, r.time, r.value, a.number
		FROM points`+inView+`AND r.name = ? ORDER BY r.step, a.number, r.seq`, runID, name)
	if err != nil {
		return nil, err
	}
	return newest(points, func(p *Point) written { return written{p.Step, "", 0, p.Attempt} }), nil
}
