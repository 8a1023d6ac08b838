//go:build !unix

package corpus

import "context"

// lockFile locks nothing: on systems without flock, one process at a time may build
// a corpus.
func lockFile(context.Context, string, func()) (unlock func(), err error) {
	return func() {}, nil
}
