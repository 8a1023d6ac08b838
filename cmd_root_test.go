package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"harness/runs"
)

var update = flag.Bool("update", false, "rewrite golden files")

// asProgram makes the test binary be the program itself.
const asProgram = "HARNESS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(withOwnCache(m))
}

// withOwnCache keeps the user's cache out of the tests: the choice of kernels that
// one run measures, all others and all children take.
func withOwnCache(m *testing.M) int {
	dir, err := os.MkdirTemp("", "harness-cache-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("XDG_CACHE_HOME", dir)
	return m.Run()
}

// result is how a command line ended.
type result struct {
	code           int
	stdout, stderr string
}

// harness runs a command line in this process, on the store in dir.
func harness(t *testing.T, dir string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := execute(t.Context(), append([]string{"harness", "--store", dir}, args...), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run with -update to accept):\n%s", path, got)
	}
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	return path
}

// storeOf makes a store with a run of each name, oldest first.
func storeOf(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	s, err := runs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := s.Create(t.Context(), runs.NewRun{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMistakesAreOneLineAndHaveACode(t *testing.T) {
	spec := write(t, filepath.Join(t.TempDir(), "typo.yaml"), "name: typo\nbudget: 1M\ncorpus:\n  tokenizer: {vocabb: 300}\n  sources: [{name: go, kind: gotree}]\n")
	store := storeOf(t, "quickstart", "other")
	good := writeTiny(t, t.TempDir(), "good")
	cases := []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"unknown command", []string{"frobnicate"}, exitUsage, []string{`unknown command "frobnicate"`, "harness --help"}},
		{"misspelt command", []string{"rnu", "a.yaml", "--dry-run"}, exitUsage, []string{`unknown command "rnu"`, "did you mean run?"}},
		{"unknown flag", []string{"ls", "--jason"}, exitUsage, []string{"--jason", "harness ls --help"}},
		{"unknown flag of the program", []string{"--jason"}, exitUsage, []string{"unknown flag: --jason; see harness --help\n"}},
		{"no spec but a long line", []string{"run", write(t, filepath.Join(t.TempDir(), "long"), strings.Repeat("x", 900))}, exitUsage, []string{"got \"" + strings.Repeat("x", 60) + "…\"\n"}},
		{"run without a checkpoint", []string{"generate", "quickstart", "--prompt", ""}, exitError, []string{") has no checkpoint yet\n"}},
		{"very long name", []string{"show", strings.Repeat("x", 900)}, exitError, []string{"x…x"}},
		{"bad flag value", []string{"generate", "latest", "--tokens", "many"}, exitUsage, []string{"many", "harness generate --help"}},
		{"no argument", []string{"run"}, exitUsage, []string{"usage: harness run SPEC"}},
		{"too many arguments", []string{"show", "a", "b"}, exitUsage, []string{"2 arguments", "usage: harness show RUN"}},
		{"no prompt", []string{"generate", "latest"}, exitUsage, []string{"--prompt"}},
		{"flag out of range", []string{"generate", "latest", "--prompt", "", "--top-p", "1.5"}, exitUsage, []string{"--top-p 1.5"}},
		{"misspelt key", []string{"run", spec}, exitUsage, []string{spec + ":4:", `"vocabb"`, `did you mean "vocab"?`}},
		{"misspelt override", []string{"run", spec, "corpus.tokenizer={}", "budgett=2M"}, exitUsage, []string{`"budgett"`, `did you mean "budget"?`}},
		{"missing spec", []string{"run", "nowhere.yaml"}, exitUsage, []string{"nowhere.yaml", "no such file"}},
		{"directory as spec", []string{"run", store}, exitUsage, []string{store, "is a directory"}},
		{"named pipe as spec", []string{"run", fifo(t)}, exitUsage, []string{"no regular file"}},
		{"no directory as store", []string{"ls", "--store", ""}, exitUsage, []string{`--store ""`}},
		{"directory as report", []string{"report", "--out", store}, exitUsage, []string{"--out " + store, "is a directory"}},
		{"working directory as report", []string{"report", "--out", "."}, exitUsage, []string{"--out . is a directory"}},
		{"no name for a report", []string{"report", "--out", ""}, exitUsage, []string{"--out"}},
		{"nowhere to report the place of", []string{"report", "--out", "-", "--json"}, exitUsage, []string{"--json", "--out -"}},
		{"unknown kernels to run", []string{"run", good, "--kernels", "avx3"}, exitUsage, []string{`"avx3"`, "reference"}},
		{"unknown kernels to generate", []string{"generate", "latest", "--prompt", "a", "--kernels", "avx3"}, exitUsage, []string{`"avx3"`, "reference"}},
		{"greedy and top-p", []string{"generate", "latest", "--prompt", "a", "--top-p", "0.9"}, exitUsage, []string{"--top-p", "--temperature"}},
		{"unknown run", []string{"show", "quickstar"}, exitError, []string{"no such run", "near:", "(quickstart)"}},
		{"unknown run to resume", []string{"resume", "quickstar"}, exitError, []string{"no such run", "(quickstart)"}},
		{"no store", []string{"show", "latest", "--store", filepath.Join(store, "none")}, exitError, []string{"no store here"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := harness(t, store, c.args...)
			if r.code != c.code {
				t.Errorf("exit code %d, want %d", r.code, c.code)
			}
			if r.stdout != "" {
				t.Errorf("a mistake prints results: %q", r.stdout)
			}
			if !strings.HasPrefix(r.stderr, "harness: ") || strings.Count(r.stderr, "\n") != 1 || !strings.HasSuffix(r.stderr, "\n") {
				t.Errorf("want one line that begins with harness:, got %q", r.stderr)
			}
			if n := utf8.RuneCountInString(r.stderr); n > len("harness: ")+longestError+1 {
				t.Errorf("%d characters: %s", n, r.stderr)
			}
			for _, want := range c.says {
				if !strings.Contains(r.stderr, want) {
					t.Errorf("%q does not say %q", r.stderr, want)
				}
			}
		})
	}
}

func TestOnlyQuotesAreShortened(t *testing.T) {
	between := strings.Repeat("between ", 20)
	problem := `"a" ` + between + `"b\"` + strings.Repeat("c", 80) + `"`
	if got, want := shortenQuoted(problem), `"a" `+between+`"b\"`+strings.Repeat("c", 58)+`…"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// fifo is a named pipe that nobody writes to.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEveryProblemOfASpecHasItsLine(t *testing.T) {
	spec := write(t, filepath.Join(t.TempDir(), "bad.yaml"), "name: bad\nbudget: soon\nmodel: {d_modell: 8}\n")
	r := harness(t, t.TempDir(), "run", spec)
	lines := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n")
	if r.code != exitUsage || len(lines) < 2 {
		t.Fatalf("code %d: %s", r.code, r.stderr)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "harness: "+spec) {
			t.Errorf("%q names no file", line)
		}
	}
}

func TestErrorsCannotDriveTheTerminal(t *testing.T) {
	r := harness(t, t.TempDir(), "run", "\x1b[2Jno.yaml")
	if strings.Contains(r.stderr, "\x1b") {
		t.Errorf("an escape comes through: %q", r.stderr)
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	root := newRoot(&cli{})
	for _, cmd := range root.Commands() {
		r := harness(t, t.TempDir(), cmd.Name(), "--help")
		if r.code != 0 || !strings.Contains(r.stdout, "Examples:\n  harness "+cmd.Name()) {
			t.Errorf("%s --help: code %d, %s", cmd.Name(), r.code, r.stdout)
		}
	}
	if r := harness(t, t.TempDir(), "--help"); !strings.Contains(r.stdout, "Exit codes:") {
		t.Error("the help does not say what exit codes mean")
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestResultThatCannotBeWritten(t *testing.T) {
	var stderr bytes.Buffer
	code := execute(t.Context(), []string{"harness", "ls", "--store", storeOf(t, "a")}, fullDisk{}, &stderr)
	if code != exitError || !strings.Contains(stderr.String(), syscall.ENOSPC.Error()) {
		t.Errorf("code %d, %q", code, stderr.String())
	}
}

func TestNoStoreHasNoRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if r := harness(t, dir, "ls"); r.code != 0 || r.stdout != "no runs yet: harness run SPEC makes a store in "+dir+"\n" {
		t.Errorf("code %d, %q %s", r.code, r.stdout, r.stderr)
	}
	if r := harness(t, dir, "ls", "--json"); r.code != 0 || strings.TrimSpace(r.stdout) != "[]" {
		t.Errorf("code %d, %q %s", r.code, r.stdout, r.stderr)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a look makes a store")
	}
}

func TestEmptyVariableNamesNoStore(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HARNESS_STORE", "")
	var stdout, stderr bytes.Buffer
	if code := execute(t.Context(), []string{"harness", "ls"}, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "makes a store in .harness\n") {
		t.Errorf("code %d, %q %s", code, stdout.String(), stderr.String())
	}
}

func TestVersion(t *testing.T) {
	r := harness(t, t.TempDir(), "--version")
	if r.code != 0 || !strings.HasPrefix(r.stdout, "harness ") || !strings.Contains(r.stdout, runtime.Version()) || !strings.Contains(r.stdout, "portable, reference") {
		t.Errorf("code %d, %q %s", r.code, r.stdout, r.stderr)
	}
}

func TestCompletionOffersRuns(t *testing.T) {
	r := harness(t, storeOf(t, "alpha", "beta", "alpha"), "__complete", "show", "")
	for _, want := range []string{"latest\n", "\nalpha\n", "\nbeta\n"} {
		if strings.Count(r.stdout, want) != 1 {
			t.Errorf("%q is not offered once: %q", want, r.stdout)
		}
	}
}

// program is a command line for a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

func TestReadOnlyStore(t *testing.T) {
	top := t.TempDir()
	for path := top; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Skipf("cannot open up %s: %v", path, err)
		}
	}
	spec := writeTiny(t, top, "readonly")
	store := storeOf(t, "kept")
	dir := filepath.Join(top, "store")
	if err := errors.Join(os.CopyFS(dir, os.DirFS(store)), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	cmd := program(t, "run", spec, "--store", dir)
	if os.Geteuid() == 0 { // whom permissions do not bind
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		data, err := os.ReadFile(cmd.Path)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path = filepath.Join(top, "harness.test") // where nobody can reach it
		if err := os.WriteFile(cmd.Path, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitError {
		t.Errorf("%v, want exit code %d", err, exitError)
	}
	if text := stderr.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "store is not writable") {
		t.Errorf("stderr: %s", text)
	}
	s, err := runs.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if all, err := s.Runs(context.Background()); err != nil || len(all) != 1 {
		t.Errorf("the store holds %d runs: %v", len(all), err)
	}
}
