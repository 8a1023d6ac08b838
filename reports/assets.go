package reports

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// The one script the pages can use besides our own: Apache ECharts, under the
// Apache-2.0 licence whose notice the file carries. It is never committed and
// never linked; it is inlined from the user's cache if it is exactly this file.
const (
	echartsVersion = "5.6.0"
	// echartsIntegrity is npm's integrity value of the package's tarball.
	echartsIntegrity = "sha512-oTbVTsXfKuEhxftHqL5xprgLoc0k7uScAwtryCgWF6hPYFLRwOUHiFmHGCBKP5NPFNkDVopOieyUqYGH8Fa3kA=="
	// echartsMember is the file wanted from the tarball, echartsSHA256 its hash.
	echartsMember = "package/dist/echarts.min.js"
	echartsSHA256 = "bf4a223524e40b77c304bec67e1222cf551f14880cf42c69dc046558e11c07b1"
)

// ErrAssetMismatch says that a script is not the one whose hash is pinned.
var ErrAssetMismatch = errors.New("content does not match the pinned hash")

// Assets are the optional scripts that a page may inline. The zero value is
// valid: pages then show static charts only.
type Assets struct {
	// ECharts is the verified source of echarts.min.js, empty where it is absent.
	ECharts []byte
	// Missing says why ECharts is empty, for the person who expected it.
	Missing error
}

// AssetPath is where the verified script is kept in the user's cache directory.
func AssetPath() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache directory: %w", err)
	}
	return filepath.Join(cache, "harness", "echarts-"+echartsVersion+".min.js"), nil
}

// FindAssets reads the scripts from the user's cache. It touches no network; a
// file that is absent or altered leaves the field empty and says so in Missing.
func FindAssets() Assets {
	path, err := AssetPath()
	if err != nil {
		return Assets{Missing: err}
	}
	return findAssets(path, echartsSHA256)
}

func findAssets(path, sha256Hex string) Assets {
	script, err := os.ReadFile(path)
	if err != nil {
		return Assets{Missing: fmt.Errorf("read echarts: %w", err)}
	}
	if err := checkScript(script, sha256Hex); err != nil {
		return Assets{Missing: fmt.Errorf("use %s: %w", path, err)}
	}
	return Assets{ECharts: script}
}

// checkScript accepts exactly the pinned bytes, and only if they can stand in a
// script element as they are.
func checkScript(script []byte, sha256Hex string) error {
	sum := sha256.Sum256(script)
	if got := hex.EncodeToString(sum[:]); got != sha256Hex {
		return fmt.Errorf("%w: sha256 %s, want %s", ErrAssetMismatch, got, sha256Hex)
	}
	lower := bytes.ToLower(script)
	for _, breaking := range []string{"</script", "<!--"} {
		if bytes.Contains(lower, []byte(breaking)) {
			return fmt.Errorf("script holds %q and cannot be inlined", breaking)
		}
	}
	return nil
}
