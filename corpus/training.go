package corpus

import (
	"context"
	"fmt"
)

const (
	trainPieceBytes = 256 // longer pieces are rulers and encoded binaries: no vocabulary is spent on them
	minPairCount    = 2   // a pair seen once is no pattern
)

// Trainer learns a byte pair encoding: feed it text with Add, then call Train.
// It keeps every different piece once, with its count, so that memory grows with
// the vocabulary of the text and not with its length.
type Trainer struct {
	index map[string]int32 // piece -> word
	words []word
}

// word is one different piece: its current symbols and how often it occurs.
type word struct {
	ids   []int32
	count int64
}

// NewTrainer returns a trainer that has seen no text.
func NewTrainer() *Trainer { return &Trainer{index: map[string]int32{}} }

// Add counts the pieces of one document.
func (t *Trainer) Add(text []byte) {
	for len(text) > 0 {
		n := nextPiece(text)
		piece := text[:n]
		text = text[n:]
		if n < 2 || n > trainPieceBytes {
			continue
		}
		if at, ok := t.index[string(piece)]; ok {
			t.words[at].count++
			continue
		}
		ids := make([]int32, n)
		for i, b := range piece {
			ids[i] = specials + int32(b)
		}
		t.index[string(piece)] = int32(len(t.words))
		t.words = append(t.words, word{ids, 1})
	}
}

// pairCount is the count that a pair had when it was put on the heap.
type pairCount struct {
	count int64
	pair  uint64
}

// before puts the higher count first, then the lower ids: no tie is left to chance.
func (p pairCount) before(o pairCount) bool {
	return p.count > o.count || p.count == o.count && p.pair < o.pair
}

// pairState is what is known of one adjacent pair of symbols.
type pairState struct {
	count int64
	words []int32 // words that held the pair when it was counted; some may have lost it since
}

// merger is the state of one training.
type merger struct {
	words []word
	pairs map[uint64]*pairState
	heap  heap[pairCount]
	grown []uint64 // pairs whose count rose during the present merge
}

// Train returns the tokenizer of vocab ids, special and byte tokens included, or
// of fewer where no pair of symbols is left that occurs twice. It uses the
// trainer up. progress is told the number of ids so far; ctx is checked between merges.
func (t *Trainer) Train(ctx context.Context, vocab int, progress func(done int)) (*Tokenizer, error) {
	if vocab < firstMerge {
		return nil, fmt.Errorf("train tokenizer: a vocabulary of %d is too small: %d special tokens and 256 bytes need %d", vocab, specials, firstMerge)
	}
	m := &merger{words: t.words, pairs: map[uint64]*pairState{}}
	t.words, t.index = nil, nil
	for w := range m.words {
		ids := m.words[w].ids
		for i := 0; i+1 < len(ids); i++ {
			m.change(pairKey(ids[i], ids[i+1]), int32(w), m.words[w].count)
		}
	}
	m.offerGrown()

	tokens := make([][]byte, firstMerge, vocab)
	known := make(map[string]int32, vocab) // bytes -> id
	for b := range 256 {
		tokens[specials+b] = []byte{byte(b)}
		known[string(tokens[specials+b])] = int32(specials + b)
	}
	var merges []merge
	ruled := map[uint64]bool{}
	for len(tokens) < vocab {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("train tokenizer: %w", err)
		}
		pair, ok := m.best()
		if !ok {
			break
		}
		left, right := int32(pair>>32), int32(uint32(pair))
		joined := append(append([]byte(nil), tokens[left]...), tokens[right]...)
		// Two rules may spell the same bytes; they then share the id, as a
		// vocabulary that is keyed by its strings demands.
		into, seen := known[string(joined)]
		if !seen {
			into = int32(len(tokens))
			tokens = append(tokens, joined)
			known[string(joined)] = into
		}
		if !ruled[pair] { // with shared ids a merged pair may form once more
			ruled[pair] = true
			merges = append(merges, merge{left, right, into})
		}
		m.apply(left, right, into)
		progress(len(tokens))
	}
	tok, err := newTokenizer(tokens, merges)
	if err != nil {
		return nil, fmt.Errorf("train tokenizer: %w", err)
	}
	return tok, nil
}

// best takes the most frequent pair off the heap. Entries whose count has
// changed since they were pushed go back with the count of now.
func (m *merger) best() (uint64, bool) {
	for len(m.heap) > 0 {
		top := m.heap.pop()
		now := m.pairs[top.pair].count
		switch {
		case now < minPairCount:
		case now == top.count:
			return top.pair, true
		case now < top.count:
			m.heap.push(pairCount{now, top.pair})
		}
	}
	return 0, false
}

// change adds delta to the count of a pair found in a word.
func (m *merger) change(pair uint64, w int32, delta int64) {
	s := m.pairs[pair]
	if s == nil {
		s = &pairState{}
		m.pairs[pair] = s
	}
	s.count += delta
	if delta < 0 {
		return
	}
	if n := len(s.words); n == 0 || s.words[n-1] != w {
		s.words = append(s.words, w)
	}
	if n := len(m.grown); n == 0 || m.grown[n-1] != pair {
		m.grown = append(m.grown, pair)
	}
}

func (m *merger) offerGrown() {
	offered := make(map[uint64]bool, len(m.grown))
	for _, pair := range m.grown {
		if s := m.pairs[pair]; !offered[pair] && s.count >= minPairCount {
			offered[pair] = true
			m.heap.push(pairCount{s.count, pair})
		}
	}
	m.grown = m.grown[:0]
}

// apply merges left and right in every word that holds them, left to right, and
// keeps the counts of the pairs around them exact at each step.
func (m *merger) apply(left, right, into int32) {
	s := m.pairs[pairKey(left, right)]
	words := s.words
	s.words = nil
	for _, w := range words {
		ids, count := m.words[w].ids, m.words[w].count
		kept := 0
		for i := 0; i < len(ids); i++ {
			if ids[i] != left || i+1 == len(ids) || ids[i+1] != right {
				ids[kept] = ids[i]
				kept++
				continue
			}
			m.change(pairKey(left, right), w, -count)
			if kept > 0 {
				m.change(pairKey(ids[kept-1], left), w, -count)
				m.change(pairKey(ids[kept-1], into), w, count)
			}
			if i+2 < len(ids) {
				m.change(pairKey(right, ids[i+2]), w, -count)
				m.change(pairKey(into, ids[i+2]), w, count)
			}
			ids[kept] = into
			kept++
			i++
		}
		m.words[w].ids = ids[:kept]
	}
	m.offerGrown()
}
