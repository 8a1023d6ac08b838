package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// A run grows between steps of 4,096 tokens: at 4,100 there are two, and a growth at
// 4,097 would come after the second.
func TestPlanGrowsWhereARunDoes(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "grow.yaml"), lawSpecText("grow", "1M", 32, "grow: [{at: 4096, experts: 64}]\n"))
	for _, c := range []struct{ at, tokens, says string }{
		{"4096", "4096", "Growth to 64 at 4096 tokens never happens: training ends at 4096 tokens, without a step after it."},
		{"4096", "4097", "end 4097 64"},
		{"4097", "4100", "end 4100 32"},
		{"4097", "8192", "end 8192 32"},
		{"4097", "8193", "end 8193 64"},
	} {
		expectSays(t, c.at+" of "+c.tokens, harness(t, t.TempDir(), "plan", path, "grow[0].at="+c.at, "--tokens", c.tokens), c.says)
	}
}

func TestPlanFoldsStagesThatStandAlike(t *testing.T) {
	dir, store := openLawStore(t)
	var steps []string
	for i := range 60 {
		steps = append(steps, fmt.Sprintf("{at: %dM, experts: %d, method: insert_zero}", 10*(i+1), 128+i+1))
	}
	text := lawSpecText("many", "700M", 128, "grow: ["+strings.Join(steps, ", ")+"]\n")
	path := write(t, filepath.Join(t.TempDir(), "many.yaml"), text)
	lines := func(args ...string) (information, warnings []string) {
		t.Helper()
		var j struct{ Information, Warnings []string }
		r := harness(t, dir, append([]string{"plan", path, "--json"}, args...)...)
		if err := json.Unmarshal([]byte(r.stdout), &j); err != nil {
			t.Fatalf("%v, %+v", err, r)
		}
		return j.Information, j.Warnings
	}
	// An expert had 10M*4/128 tokens at the first growth, 10M*4/187 at the last, and
	// 100M*4/188 at the end.
	const all = "61 of 61 stages, from E=128 at the growth to 129 (10.0M tokens) to E=188 at the end (700M tokens), are above the law: " +
		"an expert has had 214k to 2.13M tokens, 1.66 to 16.5 per parameter, of the 502 that tau asks; the bound is 0.618 to 43.2, and they need 2.07B to 3.04B tokens. " +
		"k^2/E = 0.0851 to 0.125 is below 1/4: an expert parameter sees 8 to 11.8 times fewer tokens than a dense one; break-even is E = k^2 = 16."
	if information, warnings := lines(); len(information) != 0 || len(warnings) != 1 || warnings[0] != all {
		t.Errorf("%q, %q", information, warnings)
	}
	// What one of them shows is said of that one.
	few := lawSpecText("few", "700M", 128, "")
	lawRun(t, store, loadLaw(t, few), "0.0012", "-0.0001", "-0.0002", "0.0000")
	if _, warnings := lines("--run", "few"); len(warnings) != 1 || !strings.HasPrefix(warnings[0], all+" At E=128: Run ") {
		t.Errorf("%q", warnings)
	}
	if _, warnings := lines("--tokens", "15M"); len(warnings) != 2 ||
		!strings.HasPrefix(warnings[1], "Growth to 130 at 20.0M tokens, and 58 more up to 188 at 600M tokens, never happens: training ends at 15.0M tokens") {
		t.Errorf("%q", warnings)
	}
	// Where the law is kept at first, only what is not is counted, warned of or not.
	doubling := write(t, filepath.Join(dir, "doubling.yaml"), lawSpecText("doubling", "2B", 32, "grow: [{at: 500M, experts: 64}, {at: 510M, experts: 128}, {at: 520M, experts: 256}, {at: 530M, experts: 512}]\n"))
	path = doubling
	information, warnings := lines("--tau", "650")
	if len(information) != 1 || !strings.HasPrefix(information[0], "2 of 5 stages, from E=32 at the growth to 64 (500M tokens) to E=64 at the growth to 128 (510M tokens), are above the law") ||
		len(warnings) != 1 || !strings.HasPrefix(warnings[0], "3 of 5 stages, from E=128 at the growth to 256 (520M tokens) to E=512 at the end (2.00B tokens), are above the law") {
		t.Errorf("%q, %q", information, warnings)
	}
	if information, warnings := lines("--tau", "450"); len(warnings) != 0 || len(information) != 1 ||
		!strings.HasPrefix(information[0], "4 of 5 stages, from E=64 at the growth to 128 (510M tokens) to E=512 at the end (2.00B tokens), have more experts than the bound of 35.1 to 138, but by their lineage an expert has had 63.1M to 75.1M tokens") {
		t.Errorf("%q, %q", information, warnings)
	}
}

func TestPlanTellsThatTwinsHaveNoGradient(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "grow.yaml"), lawSpecText("grow", "4B", 32, lawGrowth))
	const says = "balance is 0: the router rows that a split adds pick a twin and gate nothing, and so get no gradient."
	none := t.TempDir()
	off := []string{"plan", path, "model.moe.balance=0"}
	expectSays(t, "jitter alone", harness(t, none, off...), "the tokens that tau asks. - "+says+" no warnings")
	expectSays(t, "one growth without jitter", harness(t, none, append(off, "grow[1].jitter=0")...), says+" At the growth to 128 jitter is 0: the elder twin alone acts, and the younger is never trained.")
	expectSays(t, "none with jitter", harness(t, none, append(off, "grow[0].jitter=0", "grow[1].jitter=0")...), "At the growth to 64, and 1 more up to 128, jitter is 0")
	for name, args := range map[string][]string{
		"balanced":        {"plan", path, "grow[0].jitter=0"},
		"flat":            append(off, "grow[0].method=split_flat", "grow[1].method=split_flat", "grow[0].jitter=0"),
		"never":           append(off, "--tokens", "500M"),
		"nothing to grow": append(off, "grow=[]"),
	} {
		if r := harness(t, none, args...); r.code != 0 || strings.Contains(r.stdout, "balance is 0") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := harness(t, none, append(off, "--tokens", "700M", "grow[1].jitter=0")...); !strings.Contains(words(r.stdout), says) || strings.Contains(r.stdout, "jitter is 0") {
		t.Errorf("a growth that never happens has no twins: %s", r.stdout)
	}
}
