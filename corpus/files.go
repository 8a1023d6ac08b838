package corpus

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/klauspost/compress/zstd"
)

func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// matchFiles returns the file at path, or those that the glob path matches, by name.
func matchFiles(path string) ([]sourceFile, error) {
	f, err := statFile(path, filepath.Base(path))
	if err == nil {
		return []sourceFile{f}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) || !strings.ContainsAny(path, "*?[{") {
		return nil, err
	}
	names, err := doublestar.FilepathGlob(path, doublestar.WithFilesOnly())
	if err != nil {
		return nil, fmt.Errorf("glob %s: %w", path, err)
	}
	slices.Sort(names)
	var files []sourceFile
	for _, name := range names {
		f, err := statFile(name, name)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no file matches %s", path)
	}
	return files, nil
}

// goTree lists the Go files of the standard library under GOROOT root, commands
// included, without tests' data and vendored code.
func goTree(ctx context.Context, root string, cfg Source) ([]sourceFile, error) {
	all, err := walkTree(ctx, filepath.Join(root, "src"), cfg.Include, append([]string{"**/testdata/**", "**/vendor/**"}, cfg.Exclude...))
	if err != nil {
		return nil, fmt.Errorf("no Go source tree in GOROOT %s: %w", root, err)
	}
	files := slices.DeleteFunc(all, func(f sourceFile) bool { return filepath.Ext(f.name) != ".go" })
	if len(files) == 0 {
		return nil, fmt.Errorf("no Go source tree in GOROOT %s: src holds no .go file that the globs keep", root)
	}
	return files, nil
}

// goRoot finds the running toolchain: it asks the go command, and without one takes
// what this program was built with.
func goRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	root := strings.TrimSpace(string(out))
	if err != nil || root == "" {
		root = runtime.GOROOT()
	}
	if root == "" {
		return "", errors.New("no Go source tree: there is no go command on PATH and GOROOT is not set")
	}
	return root, nil
}

// walkTree lists the regular files below root that some include glob matches (all
// without one) and no exclude glob does. Directories named .git and symbolic links
// are passed over. The order is that of the names' hashes, so that a source with
// max_bytes takes a sample over the whole tree and not its first directories.
func walkTree(ctx context.Context, root string, include, exclude []string) ([]sourceFile, error) {
	real, err := filepath.EvalSymlinks(root) // some systems link src elsewhere
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(real); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", root)
	}
	var files []sourceFile
	err = filepath.WalkDir(real, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(real, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if entry.IsDir() {
			if entry.Name() == ".git" || name != "." && matchesAny(exclude, name+"/") {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || len(include) > 0 && !matchesAny(include, name) || matchesAny(exclude, name) {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		files = append(files, found(path, name, info))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("walk %s: %w", root, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no file in %s is kept by include %q, exclude %q", root, include, exclude)
	}
	keys := make(map[string][sha256.Size]byte, len(files))
	for _, f := range files {
		keys[f.name] = sha256.Sum256([]byte(f.name))
	}
	slices.SortFunc(files, func(a, b sourceFile) int {
		x, y := keys[a.name], keys[b.name]
		return cmp.Or(slices.Compare(x[:], y[:]), strings.Compare(a.name, b.name))
	})
	return files, nil
}

// matchesAny reports whether one of the globs, known to be well formed, matches.
func matchesAny(globs []string, name string) bool {
	for _, glob := range globs {
		if ok, _ := doublestar.Match(glob, name); ok {
			return true
		}
	}
	return false
}

func compressed(path string) bool {
	ext := filepath.Ext(path)
	return ext == ".zst" || ext == ".gz"
}

// openText opens a file, decompressing by its extension.
func openText(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(path) {
	case ".zst":
		// One goroutine: runs share a machine core by core. Windows as large as
		// zstd --long=31 writes are accepted.
		d, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(1<<31))
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("decompress %s: %w", path, err)
		}
		return &decompressor{d, func() { d.Close() }, f}, nil
	case ".gz":
		d, err := gzip.NewReader(f)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("decompress %s: %w", path, err)
		}
		return &decompressor{d, func() { d.Close() }, f}, nil
	}
	return f, nil
}

// decompressor closes both a decoder and the file below it.
type decompressor struct {
	io.Reader
	end  func()
	file *os.File
}

// Close ends the decoder and closes the file.
func (d *decompressor) Close() error {
	d.end()
	return d.file.Close()
}
