//go:build !unix

package corpus

import "os"

// mapFile reads the file: the systems without mmap get the same bytes in memory.
func mapFile(path string) (data []byte, release func() error, err error) {
	data, err = os.ReadFile(path)
	return data, func() error { return nil }, err
}
