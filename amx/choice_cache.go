package amx

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// choiceCache is the entry of this machine in a file of choices: a home directory may be
// shared by machines of many kinds.
type choiceCache struct {
	path string // "" where there is no cache directory
	key  string
}

type choiceFile struct {
	Choices map[string]keptChoice `json:"choices"` // by choiceKey
}

// mostChoices bounds the file: every version of the kernels adds an entry.
const mostChoices = 64

// choicePath is the file in the user's cache directory, "" where there is none.
func choicePath() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "harness", "kernels.json")
}

// ChoicePath is where the choice of Auto is kept, "" where it cannot be.
func ChoicePath() string { return choicePath() }

func (c choiceCache) read() (choiceFile, error) {
	var f choiceFile
	if c.path == "" {
		return f, fs.ErrNotExist
	}
	data, err := os.ReadFile(c.path)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return choiceFile{}, fmt.Errorf("read %s: %w", c.path, err)
	}
	return f, nil
}

func (c choiceCache) load() (keptChoice, error) {
	f, err := c.read()
	if err != nil {
		return keptChoice{}, err
	}
	kept, is := f.Choices[c.key]
	if !is {
		return keptChoice{}, fs.ErrNotExist
	}
	return kept, nil
}

// store keeps a choice and returns the one that is kept: unless replace is set, the
// one of a process that was faster. A file that cannot be read is replaced.
func (c choiceCache) store(kept keptChoice, replace bool) (keptChoice, error) {
	if c.path == "" {
		return kept, fs.ErrNotExist
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o755); err != nil {
		return kept, err
	}
	unlock, err := lockChoices(c.path + ".lock")
	if err != nil {
		return kept, err
	}
	defer unlock()
	f, err := c.read()
	if first, is := f.Choices[c.key]; err == nil && is && !replace {
		return first, nil
	}
	if err != nil || f.Choices == nil {
		f.Choices = map[string]keptChoice{}
	}
	f.Choices[c.key] = kept
	for len(f.Choices) > mostChoices {
		delete(f.Choices, oldest(f.Choices))
	}
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return kept, err
	}
	return kept, renameio.WriteFile(c.path, append(data, '\n'), 0o644)
}

func oldest(choices map[string]keptChoice) (key string) {
	var keys []string
	for k := range choices {
		keys = append(keys, k)
	}
	return slices.MinFunc(keys, func(a, b string) int { return choices[a].When.Compare(choices[b].When) })
}

// lockChoices waits a little for the lock of another process.
func lockChoices(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for range 50 {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}
