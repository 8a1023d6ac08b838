package runs

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sourcegraph/conc"
)

const (
	// commitEvery leaves a slow commit room to stay within half a second.
	commitEvery = 400 * time.Millisecond
	// commitRows commits earlier, so that a burst does not pile up.
	commitRows     = 5000
	heartbeatEvery = 3 * time.Second
)

// Recorder writes what one attempt at a run has to say. Its methods only
// buffer: they never wait for the disk and never fail. A goroutine commits the
// buffer twice a second; what it cannot write it keeps, and tries again.
type Recorder struct {
	store   *Store
	run     string
	attempt int64 // row id
	number  int
	started time.Time // with its monotonic reading

	background conc.WaitGroup
	wake       chan struct{}
	stop       chan struct{}

	committing sync.Mutex // held by a commit from end to end; taken before mu
	lastBeat   time.Time

	mu           sync.Mutex
	pending      []record
	seq          int64
	step, tokens int64 // furthest recorded
	finished     bool
	err          error // why pending could not be written; nil once it is
	onError      func(error)
}

// OnError has f called, from another goroutine, when writing begins to fail:
// once, until it has succeeded again. f may record, but not Flush or Finish.
func (r *Recorder) OnError(f func(error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onError = f
}

// Err says why what was recorded could not be written so far; nil if it could.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Define gives a metric its unit and says which direction is better: "lower",
// "higher" or "", which any other value counts as. The last definition holds.
func (r *Recorder) Define(name, unit, better string) {
	if better != "lower" && better != "higher" {
		better = ""
	}
	r.add(definition, func(int64, time.Time) []any { return []any{text(r.run), text(name), text(unit), text(better)} })
}

// Metric records a value at a step, after tokens tokens of training.
func (r *Recorder) Metric(name string, step, tokens int64, value float64) {
	r.add(point, func(seq int64, now time.Time) []any {
		if step >= r.step {
			r.step, r.tokens = step, tokens
		}
		return []any{r.attempt, text(name), seq, step, tokens, int64(now.Sub(r.started)), nanos(now), number(value)}
	})
}

// Event records something that happened.
func (r *Recorder) Event(step int64, kind, what string) {
	r.add(event, func(seq int64, now time.Time) []any {
		return []any{r.attempt, seq, step, int64(now.Sub(r.started)), nanos(now), text(kind), text(what)}
	})
}

// Score records a result.
func (r *Recorder) Score(s Score) {
	r.add(score, func(seq int64, now time.Time) []any {
		return []any{r.attempt, seq, s.Step, s.Tokens, nanos(now), text(s.Name), number(s.Value), number(s.Low),
			number(s.High), number(s.Chance), int64(s.N), s.Seed, text(s.Unit)}
	})
}

// Generation records a text that the model wrote.
func (r *Recorder) Generation(g Generation) {
	scores := make(map[string]number, len(g.Scores))
	for name, v := range g.Scores {
		scores[name] = number(v)
	}
	encoded := mustJSON(scores)
	r.add(generation, func(seq int64, now time.Time) []any {
		return []any{r.attempt, seq, g.Step, g.Tokens, nanos(now), int64(g.Index), text(g.Prompt), text(g.Text),
			text(g.Reference), encoded}
	})
}

// Artifact records a file.
func (r *Recorder) Artifact(a Artifact) {
	r.add(artifact, func(seq int64, now time.Time) []any {
		return []any{r.attempt, seq, a.Step, nanos(now), text(a.Kind), text(a.Path), text(a.SHA256), a.Bytes}
	})
}

// Table records a table; its cells are copied.
func (r *Recorder) Table(t Table) {
	cells := make([][]text, len(t.Rows))
	for i, row := range t.Rows {
		cells[i] = asText(row)
	}
	columns, rows := mustJSON(asText(t.Columns)), mustJSON(cells)
	r.add(table, func(seq int64, now time.Time) []any {
		return []any{r.attempt, seq, t.Step, nanos(now), text(t.Name), columns, rows}
	})
}

// mustJSON encodes what always can be: text and numbers.
func mustJSON(v any) text {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("runs: encode %T: %v", v, err))
	}
	return text(data)
}

