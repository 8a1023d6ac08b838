package runs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	// commitEvery leaves a slow commit room to stay within half a second.
	commitEvery = 400 * time.Millisecond
	// commitRows commits earlier, so that a burst does not pile up.
	commitRows     = 5000
	heartbeatEvery = 3 * time.Second
	// spoolsEvery is how often files are tried again: reading them takes time
	// from the trainer's core, and is in vain while the disk is full.
	spoolsEvery = 15 * time.Second
)

// request asks the committing goroutine for a commit now.
type request struct {
	ctx    context.Context // bounds the commit, not the wait for it
	last   []record        // written behind everything that is pending
	answer chan error      // has room for the answer: whoever asked may have gone
}

// commitRegularly is the goroutine that writes to the database. Only it waits
// for the database's lock.
func (r *Recorder) commitRegularly() {
	defer close(r.done)
	ticker := time.NewTicker(commitEvery)
	defer ticker.Stop()
	for {
		select {
		case <-r.stop:
			return
		case asked := <-r.requests:
			asked.answer <- r.commit(asked.ctx, asked.last)
			continue
		case <-r.wake:
		case <-ticker.C:
		}
		if time.Since(r.spoolsTried) >= spoolsEvery {
			r.commit(context.Background(), nil)
		}
	}
}

// ask has last written behind all that is pending, in a commit bounded by
// commitCtx, and waits for it until ctx ends.
func (r *Recorder) ask(ctx, commitCtx context.Context, last []record) error {
	asked := request{commitCtx, last, make(chan error, 1)}
	select {
	case r.requests <- asked:
	case <-r.done:
		return fmt.Errorf("record run %s: %w", r.run, ErrFinished)
	case <-ctx.Done():
		return r.stillWaiting(ctx.Err())
	}
	select {
	case err := <-asked.answer:
		return err
	case <-r.done: // it panicked
		return fmt.Errorf("record run %s: %w", r.run, ErrFinished)
	case <-ctx.Done():
		return r.stillWaiting(ctx.Err())
	}
}

func (r *Recorder) stillWaiting(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		err = fmt.Errorf("%w (before that: %w)", err, r.err)
	}
	return fmt.Errorf("record run %s: %d records wait for %s: %w", r.run, len(r.pending), r.store.path(), err)
}

// Flush commits what was recorded so far, and does wait for the disk, but not
// longer than until ctx ends: then the records stay pending and are committed
// when that can be done. A checkpoint written after a Flush that succeeded never
// is ahead of the metrics, so that a resume from it leaves no gap in them.
func (r *Recorder) Flush(ctx context.Context) error {
	return r.ask(ctx, context.Background(), nil)
}

// commit writes what was too much for memory, what is pending, the heartbeat if
// it is due, and last, in one transaction.
func (r *Recorder) commit(ctx context.Context, last []record) error {
	now := r.store.now()
	batch, upTo, beat := r.unwritten(now)
	r.mu.Lock()
	spools := r.spools
	r.mu.Unlock()
	if len(batch)+len(last)+len(spools) == 0 && now.Sub(r.lastBeat) < heartbeatEvery {
		return nil
	}
	err := r.store.write(ctx, fmt.Sprintf("record run %s", r.run), func(tx *sql.Tx) error {
		for _, path := range spools {
			if _, err := applySpool(ctx, tx, path); err != nil {
				return err
			}
		}
		if err := applyAll(ctx, tx, batch); err != nil {
			return err
		}
		return applyAll(ctx, tx, append([]record{beat}, last...))
	})
	r.mu.Lock()
	began := err != nil && r.err == nil
	r.err = err
	onError := r.onError
	if began {
		r.failing = now
	}
	if err == nil {
		r.lastBeat = now
		r.drop(upTo)
		r.spools = nil
	}
	r.mu.Unlock()
	r.spoolsTried = time.Time{}
	if err == nil {
		for _, path := range spools {
			os.Remove(path) // one that stays is taken in again, to no effect
		}
		return nil
	}
	if len(spools) > 0 {
		r.spoolsTried = time.Now()
	}
	if last == nil { // Finish keeps what it asked to write
		r.relieve(now)
	}
	if began && onError != nil {
		onError(err)
	}
	return err
}

