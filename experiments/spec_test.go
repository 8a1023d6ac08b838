package experiments

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with testdata/name, or writes it there.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs from what is made now (-update rewrites it); got\n%s", path, got)
	}
}

// committed lists every spec of the repository, those of the tests too.
func committed(t *testing.T) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".yaml" && !strings.HasSuffix(path, ".resolved.yaml") {
			list = append(list, path)
		}
		return err
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("found %d specs, %v", len(list), err)
	}
	return list
}

func TestEveryCommittedSpecLoads(t *testing.T) {
	for _, path := range committed(t) {
		spec, err := Load(path, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		expectSame(t, spec)
	}
}

// expectSame fails unless the resolved YAML of spec parses to the same spec, from
// another directory, and is its own canonical form.
func expectSame(t *testing.T, spec *Spec) {
	t.Helper()
	text := spec.YAML()
	back, err := Parse("/elsewhere/resolved.yaml", []byte(text), nil)
	if err != nil {
		t.Errorf("resolved YAML of %s is refused: %v\n%s", spec.Name, err, text)
		return
	}
	if !reflect.DeepEqual(spec, back) {
		t.Errorf("resolved YAML of %s parses to another spec:\n%+v\n%+v", spec.Name, spec, back)
	}
	if back.YAML() != text || back.Hash() != spec.Hash() {
		t.Errorf("resolved YAML of %s is not stable:\n%s\n%s", spec.Name, text, back.YAML())
	}
}

func TestResolvedGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, ".resolved.yaml") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// A made-up directory: the golden file must not hold that of a checkout.
		spec, err := Parse("/specs/"+filepath.Base(path), text, nil)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		golden(t, name+".resolved.yaml", []byte(spec.YAML()))
	}
}

func TestTemplate(t *testing.T) {
	golden(t, "template.yaml.golden", Template())
	spec, err := Parse("/specs/template.yaml", Template(), nil)
	if err != nil {
		t.Fatal(err)
	}
	expectSame(t, spec)

	// With every comment that holds a key opened, the same experiment: what the
	// comments claim as defaults are the defaults.
	var open strings.Builder
	for line := range strings.Lines(string(Template())) {
		code, _, _ := strings.Cut(strings.TrimSpace(line), " # ")
		if comment, ok := strings.CutPrefix(code, "# "); ok && strings.Contains(comment, ":") && !strings.HasPrefix(line, "# An ") {
			line = strings.Replace(line, "# ", "", 1)
		}
		open.WriteString(line)
	}
	opened, err := Parse("/specs/template.yaml", []byte(open.String()), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, open.String())
	}
	if opened.YAML() != spec.YAML() || strings.Contains(open.String(), "\n  # ") {
		t.Errorf("the commented values are not the defaults:\n%s", opened.YAML())
	}
}

