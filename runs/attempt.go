package runs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"
)

// strangerDead is how old a heartbeat is when an attempt on another host counts
// as dead: its process cannot be looked up from here.
const strangerDead = 2 * time.Minute

// Begin starts an attempt at a run and returns its Recorder, which the caller
// must Finish. It first takes in what an earlier attempt could not write (see
// Recover), and refuses with ErrRunning while the run's process lives.
func (s *Store) Begin(ctx context.Context, runID string, info AttemptInfo) (*Recorder, error) {
	if _, err := s.Recover(ctx, runID); err != nil {
		return nil, err
	}
	if info.Host == "" {
		info.Host = hostname()
	}
	if info.PID == 0 {
		info.PID = os.Getpid()
	}
	if info.BootID == "" {
		info.BootID = bootID()
	}
	r := &Recorder{store: s, run: runID, started: s.now(), wake: make(chan struct{}, 1), stop: make(chan struct{}),
		requests: make(chan request), done: make(chan struct{}), spoolAbove: s.patience.rows}
	err := s.write(ctx, "begin an attempt at run "+runID, func(tx *sql.Tx) error {
		attempts, err := s.attempts(ctx, tx, runID)
		if err != nil {
			return err
		}
		if n := len(attempts[runID]); n > 0 {
			if last := attempts[runID][n-1]; last.State == Running {
				return fmt.Errorf("%w: process %d on %s since %s", ErrRunning, last.PID, last.Host, last.Started.Format(time.RFC3339))
			}
		}
		r.number = len(attempts[runID]) + 1
		r.step = info.FromStep
		if r.tokens, err = tokensAt(ctx, tx, runID, info.FromStep); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, `INSERT INTO attempts (run, number, host, boot_id, pid, process_start, core,
			kernels, command, from_step, state, message, started, heartbeat, step, tokens)
			SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, '', ?12, ?12, ?10, ?13 FROM runs WHERE id = ?1`,
			runID, r.number, info.Host, info.BootID, info.PID, processStart(info.PID), info.Core,
			info.Kernels, info.Command, info.FromStep, Running, nanos(r.started), r.tokens)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(ErrNotFound, err)
		}
		r.attempt, err = result.LastInsertId()
		return err
	})
	if err != nil {
		return nil, err
	}
	r.lastBeat = r.started
	s.mu.Lock()
	s.recorders[r] = struct{}{}
	s.mu.Unlock()
	r.background.Go(r.commitRegularly)
	return r, nil
}

// tokensAt is how many tokens the run in view had trained on at a step.
func tokensAt(ctx context.Context, tx *sql.Tx, runID string, step int64) (int64, error) {
	var tokens int64
	err := tx.QueryRowContext(ctx, `SELECT coalesce(max(p.tokens), 0) FROM points AS p
		JOIN attempts_in_view AS a ON a.id = p.attempt
		WHERE a.run = ? AND p.step <= ? AND (a.last_step IS NULL OR p.step <= a.last_step)`, runID, step).Scan(&tokens)
	return tokens, err
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// attempts returns the attempts of one run, or of all if runID is "", in order.
func (s *Store) attempts(ctx context.Context, q querier, runID string) (map[string][]Attempt, error) {
	rows, err := q.QueryContext(ctx, `SELECT run, number, host, boot_id, pid, process_start, core, kernels, command,
		from_step, state, message, started, heartbeat, coalesce(ended, 0), step, tokens
		FROM attempts WHERE run = ?1 OR ?1 = '' ORDER BY run, number`, runID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string][]Attempt{}
	for rows.Next() {
		var a Attempt
		var run, start string
		var started, heartbeat, ended int64
		if err := rows.Scan(&run, &a.Number, &a.Host, &a.BootID, &a.PID, &start, &a.Core, &a.Kernels, &a.Command,
			&a.FromStep, &a.State, &a.Message, &started, &heartbeat, &ended, &a.Step, &a.Tokens); err != nil {
			return nil, err
		}
		a.Started, a.Heartbeat = fromNanos(started), fromNanos(heartbeat)
		if ended != 0 {
			a.Ended = fromNanos(ended)
		}
		if a.State == Running && !s.isAlive(a, start) {
			a.State = Crashed
		}
		out[run] = append(out[run], a)
	}
	return out, rows.Err()
}

// isAlive says whether the process of an attempt that did not end still runs.
func (s *Store) isAlive(a Attempt, start string) bool {
	if a.Host != hostname() {
		return s.now().Sub(a.Heartbeat) < strangerDead
	}
	return a.BootID == bootID() && start != "" && processStart(a.PID) == start
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return unknown
	}
	return name
}
