package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/renameio/v2"
)

// tokenizerFile is Hugging Face's tokenizer.json, as far as a byte-level BPE uses
// it. Parts that we lack are kept raw, to be refused unless they say nothing.
type tokenizerFile struct {
	Version       string          `json:"version"`
	Truncation    json.RawMessage `json:"truncation"`
	Padding       json.RawMessage `json:"padding"`
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  *byteLevel      `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       *byteLevel      `json:"decoder"`
	Model         bpeModel        `json:"model"`
}

type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

type byteLevel struct {
	Type           string `json:"type"`
	AddPrefixSpace bool   `json:"add_prefix_space"`
	TrimOffsets    bool   `json:"trim_offsets"`
	UseRegex       *bool  `json:"use_regex"`
}

type bpeModel struct {
	Type                    string      `json:"type"`
	Dropout                 *float64    `json:"dropout"`
	UnkToken                *string     `json:"unk_token"`
	ContinuingSubwordPrefix *string     `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string     `json:"end_of_word_suffix"`
	FuseUnk                 bool        `json:"fuse_unk"`
	ByteFallback            bool        `json:"byte_fallback"`
	IgnoreMerges            bool        `json:"ignore_merges"`
	Vocab                   vocabTable  `json:"vocab"`
	Merges                  []mergePair `json:"merges"`
}

// vocabTable is written in the order of the ids, for people to read.
type vocabTable map[string]int32

// MarshalJSON writes the entries in the order of their ids.
func (v vocabTable) MarshalJSON() ([]byte, error) {
	names := make([]string, len(v))
	for name, id := range v {
		names[id] = name
	}
	out := []byte{'{'}
	for id, name := range names {
		if id > 0 {
			out = append(out, ',')
		}
		out = append(out, jsonString(name)...)
		out = append(out, ':')
		out = strconv.AppendInt(out, int64(id), 10)
	}
	return append(out, '}'), nil
}

// jsonString quotes s without escaping <, > and &.
func jsonString(s string) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.Encode(s) // a string always encodes, a buffer always takes it
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// mergePair is one rule in the byte alphabet. It is written as "left right",
// which every version of the format reads; the newer ["left", "right"] is read too.
type mergePair [2]string

// MarshalJSON writes the rule as one string.
func (m mergePair) MarshalJSON() ([]byte, error) { return jsonString(m[0] + " " + m[1]), nil }

// UnmarshalJSON reads either form of a rule.
func (m *mergePair) UnmarshalJSON(data []byte) error {
	var joined string
	if json.Unmarshal(data, &joined) != nil {
		return json.Unmarshal(data, (*[2]string)(m))
	}
	left, right, ok := strings.Cut(joined, " ")
	if !ok {
		return fmt.Errorf("merge %q has no space between its halves", joined)
	}
	*m = mergePair{left, right}
	return nil
}

// byteAlphabet is GPT-2's printable stand-in for every byte: itself where it is a
// printable Latin-1 character, else the next free character from U+0100 on.
func byteAlphabet() (runes [256]rune) {
	free := rune(0x100)
	for b := range runes {
		switch {
		case '!' <= b && b <= '~', 0xa1 <= b && b <= 0xac, 0xae <= b:
			runes[b] = rune(b)
		default:
			runes[b] = free
			free++
		}
	}
	return runes
}

