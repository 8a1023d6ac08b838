package corpus

import "sort"

// reader walks one side of one source: its documents in some order, end to end,
// and again from the start when they are through. One such pass is an epoch.
type reader struct {
	shard  *shard
	source uint8
	order  []int32 // documents

	// Training only: the order of the documents, and of the windows cut from them,
	// is drawn anew for every epoch.
	shuffle  func(epoch int64, purpose string, ids []int32)
	sequence int64   // tokens of a window
	windows  []int32 // order of an epoch's whole windows
	ends     []int64 // tokens of the epoch up to the end of order[i]

	epoch  int64
	at     int   // index into order
	offset int64 // tokens of the present document already read
	ready  bool
}

// seekWindow moves to the nth window of training. An epoch is its documents in
// drawn order, cut into windows that are read in drawn order too: were they read
// in a row, a long document would fill many steps on end. What is left behind
// the last whole window of an epoch is not read in it. A source shorter than a
// window is an endless row of epochs.
func (r *reader) seekWindow(nth int64) {
	perEpoch := int64(len(r.windows))
	if perEpoch == 0 {
		position := nth * r.sequence
		r.enter(position / r.shard.length())
		r.seek(position % r.shard.length())
		return
	}
	r.enter(nth / perEpoch)
	r.seek(int64(r.windows[nth%perEpoch]) * r.sequence)
}

// seek moves to a position of the present epoch, in tokens.
func (r *reader) seek(position int64) {
	r.at = sort.Search(len(r.ends), func(i int) bool { return r.ends[i] > position })
	doc := int(r.order[r.at])
	r.offset = position - (r.ends[r.at] - (r.shard.start(doc+1) - r.shard.start(doc)))
}

// enter moves to the start of an epoch.
func (r *reader) enter(epoch int64) {
	if r.shuffle != nil && (!r.ready || epoch != r.epoch) {
		r.shuffle(epoch, "documents", r.order)
		r.shuffle(epoch, "windows", r.windows)
		end := int64(0)
		for i, doc := range r.order {
			end += r.shard.start(int(doc)+1) - r.shard.start(int(doc))
			r.ends[i] = end
		}
	}
	r.epoch, r.at, r.offset, r.ready = epoch, 0, 0, true
}

// fill writes the next hi-lo tokens to positions lo..hi of b and moves on.
func (r *reader) fill(b *Batch, lo, hi int) {
	for lo < hi {
		doc := int(r.order[r.at])
		start, end := r.shard.start(doc), r.shard.start(doc+1)
		from := start + r.offset
		n := int(min(int64(hi-lo), end-from))
		b.Starts = append(b.Starts, int32(lo))
		r.shard.read(b.Tokens[lo:lo+n], from)
		copy(b.Targets[lo:lo+n-1], b.Tokens[lo+1:lo+n])
		b.Targets[lo+n-1] = -1
		if from+int64(n) < end {
			b.Targets[lo+n-1] = r.shard.token(from + int64(n))
			r.offset += int64(n)
		} else {
			r.offset = 0
			r.at++
			if r.at == len(r.order) {
				r.enter(r.epoch + 1)
			}
		}
		for i := lo; i < lo+n; i++ {
			b.Sources[i] = r.source
		}
		lo += n
	}
}
