package corpus

import "math"

// scanPieceBytes is up to which length the next merge is found by scanning all
// pairs. Longer pieces (base64, rulers of "====") take a heap, so that time stays
// in proportion to n log n.
const scanPieceBytes = 96

// mergeScratch is the working memory of one merge, reused from piece to piece.
type mergeScratch struct {
	ids        []int32
	ranks      []int32
	prev, next []int32
	heap       heap[mergeAt]
}

const noRank = math.MaxInt32

func (t *Tokenizer) pairRank(left, right int32) int32 {
	if r, ok := t.rank[pairKey(left, right)]; ok {
		return r
	}
	return noRank
}

// mergePiece appends the ids of one piece to dst: while some adjacent pair has a
// rule, the pair of lowest rank is merged, the leftmost first.
func (t *Tokenizer) mergePiece(piece []byte, dst []int32) []int32 {
	ids := t.scratch.ids[:0]
	for _, b := range piece {
		ids = append(ids, t.byteID[b])
	}
	t.scratch.ids = ids
	if len(piece) > scanPieceBytes {
		return t.mergeByHeap(ids, dst)
	}
	return t.mergeByScan(ids, dst)
}

func (t *Tokenizer) mergeByScan(ids, dst []int32) []int32 {
	ranks := t.scratch.ranks[:0] // ranks[i] of the pair i, i+1
	for i := 0; i+1 < len(ids); i++ {
		ranks = append(ranks, t.pairRank(ids[i], ids[i+1]))
	}
	t.scratch.ranks = ranks
	for {
		best, at := int32(noRank), -1
		for i, r := range ranks {
			if r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			return append(dst, ids...)
		}
		ids[at] = t.merges[best].into
		ids = append(ids[:at+1], ids[at+2:]...)
		ranks = append(ranks[:at], ranks[at+1:]...)
		if at > 0 {
			ranks[at-1] = t.pairRank(ids[at-1], ids[at])
		}
		if at < len(ranks) {
			ranks[at] = t.pairRank(ids[at], ids[at+1])
		}
	}
}

// mergeByHeap gives the result of mergeByScan. The ids form a linked list by
// position; a heap entry is stale once its pair has changed.
func (t *Tokenizer) mergeByHeap(ids, dst []int32) []int32 {
	s := &t.scratch
	s.prev, s.next, s.heap = s.prev[:0], s.next[:0], s.heap[:0]
	for i := range ids {
		s.prev = append(s.prev, int32(i)-1)
		s.next = append(s.next, int32(i)+1)
	}
	end := int32(len(ids))
	offer := func(at int32) {
		if at < 0 || s.next[at] >= end {
			return
		}
		if r := t.pairRank(ids[at], ids[s.next[at]]); r != noRank {
			s.heap.push(mergeAt{r, at})
		}
	}
	for i := range end {
		offer(i)
	}
	const gone = -1
	for len(s.heap) > 0 {
		top := s.heap.pop()
		rule, right := t.merges[top.rank], end
		if ids[top.at] != gone {
			right = s.next[top.at]
		}
		if right >= end || ids[top.at] != rule.left || ids[right] != rule.right {
			continue
		}
		ids[top.at], ids[right] = rule.into, gone
		after := s.next[right]
		s.next[top.at] = after
		if after < end {
			s.prev[after] = top.at
		}
		offer(s.prev[top.at])
		offer(top.at)
	}
	for i := int32(0); i < end; i = s.next[i] {
		dst = append(dst, ids[i])
	}
	return dst
}

// mergeAt is a possible merge of the pair that begins at a position.
type mergeAt struct{ rank, at int32 }

// before puts the lowest rank first, then the leftmost position.
func (m mergeAt) before(o mergeAt) bool {
	return m.rank < o.rank || m.rank == o.rank && m.at < o.at
}
