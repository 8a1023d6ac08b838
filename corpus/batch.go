package corpus

import "fmt"

// Batch is windows of tokens, one after another; N = windows * sequence.
type Batch struct {
	Tokens  []int32 // [N]
	Targets []int32 // [N]: the next token of the same document, or -1 where no loss falls
	Starts  []int32 // ascending positions in Tokens where a segment starts: a document's part within one window
	Sources []uint8 // [N]: index into Corpus.Mixture
}

func newBatch(sequence, windows int) Batch {
	n := sequence * windows
	return Batch{
		Tokens:  make([]int32, n),
		Targets: make([]int32, n),
		Starts:  make([]int32, 0, n),
		Sources: make([]uint8, n),
	}
}

// Validation packs validation documents of one source into batches of windows *
// sequence tokens: at most maxTokens tokens, the same each time and for every seed.
// What is left of the last batch holds PAD without targets.
func (c *Corpus) Validation(source string, sequence, windows, maxTokens int) ([]Batch, error) {
	if sequence < 1 || windows < 1 || maxTokens < 1 {
		return nil, fmt.Errorf("validation batches: sequence %d, windows %d and tokens %d must be positive", sequence, windows, maxTokens)
	}
	i, err := c.sourceIndex(source)
	if err != nil {
		return nil, fmt.Errorf("validation batches: %w", err)
	}
	r := c.validationReader(i)
	left := int(min(int64(maxTokens), r.shard.length()))
	if left == 0 {
		return nil, fmt.Errorf("validation batches: source %q has no validation text", source)
	}
	size := sequence * windows
	batches := make([]Batch, (left+size-1)/size)
	for i := range batches {
		b := newBatch(sequence, windows)
		for lo := 0; lo < size; lo += sequence { // a segment ends with its window
			n := min(sequence, left)
			if n > 0 {
				r.fill(&b, lo, lo+n)
				left -= n
			}
			if n < sequence {
				b.pad(lo+n, lo+sequence)
			}
		}
		batches[i] = b
	}
	return batches, nil
}

// pad fills positions lo..hi with PAD, a segment without loss.
func (b *Batch) pad(lo, hi int) {
	b.Starts = append(b.Starts, int32(lo))
	for i := lo; i < hi; i++ {
		b.Tokens[i], b.Targets[i] = PAD, -1
	}
}

// validationReader reads a source's validation documents in the frozen order.
func (c *Corpus) validationReader(source int) *reader {
	sh := &c.shards.sides[validation][source]
	order := identity(sh.documents())
	r := newStream(0, "validation/"+c.Mixture[source], 0)
	r.shuffle(order)
	return &reader{shard: sh, source: uint8(source), order: order}
}

// Documents returns the tokens, BOS first, of up to n validation documents of a
// source that have at least minTokens tokens, the same ones each time; longer
// documents are cut at maxTokens.
func (c *Corpus) Documents(source string, n, minTokens, maxTokens int) ([][]int32, error) {
	i, err := c.sourceIndex(source)
	if err != nil {
		return nil, fmt.Errorf("validation documents: %w", err)
	}
	r := c.validationReader(i)
	var docs [][]int32
	for _, doc := range r.order {
		start, end := r.shard.start(int(doc)), r.shard.start(int(doc)+1)
		if len(docs) == n {
			break
		}
		if end-start < int64(minTokens) {
			continue
		}
		ids := make([]int32, min(end-start, int64(maxTokens)))
		r.shard.read(ids, start)
		docs = append(docs, ids)
	}
	return docs, nil
}

func identity(n int) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	return order
}
