//go:build !linux

package amx

type claim struct{}

// claimCore claims nothing: this system has no affinity masks we can set.
func claimCore(string) (*Core, error) { return &Core{ID: -1}, nil }

func (c *Core) release() error { return nil }
