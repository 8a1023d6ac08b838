package corpus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// buildAside builds in a directory of its own and renames it to cacheDir/key when
// all is on disk, so that a cache directory is either complete or absent. What an
// earlier builder left behind when it was killed is removed. The lock is held.
func (b *builder) buildAside(ctx context.Context, cacheDir, key string) (err error) {
	target := filepath.Join(cacheDir, key)
	aside := target + ".building-*"
	left, err := filepath.Glob(aside)
	if err != nil {
		return fmt.Errorf("find unfinished shards: %w", err)
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove unfinished shards: %w", err)
		}
	}
	if b.dir, err = os.MkdirTemp(cacheDir, filepath.Base(aside)); err != nil {
		return fmt.Errorf("create corpus cache: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(b.dir))
		}
	}()
	if err := b.build(ctx, key); err != nil {
		return err
	}
	if err := os.Chmod(b.dir, 0o755); err != nil {
		return fmt.Errorf("open corpus cache to other users: %w", err)
	}
	if err := os.RemoveAll(target); err != nil { // a damaged one; readers keep what they have mapped
		return fmt.Errorf("remove damaged shards: %w", err)
	}
	if err := os.Rename(b.dir, target); err != nil {
		return fmt.Errorf("put shards in place: %w", err)
	}
	return syncDir(cacheDir)
}

// syncDir flushes a directory's entries to the disk.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
