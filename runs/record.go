package runs

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// kind says what a record writes. Its string stands in spool files, and with
// an s names the table of those that are inserted.
type kind string

const (
	definition kind = "metric" // its unit and direction
	point      kind = "point"
	score      kind = "score"
	generation kind = "generation"
	event      kind = "event"
	artifact   kind = "artifact"
	table      kind = "table"
	progress   kind = "progress" // heartbeat and last step of an attempt
	ending     kind = "ending"   // end of an attempt
)

// columns names a record's values, in order. Those of updates end with what
// picks the row.
func (k kind) columns() []string {
	switch k {
	case definition:
		return []string{"run", "name", "unit", "better"}
	case point:
		return []string{"attempt", "name", "seq", "step", "tokens", "elapsed", "time", "value"}
	case score:
		return []string{"attempt", "seq", "step", "tokens", "time", "name", "value", "low", "high", "chance", "n", "seed", "unit"}
	case generation:
		return []string{"attempt", "seq", "step", "tokens", "time", "prompt_no", "prompt", "text", "reference", "scores"}
	case event:
		return []string{"attempt", "seq", "step", "elapsed", "time", "kind", "text"}
	case artifact:
		return []string{"attempt", "seq", "step", "time", "kind", "path", "sha256", "bytes"}
	case table:
		return []string{"attempt", "seq", "step", "time", "name", "columns", "cells"}
	case progress:
		return []string{"heartbeat", "step", "tokens", "attempt"}
	case ending:
		return []string{"state", "message", "ended", "attempt"}
	}
	return nil
}

// statement is the SQL that writes one record. Each may run twice: a row that
// is already there stays as it is. Progress only moves on, since a spool file may
// come after what was recorded later.
func (k kind) statement() string {
	switch k {
	case progress:
		return `UPDATE attempts SET heartbeat = max(heartbeat, ?1), step = max(step, ?2),
			tokens = CASE WHEN ?2 >= step THEN ?3 ELSE tokens END WHERE id = ?4`
	case ending:
		return `UPDATE attempts SET state = ?1, message = ?2, ended = ?3 WHERE id = ?4`
	}
	onConflict := " ON CONFLICT DO NOTHING"
	if k == definition {
		onConflict = " ON CONFLICT DO UPDATE SET unit = excluded.unit, better = excluded.better"
	}
	columns := k.columns()
	return "INSERT INTO " + string(k) + "s (" + strings.Join(columns, ", ") + ") VALUES (?" +
		strings.Repeat(", ?", len(columns)-1) + ")" + onConflict
}

// record is one pending write. Its values are int64, text or number.
type record struct {
	kind   kind
	values []any
}

// applyAll writes records in order within tx.
func applyAll(ctx context.Context, tx *sql.Tx, records []record) error {
	prepared := map[kind]*sql.Stmt{}
	for _, r := range records {
		stmt := prepared[r.kind]
		if stmt == nil {
			var err error
			if stmt, err = tx.PrepareContext(ctx, r.kind.statement()); err != nil {
				return err
			}
			defer stmt.Close()
			prepared[r.kind] = stmt
		}
		if _, err := stmt.ExecContext(ctx, r.values...); err != nil {
			return fmt.Errorf("write a %s: %w", r.kind, err)
		}
	}
	return nil
}

func nanos(t time.Time) int64 { return t.UnixNano() }

func fromNanos(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// spooledFloat tells a float from an integer in a spool file.
type spooledFloat struct {
	Float *number `json:"float"`
}

// MarshalJSON writes {"write": kind, "row": {column: value, ...}}.
func (r record) MarshalJSON() ([]byte, error) {
	row := map[string]any{}
	for i, column := range r.kind.columns() {
		row[column] = r.values[i]
		if n, ok := r.values[i].(number); ok {
			row[column] = spooledFloat{&n}
		}
	}
	return json.Marshal(map[string]any{"write": r.kind, "row": row})
}

func (r *record) UnmarshalJSON(data []byte) error {
	var in struct {
		Write kind
		Row   map[string]json.RawMessage
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	columns := in.Write.columns()
	if columns == nil || len(in.Row) != len(columns) {
		return fmt.Errorf("a %q of %d values is nothing this version writes", in.Write, len(in.Row))
	}
	*r = record{kind: in.Write}
	for _, column := range columns {
		v, err := unspool(in.Row[column])
		if err != nil {
			return fmt.Errorf("%s of a %s: %w", column, in.Write, err)
		}
		r.values = append(r.values, v)
	}
	return nil
}

func unspool(data json.RawMessage) (any, error) {
	var f spooledFloat
	var t text
	switch {
	case bytes.HasPrefix(data, []byte(`{"float"`)):
		if err := json.Unmarshal(data, &f); err != nil {
			return nil, err
		}
		return *f.Float, nil
	case bytes.HasPrefix(data, []byte(`"`)), bytes.HasPrefix(data, []byte(`{`)):
		err := json.Unmarshal(data, &t)
		return t, err
	}
	var i int64
	err := json.Unmarshal(data, &i)
	return i, err
}