// unwritten returns what is pending, how many records there were up to its end,
// and the heartbeat that goes with it.
func (r *Recorder) unwritten(now time.Time) (batch []record, upTo int64, beat record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch = r.pending[:len(r.pending):len(r.pending)] // what is added meanwhile lies behind it
	return batch, r.removed + int64(len(batch)), record{progress, []any{nanos(now), r.step, r.tokens, r.attempt}}
}

// drop forgets the first upTo records that were ever pending. r.mu is held.
func (r *Recorder) drop(upTo int64) {
	if n := upTo - r.removed; n > 0 {
		r.pending = append([]record(nil), r.pending[n:]...)
		r.removed = upTo
	}
}

// relieve moves what is pending to a file of the run's directory where that is
// too much for memory, or has waited for too long. After a failure it waits
// until there is twice as much: encoding it takes time from the trainer's core.
func (r *Recorder) relieve(now time.Time) {
	batch, upTo, beat := r.unwritten(now)
	r.mu.Lock()
	late := len(batch) > 0 && now.Sub(r.failing) >= r.store.patience.unwritable
	due := len(batch) > r.spoolAbove || late
	if due {
		r.spooled++
	}
	number := r.spooled // never one of before, which another process may be taking in
	r.mu.Unlock()
	if !due {
		return
	}
	path, err := r.store.spool(r.run, fmt.Sprintf("%d-%04d", r.number, number), append(batch, beat))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing = now
	if err != nil {
		r.spoolAbove = 2 * len(batch)
		return
	}
	r.spoolAbove = r.store.patience.rows
	r.spools = append(r.spools, path)
	r.drop(upTo)
}

// Finish writes what is left, ends the attempt in a state, and says whether
// that could be done. It goes through even if ctx is cancelled, since a
// cancelled run has to be told as interrupted, and takes at most a quarter of a
// minute. Where the database cannot be written, what is left goes to a file in
// the run's directory, which the error names and Recover takes in. Only the
// first call does anything.
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

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.store.patience.finish)
	defer cancel()
	// The commit ends a little earlier, so that its own error is the one told.
	commitCtx, cancelCommit := context.WithTimeout(ctx, r.store.patience.finish*4/5)
	defer cancelCommit()
	end := record{ending, []any{text(state), text(message), nanos(r.store.now()), r.attempt}}
	err := r.ask(ctx, commitCtx, []record{end})

	close(r.stop)
	r.store.mu.Lock()
	delete(r.store.recorders, r)
	r.store.mu.Unlock()
	if err != nil {
		err = r.keep(end, err)
	}
	select {
	case <-r.done:
	case <-ctx.Done(): // it waits for the disk, and ends when it gets it
		return err
	}
	if recovered := r.background.WaitAndRecover(); recovered != nil {
		err = errors.Join(err, fmt.Errorf("record run %s: %w", r.run, recovered.AsError()))
	}
	return err
}

// keep moves what Finish could not write to a file, and adds to the error where
// everything is.
func (r *Recorder) keep(end record, err error) error {
	batch, _, beat := r.unwritten(r.store.now())
	batch = append(batch, beat, end)
	path, spoolErr := r.store.spool(r.run, fmt.Sprint(r.number), batch)
	if spoolErr != nil {
		return fmt.Errorf("%w; %d records are lost: %w", err, len(batch), spoolErr)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if earlier := len(r.spools); earlier > 0 {
		return fmt.Errorf("%w; %d records are kept in %s, earlier ones in %d files beside it", err, len(batch), path, earlier)
	}
	return fmt.Errorf("%w; %d records are kept in %s", err, len(batch), path)
}