// Save writes the tokenizer as a Hugging Face tokenizer.json, aside and renamed.
func (t *Tokenizer) Save(path string) error {
	data, err := t.marshal()
	if err == nil {
		err = renameio.WriteFile(path, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("save tokenizer %s: %w", path, err)
	}
	return nil
}

func (t *Tokenizer) marshal() ([]byte, error) {
	runes := byteAlphabet()
	spell := func(id int32) string {
		if t.IsSpecial(id) {
			return specialName(id)
		}
		var s strings.Builder
		for _, b := range t.tokens[id] {
			s.WriteRune(runes[b])
		}
		return s.String()
	}
	regex := true
	f := tokenizerFile{
		Version:      "1.0",
		PreTokenizer: &byteLevel{Type: "ByteLevel", TrimOffsets: true, UseRegex: &regex},
		Decoder:      &byteLevel{Type: "ByteLevel", TrimOffsets: true, UseRegex: &regex},
		Model:        bpeModel{Type: "BPE", Vocab: make(vocabTable, len(t.tokens))},
	}
	for id := range int32(specials) {
		f.AddedTokens = append(f.AddedTokens, addedToken{ID: id, Content: specialName(id), Special: true})
	}
	for id := range t.tokens {
		f.Model.Vocab[spell(int32(id))] = int32(id)
	}
	f.Model.Merges = make([]mergePair, len(t.merges))
	for i, m := range t.merges {
		f.Model.Merges[i] = mergePair{spell(m.left), spell(m.right)}
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(f); err != nil {
		return nil, fmt.Errorf("encode tokenizer: %w", err)
	}
	return out.Bytes(), nil
}

// Load reads a Hugging Face tokenizer.json. What would encode differently here is
// refused, naming the feature; the special tokens must be ours (BOS = 1).
func Load(path string) (*Tokenizer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	t, err := unmarshalTokenizer(data)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer %s: %w", path, err)
	}
	return t, nil
}

func unmarshalTokenizer(data []byte) (*Tokenizer, error) {
	var f tokenizerFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("not a tokenizer.json we understand: %w", err)
	}
	if err := f.refuse(); err != nil {
		return nil, err
	}
	byteOf := map[rune]byte{}
	for b, r := range byteAlphabet() {
		byteOf[r] = byte(b)
	}
	tokens := make([][]byte, len(f.Model.Vocab))
	seen := make([]bool, len(tokens))
	for name, id := range f.Model.Vocab {
		if id < 0 || int(id) >= len(tokens) || seen[id] {
			return nil, fmt.Errorf("vocabulary: ids must be 0 to %d, each once; %q has %d", len(tokens)-1, name, id)
		}
		seen[id] = true
		if id < specials {
			if name != specialName(id) {
				return nil, fmt.Errorf("special tokens: id %d is %q, must be %q", id, name, specialName(id))
			}
			continue
		}
		token := make([]byte, 0, utf8.RuneCountInString(name))
		for _, r := range name {
			b, ok := byteOf[r]
			if !ok {
				return nil, fmt.Errorf("vocabulary: %q (id %d) is not spelt in the byte-level alphabet", name, id)
			}
			token = append(token, b)
		}
		tokens[id] = token
	}
	merges := make([]merge, len(f.Model.Merges))
	for i, m := range f.Model.Merges {
		left, okLeft := f.Model.Vocab[m[0]]
		right, okRight := f.Model.Vocab[m[1]]
		into, okInto := f.Model.Vocab[m[0]+m[1]]
		if !okLeft || !okRight || !okInto || min(left, right, into) < specials {
			return nil, fmt.Errorf("merge %d (%q %q) names a token that the vocabulary lacks", i, m[0], m[1])
		}
		merges[i] = merge{left, right, into}
	}
	return newTokenizer(tokens, merges)
}

// refuse names the first feature of the file that we lack.
func (f *tokenizerFile) refuse() error {
	lacking := func(what string) error { return fmt.Errorf("unsupported feature: %s", what) }
	says := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
	var after struct {
		Type string `json:"type"`
	}
	if says(f.PostProcessor) && json.Unmarshal(f.PostProcessor, &after) != nil {
		return lacking("post_processor")
	}
	m := &f.Model
	switch {
	case says(f.Truncation):
		return lacking("truncation")
	case says(f.Padding):
		return lacking("padding")
	case says(f.Normalizer):
		return lacking("normalizer")
	case says(f.PostProcessor) && after.Type != "ByteLevel": // ByteLevel only moves offsets
		return lacking("post_processor")
	case f.PreTokenizer == nil || f.PreTokenizer.Type != "ByteLevel":
		return lacking("a pre_tokenizer other than ByteLevel")
	case f.PreTokenizer.AddPrefixSpace:
		return lacking("pre_tokenizer.add_prefix_space")
	case f.PreTokenizer.UseRegex != nil && !*f.PreTokenizer.UseRegex:
		return lacking("pre_tokenizer.use_regex = false")
	case f.Decoder == nil || f.Decoder.Type != "ByteLevel":
		return lacking("a decoder other than ByteLevel")
	case m.Type != "BPE":
		return lacking(fmt.Sprintf("model.type %q", m.Type))
	case m.Dropout != nil:
		return lacking("model.dropout")
	case m.UnkToken != nil:
		return lacking("model.unk_token")
	case m.ContinuingSubwordPrefix != nil && *m.ContinuingSubwordPrefix != "":
		return lacking("model.continuing_subword_prefix")
	case m.EndOfWordSuffix != nil && *m.EndOfWordSuffix != "":
		return lacking("model.end_of_word_suffix")
	case m.ByteFallback:
		return lacking("model.byte_fallback")
	case m.IgnoreMerges:
		return lacking("model.ignore_merges")
	case len(f.AddedTokens) < specials:
		return fmt.Errorf("special tokens: %d listed, want the %d from %s to %s", len(f.AddedTokens), specials, specialName(0), specialName(specials-1))
	}
	for _, a := range f.AddedTokens {
		if a.ID < 0 || a.ID >= specials || a.Content != specialName(a.ID) {
			return lacking(fmt.Sprintf("added token %q with id %d", a.Content, a.ID))
		}
	}
	return nil
}
