package corpus

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// documentsOf decodes one side of a source.
func documentsOf(t testing.TB, c *Corpus, side split, source int) []string {
	t.Helper()
	sh := &c.shards.sides[side][source]
	var docs []string
	for i := range sh.documents() {
		ids := make([]int32, sh.start(i+1)-sh.start(i))
		sh.read(ids, sh.start(i))
		if ids[0] != BOS || slices.Contains(ids[1:], BOS) {
			t.Fatalf("document %d: BOS must come first and only there: %v", i, ids)
		}
		docs = append(docs, string(c.Tokenizer.Decode(ids)))
	}
	return docs
}

func TestShardsHoldEveryDocumentOnce(t *testing.T) {
	cfg, dir := twoSources(t)
	c := opened(t, cfg, dir)
	counts := make([]int64, c.Tokenizer.Vocab())
	for i, want := range [][]string{sentences(300, 1), sentences(60, 2)} {
		trainDocs, validationDocs := documentsOf(t, c, train, i), documentsOf(t, c, validation, i)
		got := append(slices.Clone(trainDocs), validationDocs...)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("source %d: documents changed", i)
		}
		m := c.Manifest.Sources[i]
		bytes := int64(len(strings.Join(trainDocs, "")))
		if m.Train.Documents != int64(len(trainDocs)) || m.Train.Bytes != bytes || m.Validation.Documents != int64(len(validationDocs)) {
			t.Errorf("source %d: manifest %+v, but %d + %d documents, %d bytes", i, m, len(trainDocs), len(validationDocs), bytes)
		}
		sh := &c.shards.sides[train][i]
		for at := range sh.length() {
			counts[sh.token(at)]++
		}
	}
	if !slices.Equal(counts, c.Counts()) {
		t.Error("counts are not those of the training tokens")
	}
	share := float64(c.Manifest.Sources[0].Validation.Documents) / 300
	if share < 0.04 || share > 0.18 {
		t.Errorf("validation share %.3f, asked for 0.1", share)
	}
}

func TestSplitDependsOnContentAlone(t *testing.T) {
	side := func(docs []string) map[string]split {
		dir := t.TempDir()
		writeJSONL(t, filepath.Join(dir, "x.jsonl"), docs)
		c := opened(t, Config{
			Tokenizer:       TokenizerConfig{Vocab: 272, TrainBytes: 1000},
			Sources:         []Source{{Name: "x", Kind: JSONL, Path: "x.jsonl", Field: "text"}},
			ValidationShare: 0.2,
		}, dir)
		out := map[string]split{}
		for _, s := range []split{train, validation} {
			for _, doc := range documentsOf(t, c, s, 0) {
				if was, twice := out[doc]; twice && was != s {
					t.Errorf("duplicates of %q lie on both sides", doc)
				}
				out[doc] = s
			}
		}
		return out
	}
	docs := sentences(200, 4)
	first := side(append(slices.Clone(docs), docs[:50]...)) // with duplicates
	slices.Reverse(docs)
	second := side(docs[:150]) // other order, other company
	for doc, s := range second {
		if first[doc] != s {
			t.Errorf("%q changed sides", doc)
		}
	}
}

func TestWideTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	w, err := createShard(path, 4)
	if err != nil {
		t.Fatal(err)
	}
	want := []int32{BOS, 70000, 65536, 272}
	if err := w.add(want, 9); err != nil {
		t.Fatal(err)
	}
	if _, err := w.finish(); err != nil {
		t.Fatal(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	data, release, err := mapFile(path + tokensExt)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	sh := &shard{tokens: data, width: 4}
	got := make([]int32, len(want))
	sh.read(got, 0)
	if !slices.Equal(got, want) || sh.token(1) != 70000 || sh.length() != 4 {
		t.Errorf("read %v", got)
	}
}

func TestSecondRunReusesShards(t *testing.T) {
	cfg, dir := twoSources(t)
	cache := t.TempDir()
	first := openedIn(t, cfg, dir, cache)
	second := openedIn(t, cfg, dir, cache)
	if first.Reused || !second.Reused || first.Hash() != second.Hash() || !strings.Contains(strings.Join(second.Notes, "\n"), "reused") {
		t.Errorf("reused %v then %v, hashes %s %s, notes %q", first.Reused, second.Reused, first.Hash(), second.Hash(), second.Notes)
	}

	other := cfg
	other.Phases, other.Tasks = nil, nil // no part of the text
	if c := openedIn(t, other, dir, cache); !c.Reused {
		t.Error("the curriculum made the text be read again")
	}
	other.ValidationShare = 0.2
	if c := openedIn(t, other, dir, cache); c.Reused || c.Hash() == first.Hash() {
		t.Error("another split was not built")
	}
	writeJSONL(t, filepath.Join(dir, "notes.jsonl"), sentences(61, 2))
	if c := openedIn(t, cfg, dir, cache); c.Reused || c.Hash() == first.Hash() {
		t.Error("changed text was not read again")
	}
}

func TestHashIsThatOfTheContent(t *testing.T) {
	cfg, dir := twoSources(t)
	_, elsewhere := twoSources(t)
	if a, b := opened(t, cfg, dir), opened(t, cfg, elsewhere); a.Hash() != b.Hash() || a.Manifest.Key == b.Manifest.Key {
		t.Errorf("equal text in two places: hashes %s %s, keys %s %s", a.Hash(), b.Hash(), a.Manifest.Key, b.Manifest.Key)
	}
}

func TestDamagedCacheIsBuiltAnew(t *testing.T) {
	cfg, dir := twoSources(t)
	cache := t.TempDir()
	first := openedIn(t, cfg, dir, cache)
	home := filepath.Join(cache, first.Manifest.Key)
	flip := func(path string) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	damages := map[string]func(path string){
		"00.train.tokens": flip, "01.validation.tokens": func(path string) { os.Truncate(path, 100) }, "00.train.offsets": flip,
		"01.train.offsets": func(path string) { os.Remove(path) }, manifestName: func(path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			other := strings.Replace(string(data), `"counts":[0,`, `"counts":[7,`, 1)
			if other == string(data) {
				t.Fatal("PAD's count is not where it was thought")
			}
			writeFile(t, path, other)
		}, tokenizerName: func(path string) { os.Truncate(path, 0) },
	}
	names, err := os.ReadDir(home)
	if err != nil || len(names) != 10 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for name, damage := range damages {
		// A copy is damaged and put in place, as another process may have the files mapped.
		aside := home + ".copy"
		if err := os.CopyFS(aside, os.DirFS(home)); err != nil {
			t.Fatal(err)
		}
		damage(filepath.Join(aside, name))
		if err := os.RemoveAll(home); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(aside, home); err != nil {
			t.Fatal(err)
		}
		c := openedIn(t, cfg, dir, cache)
		if c.Reused || c.Hash() != first.Hash() || !strings.Contains(strings.Join(c.Notes, "\n"), "damaged") {
			t.Errorf("%s: reused %v, notes %q", name, c.Reused, c.Notes)
		}
		if c := openedIn(t, cfg, dir, cache); !c.Reused {
			t.Errorf("%s: still not whole", name)
		}
	}
	// What is open is not disturbed by all that.
	if docs := documentsOf(t, first, train, 0); len(docs) != int(first.Manifest.Sources[0].Train.Documents) {
		t.Error("an open corpus lost its documents")
	}
}

func TestKilledBuildIsClearedAway(t *testing.T) {
	cfg, dir := twoSources(t)
	cache := t.TempDir()
	key := openedIn(t, cfg, dir, cache).Manifest.Key
	if err := os.RemoveAll(filepath.Join(cache, key)); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(cache, key+".building-123")
	writeFile(t, filepath.Join(left, "00.train.tokens"), "half")
	openedIn(t, cfg, dir, cache)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", left, err)
	}
}

