package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	stepPrefix  = "step-"
	extension   = ".safetensors"
	asideSuffix = ".aside"
)

// StepPath is the file of the checkpoint after step optimizer steps, as Latest and
// Prune look for it in dir.
func StepPath(dir string, step int64) string {
	return filepath.Join(dir, fmt.Sprintf("%s%010d%s", stepPrefix, step, extension))
}

// asidePath is where Write builds path: hidden, beside it (a rename does not cross
// file systems), and of this process alone.
func asidePath(path string) string {
	return filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d%s", filepath.Base(path), os.Getpid(), asideSuffix))
}

func isAside(name string) bool {
	return strings.HasPrefix(name, ".") && strings.HasSuffix(name, asideSuffix)
}

// stepOf is the step in a checkpoint's file name.
func stepOf(name string) (step int64, ok bool) {
	digits, hasPrefix := strings.CutPrefix(name, stepPrefix)
	digits, hasExtension := strings.CutSuffix(digits, extension)
	n, err := strconv.ParseUint(digits, 10, 63)
	return int64(n), hasPrefix && hasExtension && err == nil
}

// Prune deletes all but the last keep step checkpoints of dir up to the one of
// step, just written, and what killed writers left there. Checkpoints of later
// steps are damaged ones that Latest passed over, before they could crowd out whole
// ones: they go too. Only the directory's one writer may call it, between writes.
func Prune(dir string, step int64, keep int) error {
	if keep < 1 {
		return fmt.Errorf("prune checkpoints in %s: keep %d, want at least 1", dir, keep)
	}
	steps, gone, err := list(dir)
	if err != nil {
		return fmt.Errorf("prune checkpoints: %w", err)
	}
	kept := 0
	for _, name := range steps { // newest first
		if at, _ := stepOf(name); at <= step && kept < keep {
			kept++
			continue
		}
		gone = append(gone, name)
	}
	var failed []error
	for _, name := range gone {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			failed = append(failed, err)
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("prune checkpoints: %w", err)
	}
	return nil
}

// Latest returns the step checkpoint of dir with the highest step that Verify finds
// whole. Skipped says, one error each, which newer ones were passed over and why. The
// error is ErrNone where none is whole.
func Latest(dir string) (path string, skipped []error, err error) {
	steps, _, err := list(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil, fmt.Errorf("%w: there is no %s", ErrNone, dir)
	}
	if err != nil {
		return "", nil, fmt.Errorf("find the latest checkpoint: %w", err)
	}
	for _, name := range steps {
		path := filepath.Join(dir, name)
		err := Verify(path)
		if err == nil {
			return path, skipped, nil
		}
		skipped = append(skipped, err)
	}
	return "", skipped, fmt.Errorf("%w in %s (%d damaged)", ErrNone, dir, len(skipped))
}

// list returns the file names of dir's step checkpoints, newest first, and of files
// that writers have not finished.
func list(dir string) (steps, asides []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	number := map[string]int64{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		if step, ok := stepOf(e.Name()); ok {
			number[e.Name()] = step
			steps = append(steps, e.Name())
		} else if isAside(e.Name()) {
			asides = append(asides, e.Name())
		}
	}
	slices.SortFunc(steps, func(a, b string) int {
		return cmp.Or(cmp.Compare(number[b], number[a]), strings.Compare(b, a))
	})
	return steps, asides, nil
}
