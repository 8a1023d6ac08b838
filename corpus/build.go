package corpus

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

const (
	manifestName  = "manifest.json"
	tokenizerName = "tokenizer.json"
)

// sideOf puts a document on one side of the split by its content alone, so that it
// and its duplicates land there whatever surrounds them.
func sideOf(text []byte, validationShare float64) split {
	sum := sha256.Sum256(text)
	if float64(binary.LittleEndian.Uint64(sum[:])) < validationShare*math.MaxUint64 {
		return validation
	}
	return train
}

// builder writes the shards of one corpus into an empty directory.
type builder struct {
	cfg       Config
	sources   []*source
	tokenizer *Tokenizer // nil: train one
	dir       string
	progress  Progress
}

// build tokenises all sources and writes shards, tokenizer and, last, the manifest;
// everything is on disk when it returns.
func (b *builder) build(ctx context.Context, key string) error {
	if b.tokenizer == nil {
		if err := b.train(ctx); err != nil {
			return err
		}
	}
	m := Manifest{Format: shardFormat, Key: key, Tokenizer: b.tokenizer.Hash(), Vocab: b.tokenizer.Vocab(), Width: 2}
	if m.Vocab > 1<<16 {
		m.Width = 4
	}
	m.Counts = make([]int64, m.Vocab)
	var done int64
	total := b.size()
	for i, s := range b.sources {
		summary, err := b.tokenise(ctx, i, s, &m, func(n int64) {
			done += n
			b.progress("tokenise", done, total)
		})
		if err != nil {
			return err
		}
		m.Sources = append(m.Sources, summary)
	}
	if err := emptiness(&m, b.sources, b.cfg.ValidationShare); err != nil {
		return err
	}
	if err := b.tokenizer.Save(filepath.Join(b.dir, tokenizerName)); err != nil {
		return err
	}
	var err error
	if m.Hash, err = m.contentHash(); err != nil {
		return err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	if err := renameio.WriteFile(filepath.Join(b.dir, manifestName), data, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", manifestName, err)
	}
	return syncDir(b.dir)
}

// size is the number of bytes of all sources, or 0 where it is not known.
func (b *builder) size() (total int64) {
	for _, s := range b.sources {
		size := s.size()
		if size == 0 {
			return 0
		}
		total += size
	}
	return total
}

// emptiness explains what is missing from a corpus that cannot be trained on.
func emptiness(m *Manifest, sources []*source, share float64) error {
	var trainDocs, validationDocs int64
	for i, s := range m.Sources {
		if s.Train.Documents+s.Validation.Documents == 0 {
			return fmt.Errorf("corpus is empty: source %q holds no text in its %d files (the first is %s)", s.Name, len(sources[i].files), sources[i].files[0].Path)
		}
		trainDocs += s.Train.Documents
		validationDocs += s.Validation.Documents
	}
	switch {
	case trainDocs == 0:
		return fmt.Errorf("corpus is empty: all %d documents fell on the validation side (validation_share %v); add documents", validationDocs, share)
	case validationDocs == 0:
		return fmt.Errorf("corpus has no validation document: all %d documents fell on the training side (validation_share %v); add documents, raise the share, or cut a text file into documents with separator", trainDocs, share)
	}
	return nil
}

// train learns the tokenizer from training documents of all sources, taken in
// turn so that each gives about the same number of bytes, up to train_bytes.
func (b *builder) train(ctx context.Context) error {
	type feed struct {
		next  func() ([]byte, error, bool)
		taken int64
	}
	var feeds []*feed
	for _, s := range b.sources {
		next, stop := iter.Pull2(s.documents(ctx))
		defer stop()
		feeds = append(feeds, &feed{next: next})
	}
	trainer := NewTrainer()
	limit := b.cfg.Tokenizer.TrainBytes
	total := min(limit, b.size())
	var done int64
	for done < limit && len(feeds) > 0 {
		least := 0
		for i, f := range feeds {
			if f.taken < feeds[least].taken {
				least = i
			}
		}
		doc, err, ok := feeds[least].next()
		if err != nil {
			return err
		}
		if !ok {
			feeds = append(feeds[:least], feeds[least+1:]...)
			continue
		}
		if sideOf(doc, b.cfg.ValidationShare) == validation {
			continue
		}
		doc = cut(doc, limit-done)
		if len(doc) == 0 {
			break
		}
		trainer.Add(doc)
		feeds[least].taken += int64(len(doc))
		done += int64(len(doc))
		b.progress("read for tokenizer", done, total)
	}
	vocab := b.cfg.Tokenizer.Vocab
	var err error
	b.tokenizer, err = trainer.Train(ctx, vocab, func(n int) { b.progress("train tokenizer", int64(n), int64(vocab)) })
	return err
}

// tokenise writes the four files of one source.
func (b *builder) tokenise(ctx context.Context, index int, s *source, m *Manifest, read func(bytes int64)) (_ SourceSummary, err error) {
	var sides [2]*shardWriter
	defer func() {
		for _, w := range sides {
			if w != nil {
				err = errors.Join(err, w.close())
			}
		}
	}()
	for side := range sides {
		w, err := createShard(shardPath(b.dir, index, split(side)), m.Width)
		if err != nil {
			return SourceSummary{}, err
		}
		sides[side] = w
	}
	var ids []int32
	for doc, err := range s.documents(ctx) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return SourceSummary{}, err
		}
		side := sideOf(doc, b.cfg.ValidationShare)
		ids = b.tokenizer.Encode(doc, append(ids[:0], BOS))
		if err := sides[side].add(ids, len(doc)); err != nil {
			return SourceSummary{}, err
		}
		if side == train {
			for _, id := range ids {
				m.Counts[id]++
			}
		}
		read(int64(len(doc)))
	}
	summary := SourceSummary{Name: s.Name}
	if summary.Train, err = sides[train].finish(); err != nil {
		return SourceSummary{}, err
	}
	summary.Validation, err = sides[validation].finish()
	return summary, err
}

