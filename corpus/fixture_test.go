package corpus

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sentences makes n different documents of 1 to 60 words each.
func sentences(n int, seed int64) []string {
	words := strings.Fields(prose)
	r := newStream(seed, "sentences", 0)
	docs := make([]string, n)
	for i := range docs {
		var b strings.Builder
		for range 1 + r.below(60) {
			at := min(r.below(int64(len(words))), r.below(int64(len(words)))) // some words more often
			b.WriteString(words[at])
			b.WriteByte(" \n"[r.below(8)/7])
		}
		docs[i] = b.String() + string(rune('a'+i%26))
	}
	return docs
}

// writeJSONL writes documents under the field "text".
func writeJSONL(t testing.TB, path string, docs []string) {
	t.Helper()
	var b strings.Builder
	for i, doc := range docs {
		row, err := json.Marshal(map[string]any{"text": doc, "id": i})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(row)
		b.WriteByte('\n')
	}
	writeFile(t, path, b.String())
}

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// twoSources is a configuration over books.jsonl (300 documents) and notes.jsonl (60).
func twoSources(t testing.TB) (cfg Config, dir string) {
	t.Helper()
	dir = t.TempDir()
	writeJSONL(t, filepath.Join(dir, "books.jsonl"), sentences(300, 1))
	writeJSONL(t, filepath.Join(dir, "notes.jsonl"), sentences(60, 2))
	return Config{
		Tokenizer: TokenizerConfig{Vocab: 350, TrainBytes: 1 << 20},
		Sources: []Source{
			{Name: "books", Kind: JSONL, Path: "books.jsonl", Field: "text"},
			{Name: "notes", Kind: JSONL, Path: "notes.jsonl", Field: "text"},
		},
		Tasks: []Task{
			{Name: "induct", Kind: Induct},
			{Name: "pairs", Kind: Induct, Min: 2, Max: 4, Queries: 3, Alphabet: 64},
			{Name: "before", Kind: Before, Alphabet: 64},
			{Name: "shift", Kind: Shift},
			{Name: "copy", Kind: Copy},
			{Name: "add", Kind: Add},
		},
		Phases: []Phase{
			{Until: 0.5, Weights: map[string]float64{"books": 5, "notes": 1, "induct": 2, "pairs": 1, "add": 1}},
			{Until: 1, Weights: map[string]float64{"books": 0.7, "shift": 0.1, "copy": 0.1, "before": 0.1}},
		},
		ValidationShare: 0.1,
	}, dir
}

// opened opens cfg with a cache of its own.
func opened(t testing.TB, cfg Config, dir string) *Corpus {
	t.Helper()
	return openedIn(t, cfg, dir, t.TempDir())
}

func openedIn(t testing.TB, cfg Config, dir, cache string) *Corpus {
	t.Helper()
	c, err := Open(context.Background(), cfg, dir, cache, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
