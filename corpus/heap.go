package corpus

// heap is a binary heap of values in the order of their before method.
// (container/heap would box every value.)
type heap[T interface{ before(T) bool }] []T

func (h *heap[T]) push(v T) {
	*h = append(*h, v)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

// pop removes and returns the first value; the heap is not empty.
func (h *heap[T]) pop() T {
	s := *h
	n := len(s) - 1
	top := s[0]
	s[0] = s[n]
	s = s[:n]
	*h = s
	for i := 0; ; {
		down := 2*i + 1
		if down+1 < n && s[down+1].before(s[down]) {
			down++
		}
		if down >= n || !s[down].before(s[i]) {
			return top
		}
		s[i], s[down] = s[down], s[i]
		i = down
	}
}
