package corpus

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// texts reads a whole source.
func texts(t testing.TB, cfg Source, dir string) ([]string, error) {
	t.Helper()
	s, err := list(context.Background(), cfg, dir)
	if err != nil {
		return nil, err
	}
	var docs []string
	for doc, err := range s.documents(context.Background()) {
		if err != nil {
			return docs, err
		}
		docs = append(docs, string(doc))
	}
	return docs, nil
}

func TestTreeKeepsWhatGlobsSay(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.md", "sub/b.md", "sub/deep/c.md", "sub/c.txt", ".git/d.md", "skip/e.md", "empty.md"} {
		content := name
		if name == "empty.md" {
			content = ""
		}
		writeFile(t, filepath.Join(dir, "docs", name), content)
	}
	cfg := Source{Name: "docs", Kind: Tree, Path: "docs", Include: []string{"**/*.md"}, Exclude: []string{"skip/**"}}
	got, err := texts(t, cfg, dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := texts(t, cfg, dir)
	if err != nil || !slices.Equal(got, again) {
		t.Errorf("second reading gives %q, %v", again, err)
	}
	slices.Sort(got)
	if want := []string{"a.md", "sub/b.md", "sub/deep/c.md"}; !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
}

func TestGoTreeIsSampledAcrossPackages(t *testing.T) {
	if _, err := goRoot(context.Background()); err != nil {
		t.Skip(err)
	}
	s, err := list(context.Background(), Source{Name: "go", Kind: GoTree}, "")
	if err != nil {
		t.Skip(err)
	}
	firsts := map[byte]bool{}
	for i, f := range s.files {
		if strings.Contains("/"+f.name, "/testdata/") || strings.Contains("/"+f.name, "/vendor/") || !strings.HasSuffix(f.name, ".go") {
			t.Fatalf("%s does not belong", f.name)
		}
		if i < 200 {
			firsts[f.name[0]] = true
		}
	}
	if len(s.files) < 1000 || len(firsts) < 8 {
		t.Errorf("%d files; the first 200 begin with %d letters", len(s.files), len(firsts))
	}
}

func TestMissingGoTree(t *testing.T) {
	_, err := goTree(context.Background(), filepath.Join(t.TempDir(), "nowhere"), Source{})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no Go source tree in GOROOT") {
		t.Errorf("error %v", err)
	}
	_, err = goTree(context.Background(), t.TempDir(), Source{})
	if err == nil || !strings.Contains(err.Error(), "no Go source tree in GOROOT") {
		t.Errorf("a root without src: error %v", err)
	}
}

func TestMaxBytesCutsTheLastDocument(t *testing.T) {
	dir := t.TempDir()
	writeJSONL(t, filepath.Join(dir, "x.jsonl"), []string{"abcd", "efé!", "never"})
	for limit, want := range map[int64]string{4: "abcd", 5: "abcd|e", 7: "abcd|ef", 8: "abcd|efé", 9: "abcd|efé!", 100: "abcd|efé!|never"} {
		got, err := texts(t, Source{Name: "x", Kind: JSONL, Path: "x.jsonl", Field: "text", MaxBytes: limit}, dir)
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("max_bytes %d: %q, %v, want %q", limit, got, err, want)
		}
	}
	writeFile(t, filepath.Join(dir, "x.txt"), strings.Repeat("é", 100))
	got, err := texts(t, Source{Name: "x", Kind: Text, Path: "*.txt", MaxBytes: 5}, dir)
	if err != nil || !slices.Equal(got, []string{"éé"}) {
		t.Errorf("text: %q, %v", got, err)
	}
}

func TestCompressedJSONL(t *testing.T) {
	dir := t.TempDir()
	want := sentences(50, 3)
	want[7] = strings.Repeat("a long document ", 1<<17) // 2 MB, longer than any buffer
	writeJSONL(t, filepath.Join(dir, "x.jsonl"), want)
	plain, err := os.ReadFile(filepath.Join(dir, "x.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed, zstd.WithWindowSize(128<<20)) // as zstd --long=27
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "x.jsonl.zst"), packed.String())
	writeFile(t, filepath.Join(dir, "cut.jsonl.zst"), packed.String()[:packed.Len()*2/3])
	packed.Reset()
	g := gzip.NewWriter(&packed)
	if _, err := g.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "x.jsonl.gz"), packed.String())
	for _, name := range []string{"x.jsonl", "x.jsonl.zst", "x.jsonl.gz"} {
		got, err := texts(t, Source{Name: "x", Kind: JSONL, Path: name, Field: "text"}, dir)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d documents, %v", name, len(got), err)
		}
	}
	if _, err := texts(t, Source{Name: "x", Kind: JSONL, Path: "cut.jsonl.zst", Field: "text"}, dir); err == nil || !strings.Contains(err.Error(), "cut.jsonl.zst:") {
		t.Errorf("a truncated file: error %v", err)
	}
}

