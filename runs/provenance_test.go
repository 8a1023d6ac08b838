package runs

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestProvenance(t *testing.T) {
	p := Provenance([]string{"harness", "run", "my spec.yaml", "notes=it's", "model.d_model=64", ""})
	if want := `harness run 'my spec.yaml' 'notes=it'\''s' model.d_model=64 ''`; p["command"] != want {
		t.Errorf("command %s, want %s", p["command"], want)
	}
	if p["go"] != runtime.Version() || p["os"] != runtime.GOOS || p["arch"] != runtime.GOARCH || p["host"] == "" || p["gomaxprocs"] == "" {
		t.Errorf("provenance: %v", p)
	}
}

func TestCodeVersion(t *testing.T) {
	describe := func(info debug.BuildInfo) map[string]string {
		p := map[string]string{}
		describeBuild(p, &info)
		return p
	}
	check := func(p map[string]string, version, dirty, from string) {
		t.Helper()
		if p["code_version"] != version || p["code_dirty"] != dirty || p["code_from"] != from {
			t.Errorf("%v, want %s, %s, %s", p, version, dirty, from)
		}
	}
	p := describe(debug.BuildInfo{
		Main:     debug.Module{Path: "harness", Version: "v0.0.0-pseudo+dirty"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
		Deps:     []*debug.Module{{Path: "a/b", Version: "v1"}, {Path: "c", Version: "v2", Replace: &debug.Module{Path: "d", Version: "v3"}}},
	})
	check(p, "abc", "true", "build")
	if p["module:a/b"] != "v1" || p["module:d"] != "v3" {
		t.Errorf("libraries: %v", p)
	}
	check(describe(debug.BuildInfo{Main: debug.Module{Path: "harness", Version: "v1.2.3"}}), "v1.2.3", "false", "module version")

	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is missing")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	unstamped := debug.BuildInfo{Main: debug.Module{Path: "harness", Version: "(devel)"}}
	git("init", "-q")
	write("go.mod", "module somebody/elses\n")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	check(describe(unstamped), "", "", "")
	write("go.mod", "module harness\n")
	head := git("rev-parse", "HEAD")
	check(describe(unstamped), head, "true", "git in the working directory")
	git("commit", "-q", "-a", "-m", "second")
	check(describe(unstamped), git("rev-parse", "HEAD"), "false", "git in the working directory")
}

func TestInsideModule(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("// ours\nmodule harness // yes\n\ngo 1.26\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !insideModule(deep, "harness") {
		t.Error("a package's directory is not seen as inside its module")
	}
	if insideModule(deep, "other") {
		t.Error("another module's directory is taken for ours")
	}
	if err := os.WriteFile(filepath.Join(deep, "go.mod"), []byte("module nested\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if insideModule(deep, "harness") {
		t.Error("a nested module is taken for ours")
	}
}
