package reports

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// pack makes a tarball as npm does, and the pin that it satisfies.
func pack(t *testing.T, script string) ([]byte, pin) {
	t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for name, content := range map[string]string{"package/README.md": "x", echartsMember: script} {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	tarballSum, scriptSum := sha512.Sum512(packed.Bytes()), sha256.Sum256([]byte(script))
	return packed.Bytes(), pin{
		integrity: "sha512-" + base64.StdEncoding.EncodeToString(tarballSum[:]),
		member:    echartsMember,
		sha256:    hex.EncodeToString(scriptSum[:]),
	}
}

func TestInstallKeepsOnlyWhatIsPinned(t *testing.T) {
	tarball, good := pack(t, "var echarts;")
	_, other := pack(t, "var evil;")
	breaking, breakingPin := pack(t, "var s = '</SCRIPT>';")
	for name, c := range map[string]struct {
		tarball []byte
		want    pin
		err     error // what the refusal must be, if that matters
		refused bool
	}{
		"pinned":           {tarball: tarball, want: good},
		"other tarball":    {tarball: tarball, want: pin{other.integrity, good.member, good.sha256}, err: ErrAssetMismatch, refused: true},
		"other script":     {tarball: tarball, want: pin{good.integrity, good.member, other.sha256}, err: ErrAssetMismatch, refused: true},
		"no such member":   {tarball: tarball, want: pin{good.integrity, "package/none.js", good.sha256}, refused: true},
		"cannot be inline": {tarball: breaking, want: breakingPin, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cache", "echarts.js")
			err := install(t.Context(), path, func(context.Context) ([]byte, error) { return c.tarball, nil }, c.want)
			if (err != nil) != c.refused || c.err != nil && !errors.Is(err, c.err) {
				t.Fatalf("install: %v", err)
			}
			found := findAssets(path, c.want.sha256)
			if c.refused {
				if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) || !errors.Is(found.Missing, fs.ErrNotExist) {
					t.Errorf("something was kept: %v, %v", err, found.Missing)
				}
				return
			}
			if string(found.ECharts) != "var echarts;" || found.Missing != nil {
				t.Errorf("found %q, %v", found.ECharts, found.Missing)
			}
		})
	}
}

func TestAlteredCacheIsNotUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "echarts.js")
	if err := os.WriteFile(path, []byte("var evil;"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := findAssets(path, echartsSHA256); got.ECharts != nil || !errors.Is(got.Missing, ErrAssetMismatch) {
		t.Errorf("found %q, %v", got.ECharts, got.Missing)
	}
}

func TestFindAssetsLooksInTheUsersCache(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	if got := FindAssets(); got.ECharts != nil || !errors.Is(got.Missing, fs.ErrNotExist) {
		t.Errorf("an empty cache gave %d bytes, %v", len(got.ECharts), got.Missing)
	}
}

func TestFetchOverHTTP(t *testing.T) {
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/echarts/-/echarts-5.6.0.tgz" {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte("tarball"))
	}))
	defer registry.Close()
	if got, err := fetchOverHTTP(registry.Client(), registry.URL)(t.Context()); err != nil || string(got) != "tarball" {
		t.Errorf("fetched %q, %v", got, err)
	}
	if _, err := fetchOverHTTP(registry.Client(), registry.URL+"/none")(t.Context()); err == nil {
		t.Error("a missing package was fetched")
	}
}