func TestSourceErrorsSayWhere(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "field.jsonl"), "{\"text\":\"a\"}\n\n{\"body\":\"b\",\"id\":3}\n")
	writeFile(t, filepath.Join(dir, "number.jsonl"), `{"text":17}`)
	writeFile(t, filepath.Join(dir, "null.jsonl"), `{"text":null}`)
	writeFile(t, filepath.Join(dir, "broken.jsonl"), "{\"text\":\"a\"}\n{\"text\":")
	writeFile(t, filepath.Join(dir, "plain.gz"), "not compressed")
	for _, c := range []struct {
		cfg  Source
		want string
	}{
		{Source{Kind: JSONL, Path: "field.jsonl"}, `field.jsonl:3: field "text" is missing; fields there: body, id`},
		{Source{Kind: JSONL, Path: "number.jsonl"}, `number.jsonl:1: field "text" is not a string`},
		{Source{Kind: JSONL, Path: "null.jsonl"}, `null.jsonl:1: field "text" is not a string`},
		{Source{Kind: JSONL, Path: "broken.jsonl"}, `broken.jsonl:2: not a JSON object`},
		{Source{Kind: JSONL, Path: "absent.jsonl"}, `absent.jsonl: no such file`},
		{Source{Kind: JSONL, Path: "*.parquet"}, `no file matches`},
		{Source{Kind: Text, Path: "plain.gz"}, `decompress`},
		{Source{Kind: Tree, Path: "absent"}, `absent: no such file`},
		{Source{Kind: Tree, Path: "field.jsonl"}, `is not a directory`},
		{Source{Kind: Tree, Path: ".", Include: []string{"*.go"}}, `no file in`},
		{Source{Kind: Text, Path: "."}, `is not a regular file`},
	} {
		c.cfg.Name, c.cfg.Field = "mine", "text"
		_, err := texts(t, c.cfg, dir)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), `source "mine": `) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %s: error %v, want %s", c.cfg.Kind, c.cfg.Path, err, c.want)
		}
	}
}

func TestReadingStopsWithContext(t *testing.T) {
	dir := t.TempDir()
	writeJSONL(t, filepath.Join(dir, "x.jsonl"), sentences(50, 3))
	s, err := list(context.Background(), Source{Name: "x", Kind: JSONL, Path: "x.jsonl", Field: "text"}, dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	read := 0
	for _, err := range s.documents(ctx) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			continue
		}
		if read++; read == 3 {
			cancel()
		}
	}
	cancel()
	if read != 3 {
		t.Errorf("%d documents after the end", read-3)
	}
}

func TestSeparatorCutsAFileIntoDocuments(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "book.txt")
	if err := os.WriteFile(path, []byte("one\n\ntwo\nstill two\n\n\n\nthree"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := list(context.Background(), Source{Name: "book", Kind: Text, Path: path, Separator: "\n\n"}, "")
	if err != nil {
		t.Fatal(err)
	}
	var docs []string
	for doc, err := range s.documents(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(doc))
	}
	if want := []string{"one\n\n", "two\nstill two\n\n", "three"}; !slices.Equal(docs, want) {
		t.Errorf("documents %q, want %q", docs, want)
	}
}

func TestPreviewFindsWhatARunWouldStumbleOver(t *testing.T) {
	cfg, dir := twoSources(t)
	if err := Preview(context.Background(), cfg, dir); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"missing file":  func(c *Config) { c.Sources[0].Path = "nowhere.jsonl" },
		"missing field": func(c *Config) { c.Sources[0].Field = "body" },
		"no match":      func(c *Config) { c.Sources[1].Include = []string{"*.none"} },
	} {
		cfg, dir := twoSources(t)
		change(&cfg)
		if err := Preview(context.Background(), cfg, dir); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line", name, err)
		}
	}
}
