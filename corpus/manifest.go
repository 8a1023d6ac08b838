package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// shardFormat changes whenever documents, ids or files would come out differently.
const shardFormat = 1

// Manifest describes the shards of a corpus: what they were made from and what
// they hold.
type Manifest struct {
	Format    int             `json:"format"`
	Key       string          `json:"key"`       // hash of the configuration and of the files' names, sizes and times
	Hash      string          `json:"hash"`      // hash of everything below: equal text gives an equal hash on any machine
	Tokenizer string          `json:"tokenizer"` // hash of the tokenizer
	Vocab     int             `json:"vocab"`
	Width     int             `json:"width"` // bytes of one token in the shards: 2 or 4
	Sources   []SourceSummary `json:"sources"`
	Counts    []int64         `json:"counts"` // training tokens by id, BOS included
}

// SourceSummary is what one source holds on either side of the split.
type SourceSummary struct {
	Name       string       `json:"name"`
	Train      SplitSummary `json:"train"`
	Validation SplitSummary `json:"validation"`
}

// SplitSummary is the size and the content of one pair of shard files.
type SplitSummary struct {
	Documents     int64  `json:"documents"`
	Bytes         int64  `json:"bytes"`  // of text
	Tokens        int64  `json:"tokens"` // one BOS per document included
	TokensSHA256  string `json:"tokens_sha256"`
	OffsetsSHA256 string `json:"offsets_sha256"`
}

// contentHash is what Hash must be.
func (m Manifest) contentHash() (string, error) {
	m.Key, m.Hash = "", ""
	data, err := json.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("encode manifest: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// tokens adds up both sides of the split over all sources.
func (m Manifest) tokens() (train, validation int64) {
	for _, s := range m.Sources {
		train += s.Train.Tokens
		validation += s.Validation.Tokens
	}
	return train, validation
}

// cacheKey names the shards of a configuration: a hash of all that decides their
// content, with files represented by path, size and modification time.
func cacheKey(cfg Config, sources []*source, given *Tokenizer) (string, error) {
	type sourceKey struct {
		Source Source
		Files  []sourceFile
	}
	key := struct {
		Format          int
		Tokenizer       TokenizerConfig
		TokenizerHash   string
		ValidationShare float64
		Sources         []sourceKey
	}{Format: shardFormat, Tokenizer: cfg.Tokenizer, ValidationShare: cfg.ValidationShare}
	if given != nil {
		key.Tokenizer, key.TokenizerHash = TokenizerConfig{}, given.Hash()
	}
	for _, s := range sources {
		key.Sources = append(key.Sources, sourceKey{s.Source, s.files})
	}
	data, err := json.Marshal(key)
	if err != nil {
		return "", fmt.Errorf("encode cache key: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16]), nil
}
