package corpus

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// wordPool is what the words of a task are drawn from: ids of text tokens, evenly
// or by their count in the training shards.
type wordPool struct {
	ids        []int32
	cumulative []int64 // running sum of the counts; nil draws evenly
}

// newWordPool takes the alphabet most frequent text tokens, ties to the lower id,
// to be drawn evenly; alphabet 0 takes all that occur, to be drawn by count.
func newWordPool(counts []int64, alphabet, distinct int) (*wordPool, error) {
	p := &wordPool{}
	for id := int32(specials); int(id) < len(counts); id++ {
		if counts[id] > 0 {
			p.ids = append(p.ids, id)
		}
	}
	occurring := len(p.ids)
	if max(alphabet, distinct) > occurring {
		return nil, fmt.Errorf("needs %d different words, but only %d tokens occur in the training text", max(alphabet, distinct), occurring)
	}
	if alphabet == 0 {
		var sum int64
		for _, id := range p.ids {
			sum += counts[id]
			p.cumulative = append(p.cumulative, sum)
		}
		return p, nil
	}
	if alphabet < distinct {
		return nil, fmt.Errorf("needs %d different words in one document, but its alphabet has %d", distinct, alphabet)
	}
	slices.SortStableFunc(p.ids, func(a, b int32) int { return cmp.Compare(counts[b], counts[a]) })
	p.ids = p.ids[:alphabet]
	return p, nil
}

func (p *wordPool) draw(r *stream) int32 {
	if p.cumulative == nil {
		return p.ids[r.below(int64(len(p.ids)))]
	}
	at := r.below(p.cumulative[len(p.cumulative)-1])
	return p.ids[sort.Search(len(p.cumulative), func(i int) bool { return p.cumulative[i] > at })]
}

// patience is how many draws in a row may hit words that the document has already
// before the next word is drawn evenly among the rest: a document may need more
// words than the frequent ones.
const patience = 64

// distinctWords draws words without repetition, one document after another.
type distinctWords struct {
	used  []uint32 // by id: the document that used it last
	stamp uint32   // of the present document
}

// begin starts a document over a vocabulary of vocab ids.
func (d *distinctWords) begin(vocab int) {
	d.stamp++
	if len(d.used) != vocab || d.stamp == 0 {
		d.used, d.stamp = make([]uint32, vocab), 1
	}
}

// word draws a word of the pool that the document does not hold yet. The pool has one.
func (d *distinctWords) word(p *wordPool, r *stream) int32 {
	for range patience {
		if id := p.draw(r); d.used[id] != d.stamp {
			d.used[id] = d.stamp
			return id
		}
	}
	left := int64(0)
	for _, id := range p.ids {
		if d.used[id] != d.stamp {
			left++
		}
	}
	nth := r.below(left)
	for _, id := range p.ids {
		if d.used[id] == d.stamp {
			continue
		}
		if nth == 0 {
			d.used[id] = d.stamp
			return id
		}
		nth--
	}
	panic("corpus: a task's document needs more words than its pool holds")
}
