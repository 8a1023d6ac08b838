//go:build !linux

package amx

type claim struct{}

// claimCore claims nothing: this system has no affinity masks we can set.
func claimCore(string) (*Core, error) {
	return unpinned("this system cannot keep a process on a core"), nil
}

func (c *Core) release() error { return nil }
