package corpus

import (
	"fmt"
	"math"
)

// Sampler draws training batches. A batch depends on the corpus, the seed, the
// shape, the number of steps and its own step alone: a resumed run seeks to its
// step and goes on bit for bit.
//
// Every window holds one entry of the mixture: a source of text, or the pool of
// all tasks. Within a phase, windows go to the entry that lags furthest behind its
// weight, so that shares hold over any stretch and not only on average. Each epoch
// of a source reads its windows once, in an order drawn from (seed, source, epoch);
// see reader.
//
// A Sampler is not safe for concurrent use.
type Sampler struct {
	corpus            *Corpus
	seed              int64
	sequence, windows int
	phases            []samplerPhase
	readers           []*reader // by source
	document          taskDocument
	batch             Batch

	next   int64   // step whose batch comes next
	phase  int     // of step next-1
	credit []int64 // by entry: how far behind its weight, in units of the phase's share sum
	taken  []int64 // by entry: windows so far
}

// samplerPhase is a Phase in steps and whole numbers: float rounding must not let
// two machines differ.
type samplerPhase struct {
	end    int64   // first step after it
	shares []int64 // by entry: windows
	sum    int64   // of shares
	tasks  []int64 // by task: documents in the pool's windows, cumulative
}

// Sampler returns a sampler of batches of windows * sequence tokens for a run of
// steps steps, over which the phases are spread.
func (c *Corpus) Sampler(seed int64, sequence, windows int, steps int64) (*Sampler, error) {
	if sequence < 1 || windows < 1 || steps < 1 || int64(sequence)*int64(windows) > math.MaxInt32 {
		return nil, fmt.Errorf("sampler: sequence %d, windows %d and steps %d must be positive and a batch below 2^31 tokens", sequence, windows, steps)
	}
	s := &Sampler{
		corpus: c, seed: seed, sequence: sequence, windows: windows,
		batch:  newBatch(sequence, windows),
		credit: make([]int64, len(c.Manifest.Sources)+1),
		taken:  make([]int64, len(c.Manifest.Sources)+1),
	}
	for i, t := range c.tasks {
		if _, largest := t.extent(); c.Trains(t.Name) && largest > sequence {
			return nil, fmt.Errorf("documents of task %q have up to %d tokens, more than the %d of a window", c.tasks[i].Name, largest, sequence)
		}
	}
	for i, summary := range c.Manifest.Sources {
		if c.Trains(summary.Name) && summary.Train.Documents == 0 {
			return nil, fmt.Errorf("source %q is in the mixture but has no training document: all fell on the validation side; add documents", summary.Name)
		}
		s.readers = append(s.readers, c.trainingReader(i, seed, sequence))
	}
	for _, p := range c.phases() {
		s.phases = append(s.phases, c.inSteps(p, steps))
	}
	return s, nil
}

// trainingReader reads a source's training documents in windows.
func (c *Corpus) trainingReader(source int, seed int64, sequence int) *reader {
	sh := &c.shards.sides[train][source]
	name := c.Mixture[source]
	return &reader{
		shard: sh, source: uint8(source), order: identity(sh.documents()),
		sequence: int64(sequence), windows: identity(int(sh.length() / int64(sequence))), ends: make([]int64, sh.documents()),
		shuffle: func(epoch int64, purpose string, ids []int32) {
			for i := range ids { // from the same order each time: an epoch may be entered from anywhere
				ids[i] = int32(i)
			}
			r := newStream(seed, "shuffle "+purpose+" of "+name, epoch)
			r.shuffle(ids)
		},
	}
}

