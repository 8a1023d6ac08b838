package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
)

// Ids of the special tokens. Text never encodes to them: a document that spells
// "<|bos|>" holds seven ordinary characters.
const (
	PAD  int32 = 0 // fills up a window; never a target
	BOS  int32 = 1 // begins every document
	EOT  int32 = 2 // ends an answer of open length
	MARK int32 = 3 // shift and copy: say it again from the start
	LAST int32 = 4 // before: say the word before this

	specials   = 16             // ids 0..15 are special or reserved
	firstMerge = specials + 256 // the byte tokens lie between
)

// specialName is the printed form of a special id.
func specialName(id int32) string {
	switch id {
	case PAD:
		return "<|pad|>"
	case BOS:
		return "<|bos|>"
	case EOT:
		return "<|eot|>"
	case MARK:
		return "<|mark|>"
	case LAST:
		return "<|last|>"
	}
	return fmt.Sprintf("<|reserved-%d|>", id)
}

// merge is one rule of the byte pair encoding: left followed by right becomes into.
type merge struct{ left, right, into int32 }

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// Tokenizer is a byte-level BPE (Sennrich et al. 2016; Radford et al. 2019). It
// turns any bytes into ids and back without loss. Methods may be called from
// several goroutines; encoding is done one call at a time, since calls share a cache.
type Tokenizer struct {
	tokens [][]byte         // bytes of every id; nil for special ids
	byteID [256]int32       // id of every single byte
	merges []merge          // in rank order: an earlier rule is applied first
	rank   map[uint64]int32 // pairKey -> index into merges
	hash   string

	mu      sync.Mutex
	cache   map[string]span // encodings of short pieces seen before
	arena   []int32         // what the spans point into
	scratch mergeScratch
}

type span struct{ start, end int32 }

const (
	cachedPieceBytes = 48      // longer pieces hardly ever come back
	cacheLimit       = 1 << 18 // pieces; then the cache starts anew
)

// newTokenizer indexes the rules. tokens[0:16] are nil, every byte has an id.
func newTokenizer(tokens [][]byte, merges []merge) (*Tokenizer, error) {
	t := &Tokenizer{tokens: tokens, merges: merges, rank: make(map[uint64]int32, len(merges)), cache: map[string]span{}}
	for b := range t.byteID {
		t.byteID[b] = -1
	}
	for id, token := range tokens {
		if len(token) == 1 {
			t.byteID[token[0]] = int32(id)
		}
	}
	for b, id := range t.byteID {
		if id < 0 {
			return nil, fmt.Errorf("no token for the single byte 0x%02x", b)
		}
	}
	for i, m := range merges {
		if _, twice := t.rank[pairKey(m.left, m.right)]; twice {
			return nil, fmt.Errorf("merge %d (%q + %q) is listed twice", i, tokens[m.left], tokens[m.right])
		}
		t.rank[pairKey(m.left, m.right)] = int32(i)
	}
	file, err := t.marshal()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(file)
	t.hash = hex.EncodeToString(sum[:])
	return t, nil
}

// Vocab is the number of ids, special ones included.
func (t *Tokenizer) Vocab() int { return len(t.tokens) }

// Hash is the SHA-256 of the saved tokenizer, in hex.
func (t *Tokenizer) Hash() string { return t.hash }

// IsSpecial tells special and reserved ids from ids of text.
func (t *Tokenizer) IsSpecial(id int32) bool { return id >= 0 && id < specials }

// Token is the printed form of one id: the bytes of a text token as they are
// (perhaps part of a character), the name of a special one.
func (t *Tokenizer) Token(id int32) string {
	switch {
	case t.IsSpecial(id):
		return specialName(id)
	case id < 0 || int(id) >= len(t.tokens):
		return fmt.Sprintf("<|unknown-%d|>", id)
	}
	return string(t.tokens[id])
}

// Decode returns the text of ids. Special ids hold no text and add nothing; ids
// outside the vocabulary, which only a model with spare rows emits, add U+FFFD.
func (t *Tokenizer) Decode(ids []int32) []byte {
	var text []byte
	for _, id := range ids {
		if id < 0 || int(id) >= len(t.tokens) {
			text = append(text, "\uFFFD"...)
			continue
		}
		text = append(text, t.tokens[id]...)
	}
	return text
}

// Encode appends the ids of text to dst. Any bytes are text; no BOS is added.
func (t *Tokenizer) Encode(text []byte, dst []int32) []int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(text) > 0 {
		n := nextPiece(text)
		dst = t.encodePiece(text[:n], dst)
		text = text[n:]
	}
	return dst
}

func (t *Tokenizer) encodePiece(piece []byte, dst []int32) []int32 {
	if len(piece) == 1 {
		return append(dst, t.byteID[piece[0]])
	}
	if len(piece) > cachedPieceBytes {
		return t.mergePiece(piece, dst)
	}
	if at, ok := t.cache[string(piece)]; ok {
		return append(dst, t.arena[at.start:at.end]...)
	}
	if len(t.cache) >= cacheLimit {
		clear(t.cache)
		t.arena = t.arena[:0]
	}
	before := len(dst)
	dst = t.mergePiece(piece, dst)
	start := int32(len(t.arena))
	t.arena = append(t.arena, dst[before:]...)
	t.cache[string(piece)] = span{start, int32(len(t.arena))}
	return dst
}
