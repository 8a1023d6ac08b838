package corpus

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"unicode/utf8"
)

// source is one body of text with its files found but not yet read.
type source struct {
	Source
	files []sourceFile
}

// sourceFile is one file of a source. The exported fields go into the cache key.
type sourceFile struct {
	Path    string // as opened
	Size    int64
	ModTime int64 // ns since 1970

	name string // relative to the source's root, with slashes
}

// list finds the files of a source. Relative paths start at dir.
func list(ctx context.Context, cfg Source, dir string) (*source, error) {
	s := &source{Source: cfg}
	var err error
	switch cfg.Kind {
	case GoTree:
		var root string
		if root, err = goRoot(ctx); err == nil {
			s.files, err = goTree(ctx, root, cfg)
		}
	case Tree:
		s.files, err = walkTree(ctx, inDir(dir, cfg.Path), cfg.Include, cfg.Exclude)
	case Text, JSONL:
		s.files, err = matchFiles(inDir(dir, cfg.Path))
	default:
		err = fmt.Errorf("unknown kind %q", cfg.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("source %q: %w", cfg.Name, err)
	}
	return s, nil
}

// documents yields the source's text, document by document in an order that
// depends on the files alone. It ends at max_bytes, where the last document is
// cut, and after the first error. A document's bytes are valid until the next one.
func (s *source) documents(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		left := s.MaxBytes
		take := func(doc []byte) bool {
			if len(doc) == 0 {
				return true
			}
			if s.MaxBytes == 0 {
				return yield(doc, nil)
			}
			whole := len(doc)
			doc = cut(doc, left)
			left -= int64(len(doc))
			return len(doc) > 0 && yield(doc, nil) && len(doc) == whole && left > 0
		}
		for _, f := range s.files {
			more, err := s.read(ctx, f, take)
			if err != nil {
				yield(nil, fmt.Errorf("source %q: %w", s.Name, err))
				return
			}
			if !more {
				return
			}
		}
	}
}

// cut shortens doc to at most limit bytes, not inside a UTF-8 character.
func cut(doc []byte, limit int64) []byte {
	if int64(len(doc)) <= limit {
		return doc
	}
	end := int(limit)
	for end > 0 && end > int(limit)-utf8.UTFMax && !utf8.RuneStart(doc[end]) {
		end--
	}
	return doc[:end]
}

// read hands the documents of one file to take until take wants no more.
func (s *source) read(ctx context.Context, f sourceFile, take func([]byte) bool) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	r, err := openText(f.Path)
	if err != nil {
		return false, err
	}
	defer r.Close()
	if s.Kind == JSONL {
		return readJSONL(ctx, f.Path, r, s.Field, take)
	}
	limit := int64(maxDocument)
	if s.MaxBytes > 0 {
		limit = min(limit, s.MaxBytes+utf8.UTFMax) // more would be cut off again
	}
	doc, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return false, fmt.Errorf("read %s: %w", f.Path, err)
	}
	if len(doc) > maxDocument {
		return false, fmt.Errorf("%s is larger than %d MB, too large for one document: split it, or make it JSONL", f.Path, maxDocument>>20)
	}
	for s.Separator != "" {
		i := bytes.Index(doc, []byte(s.Separator))
		if i < 0 {
			break
		}
		if i > 0 && !take(doc[:i+len(s.Separator)]) {
			return false, nil
		}
		doc = doc[i+len(s.Separator):]
	}
	return take(doc), nil
}

// maxDocument bounds the memory that one document may take, in bytes.
const maxDocument = 256 << 20

// found turns a regular file into a sourceFile.
func found(path, name string, info fs.FileInfo) sourceFile {
	return sourceFile{Path: path, Size: info.Size(), ModTime: info.ModTime().UnixNano(), name: name}
}

// size is the number of bytes that reading will yield at most, or 0 where
// compression hides it; for progress only.
func (s *source) size() int64 {
	var sum int64
	for _, f := range s.files {
		if compressed(f.Path) {
			return s.MaxBytes
		}
		sum += f.Size
	}
	if s.MaxBytes > 0 {
		return min(sum, s.MaxBytes)
	}
	return sum
}

// statFile describes a regular file.
func statFile(path, name string) (sourceFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return sourceFile{}, err
	}
	if !info.Mode().IsRegular() {
		return sourceFile{}, fmt.Errorf("%s is not a regular file", path)
	}
	return found(path, name, info), nil
}