func TestEmptySectionsAreDefaults(t *testing.T) {
	plain, err := Parse("/specs/a.yaml", []byte(minimal), nil)
	if err != nil {
		t.Fatal(err)
	}
	empty, err := Parse("/specs/a.yaml", []byte(minimal+"  phases:\nmodel:\n  layers:\ntrain:\n  loss: {}\ntags: []\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(plain, empty) {
		t.Errorf("got %+v\nwant %+v", empty, plain)
	}
}

const withPaths = minimal + `    - {name: near, kind: text, path: ./data/../data/a.txt}
    - {name: up, kind: tree, path: ../b}
    - {name: fixed, kind: text, path: /data/c.txt}
  tokenizer: {file: tok/tokenizer.json}
`

func TestPathsCountFromTheSpec(t *testing.T) {
	spec, err := Parse("/repo/specs/exp.yaml", []byte(withPaths), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, path := range spec.paths() {
		got = append(got, *path)
	}
	want := []string{"/repo/specs/tok/tokenizer.json", "", "/repo/specs/data/a.txt", "/repo/b", "/data/c.txt"}
	if !reflect.DeepEqual(got, want) || spec.Base != "/repo/specs" {
		t.Errorf("got %q from %s, want %q", got, spec.Base, want)
	}
	moved, err := Parse("/repo/specs/exp.yaml", []byte(withPaths), []string{"base=../texts"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := moved.Corpus.Sources[1].Path, "/repo/texts/data/a.txt"; got != want {
		t.Errorf("with a base: got %s, want %s", got, want)
	}
	expectSame(t, moved)
	expectSame(t, spec)
	for _, part := range []string{"base: /repo/specs\n", "path: data/a.txt\n", "path: ../b\n", "path: /data/c.txt\n", "file: tok/tokenizer.json\n"} {
		if !strings.Contains(spec.YAML(), part) {
			t.Errorf("the resolved YAML lacks %q:\n%s", part, spec.YAML())
		}
	}
}

func TestLoadCountsPathsFromTheFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "exp.yaml"), []byte(withPaths), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	spec, err := Load("exp.yaml", []string{"corpus.sources.up.path=c"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := spec.Corpus.Sources[2].Path, filepath.Join(spec.Base, "c"); got != want || !filepath.IsAbs(got) {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := Load("absent.yaml", nil); err == nil || err.Error() != "load spec: open absent.yaml: no such file or directory" {
		t.Errorf("got %v", err)
	}
}

func TestHashIsOfTheExperimentOnly(t *testing.T) {
	hash := func(file, text string, overrides ...string) string {
		t.Helper()
		spec, err := Parse(file, []byte(text), overrides)
		if err != nil {
			t.Fatal(err)
		}
		return spec.Hash()
	}
	base := hash("/a/exp.yaml", withPaths)
	if len(base) != 64 {
		t.Fatalf("hash %q", base)
	}
	for what, same := range map[string]string{
		"another place":      hash("/b/c/exp.yaml", withPaths),
		"labels":             hash("/a/exp.yaml", withPaths, "name=b", "notes=c", "tags=[d]"),
		"a default spelt":    hash("/a/exp.yaml", withPaths, "train.optimizer.lr=0.03%"),
		"comments and order": hash("/a/exp.yaml", "# c\nseed: 1\n"+withPaths),
		"another spelling":   hash("/a/exp.yaml", strings.Replace(withPaths, "./data/../data/a.txt", "data//a.txt", 1)),
	} {
		if same != base {
			t.Errorf("%s changed the hash", what)
		}
	}
	for _, override := range []string{"seed=2", "budget=2M", "train.optimizer.lr=1e-3", "corpus.sources[1].path=data/b.txt", "corpus.sources[3].path=/data/d.txt", "model.layers[0]=swa"} {
		if hash("/a/exp.yaml", withPaths, override) == base {
			t.Errorf("%s did not change the hash", override)
		}
	}
}

func TestTextIsWhatWasWritten(t *testing.T) {
	// By field type: words that YAML versions take for booleans, numbers, dates or
	// nothing are text where text is wanted.
	text := strings.Replace(minimal, "name: a", "name: 1e-3", 1) + "tags: [yes, on, 010, 1_0, 2024-01-01, .5, '~', '', ' a', 'a: b', \"t\\tn\\n\\u0001é\"]\nnotes: |\n  one\n  two\n"
	spec, err := Parse("/specs/a.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"yes", "on", "010", "1_0", "2024-01-01", ".5", "~", "", " a", "a: b", "t\tn\n\x01é"}
	if !reflect.DeepEqual(spec.Tags, want) || spec.Name != "1e-3" || spec.Notes != "one\ntwo\n" {
		t.Errorf("got %q %q %q", spec.Name, spec.Tags, spec.Notes)
	}
	expectSame(t, spec)
}

func FuzzParse(f *testing.F) {
	f.Add(minimal, "train.optimizer.lr=1e-3")
	f.Add(withPaths, "corpus.sources[0].max_bytes=1MB")
	f.Add(withTasks, "corpus.tasks.shift.max=12")
	f.Add(withMoE, "grow[0].experts=32")
	f.Add(string(Template()), "model.layers[0]=lin")
	f.Add("a: &a [*a]\n", "corpus.phases=[{until: 1, weights: {go: 1}}]")
	f.Add("? {}\n: - \n", "=")
	f.Fuzz(func(t *testing.T, text, override string) {
		for _, overrides := range [][]string{nil, {override}} {
			spec, err := Parse("/specs/fuzz.yaml", []byte(text), overrides)
			if err == nil {
				expectSame(t, spec)
			} else if strings.Count(err.Error(), "\n")+1 != len(err.(Problems)) {
				t.Errorf("a problem is not one line:\n%s", err)
			}
		}
	})
}