// inSteps turns weights by token into shares of windows and of task documents.
func (c *Corpus) inSteps(p Phase, steps int64) samplerPhase {
	sources := len(c.Manifest.Sources)
	entries := make([]float64, sources+1)
	documents := make([]float64, len(c.tasks))
	for i, name := range c.Mixture {
		w := p.Weights[name]
		if i < sources {
			entries[i] = w
			continue
		}
		entries[sources] += w
		// Tasks are drawn by the document, weights are shares of tokens.
		mean, _ := c.tasks[i-sources].extent()
		documents[i-sources] = w / mean
	}
	out := samplerPhase{end: p.EndStep(steps), shares: wholeShares(entries), tasks: wholeShares(documents)}
	for _, share := range out.shares {
		out.sum += share
	}
	for i := 1; i < len(out.tasks); i++ {
		out.tasks[i] += out.tasks[i-1]
	}
	return out
}

// wholeShares scales weights to integers that add up to about 2^40; a weight above
// 0 keeps a share above 0.
func wholeShares(weights []float64) []int64 {
	var sum float64
	for _, w := range weights {
		sum += w
	}
	shares := make([]int64, len(weights))
	for i, w := range weights {
		if w > 0 {
			shares[i] = max(1, int64(math.Round(w/sum*(1<<40))))
		}
	}
	return shares
}

// Batch returns the batch of a step. It is valid until the next call, which
// overwrites it. Going on by one step is cheapest; any other step is found by
// counting through the windows before it.
func (s *Sampler) Batch(step int64) *Batch {
	if step < 0 {
		panic(fmt.Sprintf("corpus: batch of step %d", step))
	}
	if step < s.next {
		s.next, s.phase = 0, 0
		clear(s.credit)
		clear(s.taken)
	}
	for s.next < step {
		s.enterStep()
		for range s.windows {
			s.taken[s.pick()]++
		}
		s.next++
	}
	s.enterStep()
	s.batch.Starts = s.batch.Starts[:0]
	for w := range s.windows {
		entry := s.pick()
		nth := s.taken[entry]
		s.taken[entry]++
		lo, hi := w*s.sequence, (w+1)*s.sequence
		if entry == len(s.readers) {
			s.fillTasks(nth, lo, hi)
		} else {
			s.readers[entry].seekWindow(nth)
			s.readers[entry].fill(&s.batch, lo, hi)
		}
	}
	s.next++
	return &s.batch
}

// Windows is how many windows of a source the batches up to the last one drawn have
// held, from step 0 on.
func (s *Sampler) Windows(source int) int64 { return s.taken[source] }

// enterStep moves to the phase of step next. Credit ends with its phase: an entry
// that the new phase leaves out must not be owed a window.
func (s *Sampler) enterStep() {
	for s.phase+1 < len(s.phases) && s.next >= s.phases[s.phase].end {
		s.phase++
		clear(s.credit)
	}
}

// pick gives the next window to the entry with the largest deficit, the first among equals.
func (s *Sampler) pick() int {
	p := &s.phases[s.phase]
	best := 0
	for e, share := range p.shares {
		s.credit[e] += share
		if s.credit[e] > s.credit[best] {
			best = e
		}
	}
	s.credit[best] -= p.sum
	return best
}

// fillTasks writes the nth window of tasks to positions lo..hi: documents end to
// end, the last one cut off by the window's end.
func (s *Sampler) fillTasks(nth int64, lo, hi int) {
	r := newStream(s.seed, "task window", nth)
	cumulative := s.phases[s.phase].tasks
	b, d := &s.batch, &s.document
	for lo < hi {
		draw := r.below(cumulative[len(cumulative)-1])
		which := 0
		for cumulative[which] <= draw {
			which++
		}
		t := s.corpus.tasks[which]
		t.generate(&r, d, t.Queries)
		b.Starts = append(b.Starts, int32(lo))
		n := min(len(d.tokens), hi-lo)
		for i := range n {
			b.Tokens[lo+i] = d.tokens[i]
			b.Targets[lo+i] = -1
			if i+1 < len(d.tokens) && d.answer[i+1] {
				b.Targets[lo+i] = d.tokens[i+1]
			}
			b.Sources[lo+i] = uint8(len(s.readers) + which)
		}
		lo += n
	}
}
