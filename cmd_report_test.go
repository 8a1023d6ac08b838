package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// isPage says whether html is one whole page.
func isPage(html string) bool {
	return strings.HasPrefix(html, "<!") && strings.HasSuffix(strings.TrimSpace(html), "</html>")
}

func TestReportToStandardOutput(t *testing.T) {
	store := storeOf(t, "a")
	t.Chdir(t.TempDir())
	r := harness(t, store, "report", "--out", "-")
	if r.code != 0 || !isPage(r.stdout) {
		t.Errorf("code %d, %.100q %s", r.code, r.stdout, r.stderr)
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 0 {
		t.Errorf("files are made: %v %v", entries, err)
	}
	var stderr bytes.Buffer
	if code := execute(t.Context(), []string{"harness", "report", "--out", "-", "--store", store}, fullDisk{}, &stderr); code != exitError || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("half a page on a full disk: code %d, %q", code, stderr.String())
	}
}

func TestReportFollowsLinks(t *testing.T) {
	store, dir := storeOf(t, "a"), t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o755), os.WriteFile(filepath.Join(dir, "old.html"), []byte("old"), 0o644),
		os.Symlink("../old.html", filepath.Join(dir, "sub", "one")), os.Symlink("sub/one", filepath.Join(dir, "two")),
		os.Symlink("new.html", filepath.Join(dir, "dangling")), os.Symlink("loop", filepath.Join(dir, "loop"))); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"two": "old.html", "dangling": "new.html"} {
		target = filepath.Join(dir, target)
		r := harness(t, store, "report", "--out", filepath.Join(dir, link))
		if r.code != 0 || r.stdout != target+"\n" {
			t.Errorf("%s: code %d, %q %s", link, r.code, r.stdout, r.stderr)
		}
		if info, err := os.Lstat(filepath.Join(dir, link)); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%s is no link any more: %v", link, err)
		}
		if html, err := os.ReadFile(target); err != nil || !isPage(string(html)) {
			t.Errorf("%s holds no page: %v", target, err)
		}
	}
	if r := harness(t, store, "report", "--out", filepath.Join(dir, "loop")); r.code != exitError || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("a link to itself: code %d, %q", r.code, r.stderr)
	}
}

func TestReportIntoAPipe(t *testing.T) {
	store, pipe := storeOf(t, "a"), fifo(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{pipe, link} {
		// Open for both, so that neither side waits for the other where the pipe is replaced.
		reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		html := make(chan string)
		go func() {
			var page strings.Builder
			for line := make([]byte, 1<<16); !isPage(page.String()); {
				n, err := reader.Read(line)
				page.Write(line[:n])
				if err != nil {
					break
				}
			}
			html <- page.String()
		}()
		r := harness(t, store, "report", "--out", out)
		reader.SetReadDeadline(time.Now().Add(2 * time.Second))
		if page := <-html; r.code != 0 || r.stdout != "" || !isPage(page) {
			t.Errorf("code %d, %q %s: %.100q", r.code, r.stdout, r.stderr, page)
		}
		if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
			t.Fatalf("the pipe is replaced: %v", err)
		}
	}
}