// add buffers a record, whose values are asked for under r.mu. After Finish
// there is nobody left to write it: it is dropped.
func (r *Recorder) add(k kind, values func(seq int64, now time.Time) []any) {
	now := r.store.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished {
		return
	}
	r.seq++
	r.pending = append(r.pending, record{k, values(r.seq, now)})
	if len(r.pending)%commitRows == 0 {
		select {
		case r.wake <- struct{}{}:
		default: // it is awake
		}
	}
}

func (r *Recorder) commitRegularly() {
	ticker := time.NewTicker(commitEvery)
	defer ticker.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-r.wake:
		case <-ticker.C:
		}
		r.commit(context.Background(), nil)
	}
}

// Flush commits what was recorded so far, and does wait for the disk. A
// checkpoint written after it never is ahead of the metrics, so that a resume
// from it leaves no gap in them.
func (r *Recorder) Flush(ctx context.Context) error { return r.commit(ctx, nil) }

// commit writes what is pending, the heartbeat if it is due, and last, in one
// transaction.
func (r *Recorder) commit(ctx context.Context, last []record) error {
	r.committing.Lock()
	defer r.committing.Unlock()
	now := r.store.now()
	batch, beat := r.unwritten(now)
	if len(batch)+len(last) == 0 && now.Sub(r.lastBeat) < heartbeatEvery {
		return nil
	}
	err := r.store.write(ctx, fmt.Sprintf("record run %s", r.run), func(tx *sql.Tx) error {
		if err := applyAll(ctx, tx, batch); err != nil {
			return err
		}
		return applyAll(ctx, tx, append([]record{beat}, last...))
	})
	r.mu.Lock()
	began := err != nil && r.err == nil
	r.err = err
	onError := r.onError
	if err == nil {
		r.lastBeat = now
		r.pending = append([]record(nil), r.pending[len(batch):]...)
	}
	r.mu.Unlock()
	if began && onError != nil {
		onError(err)
	}
	return err
}

// unwritten returns what is pending, and the heartbeat that goes with it.
func (r *Recorder) unwritten(now time.Time) (batch []record, beat record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch = r.pending[:len(r.pending):len(r.pending)] // what is added meanwhile lies behind it
	return batch, record{progress, []any{nanos(now), r.step, r.tokens, r.attempt}}
}

// Finish writes what is left, ends the attempt in a state, and says whether
// that could be done. It goes through even if ctx is cancelled, since a
// cancelled run has to be told as interrupted. Where the database cannot be
// written, what is left goes to a file in the run's directory, which the error
// names and Recover takes in. Only the first call does anything.
func (r *Recorder) Finish(ctx context.Context, state State, message string) error {
	switch state {
	case Finished, Interrupted, Diverged, Failed:
	default:
		return fmt.Errorf("finish run %s: %q is not a state that an attempt ends in", r.run, state)
	}
	r.mu.Lock()
	if r.finished {
		r.mu.Unlock()
		return fmt.Errorf("finish run %s: %w", r.run, ErrFinished)
	}
	r.finished = true
	r.mu.Unlock()

	close(r.stop)
	var panicked error
	if recovered := r.background.WaitAndRecover(); recovered != nil {
		panicked = fmt.Errorf("record run %s: %w", r.run, recovered.AsError())
	}
	r.store.mu.Lock()
	delete(r.store.recorders, r)
	r.store.mu.Unlock()

	// Without ctx the transaction is not interrupted; the busy timeout bounds it.
	ctx = context.WithoutCancel(ctx)
	now := r.store.now()
	end := record{ending, []any{text(state), text(message), nanos(now), r.attempt}}
	err := r.commit(ctx, []record{end})
	if err == nil {
		return panicked
	}
	batch, beat := r.unwritten(now)
	batch = append(batch, beat, end)
	path, spoolErr := r.store.spool(r.run, r.number, batch)
	if spoolErr != nil {
		return errors.Join(err, spoolErr, panicked)
	}
	return errors.Join(fmt.Errorf("%w; %d records are kept in %s", err, len(batch), path), panicked)
}