// shardWriter writes the tokens and offsets of one side of one source.
type shardWriter struct {
	summary         SplitSummary
	width           int
	tokens, offsets hashedFile
	scratch         []byte
}

// hashedFile is a file whose content is hashed as it is written.
type hashedFile struct {
	*bufio.Writer
	file *os.File
	sum  hash.Hash
}

func createHashed(path string) (hashedFile, error) {
	f, err := os.Create(path)
	if err != nil {
		return hashedFile{}, err
	}
	sum := sha256.New()
	return hashedFile{bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<18), f, sum}, nil
}

// finish flushes to the disk and returns the hash.
func (h hashedFile) finish() (string, error) {
	if err := h.Flush(); err != nil {
		return "", fmt.Errorf("write %s: %w", h.file.Name(), err)
	}
	if err := h.file.Sync(); err != nil {
		return "", fmt.Errorf("sync %s: %w", h.file.Name(), err)
	}
	return hex.EncodeToString(h.sum.Sum(nil)), nil
}

func createShard(path string, width int) (*shardWriter, error) {
	tokens, err := createHashed(path + tokensExt)
	if err != nil {
		return nil, err
	}
	offsets, err := createHashed(path + offsetsExt)
	if err != nil {
		return nil, errors.Join(err, tokens.file.Close())
	}
	return &shardWriter{width: width, tokens: tokens, offsets: offsets}, nil
}

// add appends one document, which had textBytes bytes.
func (w *shardWriter) add(ids []int32, textBytes int) error {
	if err := w.markStart(); err != nil {
		return err
	}
	w.scratch = w.scratch[:0]
	for _, id := range ids {
		if w.width == 2 {
			w.scratch = binary.LittleEndian.AppendUint16(w.scratch, uint16(id))
		} else {
			w.scratch = binary.LittleEndian.AppendUint32(w.scratch, uint32(id))
		}
	}
	if _, err := w.tokens.Write(w.scratch); err != nil {
		return fmt.Errorf("write %s: %w", w.tokens.file.Name(), err)
	}
	w.summary.Documents++
	w.summary.Bytes += int64(textBytes)
	w.summary.Tokens += int64(len(ids))
	return nil
}

// markStart notes where the next document starts, or where the last one ended.
func (w *shardWriter) markStart() error {
	w.scratch = binary.LittleEndian.AppendUint64(w.scratch[:0], uint64(w.summary.Tokens))
	if _, err := w.offsets.Write(w.scratch); err != nil {
		return fmt.Errorf("write %s: %w", w.offsets.file.Name(), err)
	}
	return nil
}

func (w *shardWriter) finish() (_ SplitSummary, err error) {
	if err := w.markStart(); err != nil {
		return SplitSummary{}, err
	}
	if w.summary.TokensSHA256, err = w.tokens.finish(); err != nil {
		return SplitSummary{}, err
	}
	if w.summary.OffsetsSHA256, err = w.offsets.finish(); err != nil {
		return SplitSummary{}, err
	}
	return w.summary, nil
}

func (w *shardWriter) close() error {
	return errors.Join(w.tokens.file.Close(), w.offsets.file.Close())
}
