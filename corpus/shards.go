package corpus

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// split is a side of the training/validation split.
type split int

const (
	train split = iota
	validation
)

func (s split) String() string { return [...]string{"train", "validation"}[s] }

// shardPath is the path of a source's token or offset file, without the extension.
func shardPath(dir string, source int, side split) string {
	return filepath.Join(dir, fmt.Sprintf("%02d.%s", source, side))
}

const (
	tokensExt   = ".tokens"  // little-endian uint16 or uint32, documents one after another
	offsetsExt  = ".offsets" // little-endian uint64 [documents+1]: where each document starts, in tokens
	offsetWidth = 8
)

// shard is one side of one source, memory-mapped.
type shard struct {
	tokens  []byte
	width   int // bytes of one token
	offsets []byte
}

func (s *shard) documents() int { return max(0, len(s.offsets)/offsetWidth-1) }

func (s *shard) length() int64 { return int64(len(s.tokens) / s.width) }

// start is the position of a document's first token; start(documents()) is the length.
func (s *shard) start(document int) int64 {
	return int64(binary.LittleEndian.Uint64(s.offsets[document*offsetWidth:]))
}

func (s *shard) token(at int64) int32 {
	if s.width == 2 {
		return int32(binary.LittleEndian.Uint16(s.tokens[2*at:]))
	}
	return int32(binary.LittleEndian.Uint32(s.tokens[4*at:]))
}

// read copies len(dst) tokens from position at on.
func (s *shard) read(dst []int32, at int64) {
	if s.width == 2 {
		src := s.tokens[2*at:][:2*len(dst)]
		for i := range dst {
			dst[i] = int32(binary.LittleEndian.Uint16(src[2*i:]))
		}
		return
	}
	src := s.tokens[4*at:][:4*len(dst)]
	for i := range dst {
		dst[i] = int32(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

// shards is an opened cache directory.
type shards struct {
	manifest  Manifest
	tokenizer *Tokenizer
	sides     [2][]shard // by split, then source
	releases  []func() error
}

// errNoShards means that nothing was built yet, as opposed to damage.
var errNoShards = errors.New("no shards")

// openShards maps a cache directory and checks every byte of it against its manifest.
func openShards(ctx context.Context, dir, key string, progress Progress) (_ *shards, err error) {
	data, err := os.ReadFile(filepath.Join(dir, manifestName))
	if errors.Is(err, os.ErrNotExist) {
		if _, statErr := os.Stat(dir); errors.Is(statErr, os.ErrNotExist) {
			return nil, errNoShards
		}
	}
	if err != nil {
		return nil, err
	}
	s := &shards{}
	if err := json.Unmarshal(data, &s.manifest); err != nil {
		return nil, fmt.Errorf("parse %s: %w", manifestName, err)
	}
	m := &s.manifest
	if hash, err := m.contentHash(); err != nil || hash != m.Hash || m.Key != key || m.Format != shardFormat {
		return nil, fmt.Errorf("%s does not match its own hash, key or format", manifestName)
	}
	if m.Width != 2 && m.Width != 4 || len(m.Counts) != m.Vocab {
		return nil, fmt.Errorf("%s is inconsistent", manifestName)
	}
	if s.tokenizer, err = Load(filepath.Join(dir, tokenizerName)); err != nil {
		return nil, err
	}
	if s.tokenizer.Hash() != m.Tokenizer || s.tokenizer.Vocab() != m.Vocab {
		return nil, fmt.Errorf("%s is not the tokenizer of the shards", tokenizerName)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	trainTokens, validationTokens := m.tokens()
	done, total := int64(0), (trainTokens+validationTokens)*int64(m.Width)
	for i, src := range m.Sources {
		for side, want := range []SplitSummary{train: src.Train, validation: src.Validation} {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			sh := shard{width: m.Width}
			path := shardPath(dir, i, split(side))
			if sh.tokens, err = s.mapChecked(path+tokensExt, want.Tokens*int64(m.Width), want.TokensSHA256); err != nil {
				return nil, err
			}
			if sh.offsets, err = s.mapChecked(path+offsetsExt, (want.Documents+1)*offsetWidth, want.OffsetsSHA256); err != nil {
				return nil, err
			}
			s.sides[side] = append(s.sides[side], sh)
			done += int64(len(sh.tokens))
			progress("check shards", done, total)
		}
	}
	return s, nil
}

// mapChecked maps one file and compares it with its size and hash in the manifest.
func (s *shards) mapChecked(path string, size int64, hash string) ([]byte, error) {
	data, release, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	s.releases = append(s.releases, release)
	if int64(len(data)) != size {
		return nil, fmt.Errorf("%s holds %d bytes, the manifest says %d", filepath.Base(path), len(data), size)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("%s does not match its hash", filepath.Base(path))
	}
	return data, nil
}

func (s *shards) close() error {
	var err error
	for _, release := range s.releases {
		err = errors.Join(err, release())
	}
	*s = shards{}
	return err
}
