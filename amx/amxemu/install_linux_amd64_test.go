//go:build cgo

package amxemu

import (
	"errors"
	"strings"
	"testing"
)

func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		name               string
		permitted, offered bool
		variable           string
		native             bool
		says               string
	}{
		{name: "no AMX"},
		{name: "no AMX, forced", variable: "force"},
		{name: "AMX", offered: true, native: true, says: "HARNESS_AMX_EMULATE=force"},
		{name: "AMX, forced", offered: true, variable: "force"},
		{name: "AMX in use", permitted: true, offered: true, native: true, says: "already has the permission"},
		{name: "AMX in use, forced", permitted: true, offered: true, variable: "force", native: true, says: "already has the permission"},
		{name: "misspelt", variable: "Force", says: `only "force"`},
	} {
		err := refusal(c.permitted, c.offered, c.variable)
		if (err == nil) != (c.says == "") || errors.Is(err, ErrNative) != c.native || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
