package runs

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/sourcegraph/conc"
)

// Recorder writes what one attempt at a run has to say. Its methods only
// buffer: they never wait for the disk and never fail. A goroutine commits the
// buffer twice a second; what it cannot write it keeps, in memory and if it is
// too much in the run's directory, and tries again.
type Recorder struct {
	store   *Store
	run     string
	attempt int64 // row id
	number  int
	started time.Time // with its monotonic reading

	background  conc.WaitGroup // the one goroutine that commits
	wake        chan struct{}
	requests    chan request
	stop        chan struct{} // closed to end the goroutine
	done        chan struct{} // closed when it has ended
	lastBeat    time.Time     // the goroutine's own
	spoolsTried time.Time     // likewise; zero where that did not fail

	mu           sync.Mutex
	pending      []record
	removed      int64    // records that were pending and are written or in spools
	spools       []string // files of what was too much for memory, oldest first
	spoolAbove   int      // that many pending records are too many
	spooled      int      // files there ever were
	seq          int64
	step, tokens int64 // furthest recorded
	finished     bool
	err          error     // why pending could not be written; nil once it is
	failing      time.Time // since when, or since what was pending then went to a file
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

// Reached says how far training is, where no metric of that step says it.
func (r *Recorder) Reached(step, tokens int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if step >= r.step {
		r.step, r.tokens = step, tokens
	}
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
