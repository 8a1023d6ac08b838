package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"harness/experiments"
)

func TestPlanComparesWithThePaperInFull(t *testing.T) {
	p := &experiments.Plan{Accounting: [][]string{
		{"body", "3,298,144", "mixers"},
		{"published active", "3,315,552", "ours 3,315,552 = body + 68 readout rows " + strings.Repeat("and so on ", 20) + "to the end"},
	}}
	for _, width := range []int{80, unlimited} {
		var b bytes.Buffer
		writePlan(&b, p, false, width)
		words := strings.Join(strings.Fields(b.String()), " ")
		if !strings.Contains(words, "The paper publishes 3,315,552 parameters active: ours 3,315,552 = body") || !strings.Contains(words, "so on to the end.") {
			t.Errorf("%d columns: the comparison is not whole: %s", width, b.String())
		}
		for line := range strings.Lines(b.String()) {
			if !strings.HasPrefix(line, "#") && uniseg.StringWidth(line) > min(width, readable) {
				t.Errorf("wider than %d columns: %s", width, line)
			}
		}
	}
	j, err := newPlanJSON(p)
	if err != nil || len(j.Published) != 1 || j.Published[0].Total != "active" || j.Published[0].Parameters != 3315552 {
		t.Errorf("%+v, %v", j.Published, err)
	}
}