func TestCancelledBuildLeavesNothing(t *testing.T) {
	cfg, dir := twoSources(t)
	cache := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := Open(ctx, cfg, dir, cache, func(stage string, _, _ int64) {
		if stage == "tokenise" {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 1 || !strings.HasSuffix(entries[0].Name(), ".lock") {
		t.Errorf("left %v, %v", entries, err)
	}
}

// Environment of the processes that TestTwoProcessesBuildAtOnce starts.
const childDir, childCache = "CORPUS_TEST_DIR", "CORPUS_TEST_CACHE"

func TestTwoProcessesBuildAtOnce(t *testing.T) {
	cfg, dir := twoSources(t)
	if child := os.Getenv(childDir); child != "" {
		openedIn(t, cfg, child, os.Getenv(childCache))
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	results := make(chan error)
	for range 3 {
		go func() {
			cmd := exec.Command(self, "-test.run=^TestTwoProcessesBuildAtOnce$")
			cmd.Env = append(os.Environ(), childDir+"="+dir, childCache+"="+cache)
			out, err := cmd.CombinedOutput()
			if err != nil {
				err = errors.New(string(out))
			}
			results <- err
		}()
	}
	for range 3 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 2 {
		t.Errorf("cache holds %v, %v; want the shards and their lock", entries, err)
	}
	if !openedIn(t, cfg, dir, cache).Reused {
		t.Error("no whole cache is left")
	}
}

func TestReadOnlyCacheIsEnough(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("needs a user whom permissions bind")
	}
	cfg, dir := twoSources(t)
	cache := t.TempDir()
	openedIn(t, cfg, dir, cache)
	if err := os.Chmod(cache, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(cache, 0o755)
	if !openedIn(t, cfg, dir, cache).Reused {
		t.Error("not reused")
	}
}

func TestEmptyCorpora(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "none.jsonl"), "\n{\"text\":\"\"}\n")
	writeJSONL(t, filepath.Join(dir, "one.jsonl"), []string{"the only document"})
	for path, want := range map[string]string{
		"none.jsonl":   "corpus is empty: source \"x\" holds no text",
		"one.jsonl":    "corpus has no validation document",
		"absent.jsonl": "no such file",
	} {
		_, err := Open(context.Background(), Config{
			Tokenizer:       TokenizerConfig{Vocab: 300, TrainBytes: 1000},
			Sources:         []Source{{Name: "x", Kind: JSONL, Path: path, Field: "text"}},
			ValidationShare: 0.05,
		}, dir, t.TempDir(), nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %s", path, err, want)
		}
	}
}

func TestSmallTextSaysThatTheVocabularyIsSmaller(t *testing.T) {
	cfg, dir := twoSources(t)
	cfg.Tokenizer.Vocab = 100000
	c := opened(t, cfg, dir)
	if v := c.Tokenizer.Vocab(); v >= 100000 || len(c.Counts()) != v || !strings.Contains(strings.Join(c.Notes, "\n"), "vocabulary is") {
		t.Errorf("vocabulary %d, notes %q", v, c.Notes)
	}
}

func TestGivenTokenizer(t *testing.T) {
	cfg, dir := twoSources(t)
	tok := trained(t, 330, prose)
	if err := tok.Save(filepath.Join(dir, "tok.json")); err != nil {
		t.Fatal(err)
	}
	cfg.Tokenizer = TokenizerConfig{File: "tok.json"}
	if c := opened(t, cfg, dir); c.Tokenizer.Hash() != tok.Hash() {
		t.Error("another tokenizer was used")
	}
	cfg.Tokenizer.File = "absent.json"
	if _, err := Open(context.Background(), cfg, dir, t.TempDir(), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
