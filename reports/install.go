package reports

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

const (
	npmRegistry = "https://registry.npmjs.org"
	// maxTarball bounds what is read from a registry; the real one is 10 MB.
	maxTarball = 64 << 20
	// longestDownload is more than a slow line needs for the real one. npm by itself
	// would try an unreachable registry for minutes.
	longestDownload = time.Minute
)

// fetchTarball returns the bytes of an npm package's tarball, not yet verified.
type fetchTarball func(ctx context.Context) ([]byte, error)

// within gives fetching up after limit, and says only that.
func (fetch fetchTarball) within(limit time.Duration) fetchTarball {
	return func(ctx context.Context) ([]byte, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no download within %v: is the npm registry reachable from here?", limit))
		defer cancel()
		tarball, err := fetch(ctx)
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return tarball, err
	}
}

// pin is what a download must match before it is kept.
type pin struct {
	integrity string // npm's integrity value of the tarball
	member    string // path of the wanted file inside it
	sha256    string // hash of that file, hexadecimal
}

// InstallAssets downloads echarts into the user's cache and returns the path of
// the script. It asks npm, where installed, so that the user's registry and proxy
// settings hold, and the public registry otherwise, and gives up after a minute.
// Nothing is kept that does not match the pinned hashes.
func InstallAssets(ctx context.Context) (path string, err error) {
	path, err = AssetPath()
	if err != nil {
		return "", err
	}
	fetch := fetchOverHTTP(http.DefaultClient, npmRegistry)
	if npm, err := exec.LookPath("npm"); err == nil {
		fetch = fetchWithNPM(npm)
	}
	if err := install(ctx, path, fetch.within(longestDownload), pin{echartsIntegrity, echartsMember, echartsSHA256}); err != nil {
		return "", fmt.Errorf("install echarts %s: %w", echartsVersion, err)
	}
	return path, nil
}

func install(ctx context.Context, path string, fetch fetchTarball, want pin) error {
	tarball, err := fetch(ctx)
	if err != nil {
		return err
	}
	sum := sha512.Sum512(tarball)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != want.integrity {
		return fmt.Errorf("verify tarball: %w: %s, want %s", ErrAssetMismatch, got, want.integrity)
	}
	script, err := extract(tarball, want.member)
	if err != nil {
		return err
	}
	if err := checkScript(script, want.sha256); err != nil {
		return fmt.Errorf("verify %s: %w", want.member, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the cache directory: %w", err)
	}
	if err := renameio.WriteFile(path, script, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// extract returns one file of a gzipped tar archive.
func extract(tarball []byte, member string) ([]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(tarball))
	if err != nil {
		return nil, fmt.Errorf("open tarball: %w", err)
	}
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("tarball holds no %s", member)
		}
		if err != nil {
			return nil, fmt.Errorf("read tarball: %w", err)
		}
		if header.Name != member {
			continue
		}
		content, err := io.ReadAll(io.LimitReader(archive, maxTarball))
		if err != nil {
			return nil, fmt.Errorf("read %s from tarball: %w", member, err)
		}
		return content, nil
	}
}

func fetchWithNPM(npm string) fetchTarball {
	return func(ctx context.Context) ([]byte, error) {
		dir, err := os.MkdirTemp("", "harness-assets-*")
		if err != nil {
			return nil, fmt.Errorf("make a directory for npm: %w", err)
		}
		defer os.RemoveAll(dir)
		pack := exec.CommandContext(ctx, npm, "pack", "echarts@"+echartsVersion, "--ignore-scripts", "--silent")
		pack.Dir = dir
		pack.WaitDelay = time.Second // for what npm has started and a kill leaves alive
		if output, err := pack.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("npm pack echarts@%s: %w: %s", echartsVersion, err, bytes.TrimSpace(output))
		}
		tarball, err := os.ReadFile(filepath.Join(dir, "echarts-"+echartsVersion+".tgz"))
		if err != nil {
			return nil, fmt.Errorf("read what npm packed: %w", err)
		}
		return tarball, nil
	}
}

func fetchOverHTTP(client *http.Client, registry string) fetchTarball {
	return func(ctx context.Context) ([]byte, error) {
		url := registry + "/echarts/-/echarts-" + echartsVersion + ".tgz"
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, fmt.Errorf("download %s: %w", url, err)
		}
		response, err := client.Do(request)
		if err != nil {
			return nil, fmt.Errorf("download %s: %w", url, err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("download %s: %s", url, response.Status)
		}
		tarball, err := io.ReadAll(io.LimitReader(response.Body, maxTarball))
		if err != nil {
			return nil, fmt.Errorf("download %s: %w", url, err)
		}
		return tarball, nil
	}
}
