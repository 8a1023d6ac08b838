package experiments

import (
	"strings"
	"testing"

	"harness/nn"
)

// withMoE is a valid spec whose mixtures grow, 16 lines.
const withMoE = minimal + `model:
  layers: [lin, swa, lin]
  moe:
    layers: [0, 2]
    experts: 8
    top_k: 4
train: {sequence: 512, step_tokens: 1000, optimizer: {lr: 1e-3}}
grow:
  - {at: 100k, experts: 16}
  - {at: 200k, experts: 64}
`

// moeSpec is withMoE with steps that are multiples of windows, and replacements.
func moeSpec(replace ...string) string {
	return strings.NewReplacer(append(replace, "sequence: 512", "sequence: 500")...).Replace(withMoE)
}

func TestMixturesThatGrowAreAccepted(t *testing.T) {
	for name, text := range map[string]string{
		"split":                moeSpec(),
		"split flat":           moeSpec("16}", "16, method: split_flat}", "64}", "64, method: split_flat}"),
		"insert zero":          moeSpec("16}", "9, method: insert_zero}", "64}", "13, method: insert_zero}"),
		"as late as is":        moeSpec("at: 200k", "at: 999k"),
		"wall clock":           moeSpec("1M", "9h", "at: 200k", "at: 900B"),
		"block of all but one": moeSpec("top_k: 4", "route_block: 499"),
		"one expert":           moeSpec("experts: 8", "experts: 1", "top_k: 4", "top_k: 1", "16}", "4096}", "  - {at: 200k, experts: 64}\n", ""),
	} {
		spec, err := Parse("exp.yaml", []byte(text), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !spec.Model.MoE.Has(2) || spec.Model.MoE.Has(1) || len(spec.Grow) == 0 || spec.Grow[0].Jitter != 0.01 {
			t.Errorf("%s: %+v %+v", name, spec.Model.MoE, spec.Grow)
		}
		expectSame(t, spec)
	}
	spec, err := Parse("exp.yaml", []byte(moeSpec()), []string{"grow[1].experts=32"})
	if err != nil || spec.Grow[1].Method != nn.Split || spec.Grow[1].Experts != 32 {
		t.Errorf("%v, %+v", err, spec)
	}
}

func TestContradictionsOfMixtures(t *testing.T) {
	noGrow := moeSpec()[:strings.Index(moeSpec(), "grow:")]
	for _, c := range []struct{ name, text, want string }{
		{"layer that is not there", moeSpec("[0, 2]", "[0, 3]"), "exp.yaml:10: model.moe.layers[1]: there is no layer 3: model.layers has 3, 0 to 2"},
		{"layer named twice", moeSpec("[0, 2]", "[0, 2, 0]"), "exp.yaml:10: model.moe.layers[2]: layer 0 is model.moe.layers[0] already"},
		{"more than there are", strings.Replace(noGrow, "experts: 8", "experts: 3", 1), "exp.yaml:12: model.moe.top_k: top_k 4 is more than experts, which is 3"},
		{"more than there are by default", strings.Replace(strings.Replace(noGrow, "experts: 8", "experts: 3", 1), "    top_k: 4\n", "", 1),
			"exp.yaml:11: model.moe.experts: top_k 4 is more than experts, which is 3"},
		{"router that is never used", strings.Replace(noGrow, "top_k: 4", "route_block: 500", 1), "exp.yaml:12: model.moe.route_block: route_block 500 leaves one block of a window of sequence 500 tokens, whose first block a learned vector routes: the router would never be used; want route_block at most 499, or sequence at least 501"},
		{"router that is never used by default", strings.Replace(noGrow, "sequence: 500", "sequence: 250", 1), "exp.yaml:13: train.sequence: route_block 256 leaves one block of a window of sequence 250 tokens, whose first block a learned vector routes: the router would never be used; want route_block at most 249, or sequence at least 257"},
		{"width of nothing", strings.Replace(noGrow, "top_k: 4", "shared_d_ff: 64", 1), "exp.yaml:12: model.moe.shared_d_ff: a width of 64, but shared is 0: there are no shared experts"},
		{"growth of a dense model", moeSpec("    layers: [0, 2]\n", ""), "exp.yaml:14: grow: there is nothing to grow: model.moe.layers names no layer"},
		{"growth at one time", moeSpec("200k", "100k"), "exp.yaml:16: grow[1].at: 100000 tokens are not after the growth before, which is at 100000"},
		{"growth out of order", moeSpec("200k", "90k"), "exp.yaml:16: grow[1].at: 90000 tokens are not after the growth before, which is at 100000"},
		{"growth at the end", moeSpec("200k", "1M"), "exp.yaml:16: grow[1].at: 1M tokens: the budget of 1M ends before a step is trained after that, want at most 999000"},
		{"growth in the last step", moeSpec("200k", "999001"), "exp.yaml:16: grow[1].at: 999001 tokens: the budget of 1M ends before a step is trained after that, want at most 999000"},
		{"growth after the end", moeSpec("200k", "5B"), "exp.yaml:16: grow[1].at: 5B tokens: the budget of 1M ends before a step is trained after that, want at most 999000"},
		{"growth to as many", moeSpec("64}", "16}"), "exp.yaml:16: grow[1].experts: 16 experts are not more than the 16 before"},
		{"growth to fewer than at the start", moeSpec("16}", "4}", "64}", "8}"), "exp.yaml:15: grow[0].experts: 4 experts are not more than the 8 before"},
		{"split into three", moeSpec("16}", "24}", "64}", "48}"), "exp.yaml:15: grow[0].experts: split makes 2, 4, 8, ... of each of 8 experts, want 16, 32 or 64 and so on, not 24"},
		{"flat split into three", moeSpec("16}", "16, method: split_flat}", "64}", "48, method: split_flat}"),
			"exp.yaml:16: grow[1].experts: split_flat makes 2, 4, 8, ... of each of 16 experts, want 32, 64 or 128 and so on, not 48"},
		{"two methods", moeSpec("64}", "64, method: split_flat}"), "exp.yaml:16: grow[1].method: split_flat after split: a spec grows by one method, for families nest under split alone"},
		{"two methods, one by default", moeSpec("16}", "16, method: insert_zero}"), "exp.yaml:15: grow[0].method: split after insert_zero: a spec grows by one method, for families nest under split alone"},
		{"nothing new of what is bad already", moeSpec("[0, 2]", "[x, 2, 2]", "experts: 8", "experts: 0", "100k", "soon"),
			`exp.yaml:10: model.moe.layers[0]: want a whole number such as 4096, 16k, 259M or 1e6, got "x"` + "\n" +
				"exp.yaml:10: model.moe.layers[2]: layer 2 is model.moe.layers[1] already\n" +
				"exp.yaml:11: model.moe.experts: 0 is outside [1,4096]\n" +
				`exp.yaml:15: grow[0].at: want a whole number such as 4096, 16k, 259M or 1e6, got "soon"`},
		{"layers that are bad", moeSpec("[lin, swa, lin]", "[gru]"), `exp.yaml:8: model.layers[0]: unknown value "gru"; valid values: swa, lin`},
		{"no entry", moeSpec("  - {at: 200k, experts: 64}", "  - {}"),
			"exp.yaml:16: grow[1]: required key \"at\" is missing (tokens of training after which the mixtures grow)\n" +
				`exp.yaml:16: grow[1]: required key "experts" is missing (experts of each mixture from then on; for a split the number before times 2, 4, 8, ...)`},
	} {
		expectProblems(t, c.name, c.text, nil, c.want)
	}
}

func TestContradictionsOfMixturesByOverrides(t *testing.T) {
	for _, c := range []struct{ override, want string }{
		{"model.moe.layers=[0, 7]", "model.moe.layers[1]: there is no layer 7: model.layers has 3, 0 to 2"},
		{"model.layers=[lin]", "model.layers: there is no layer 2: model.layers has 1, 0 to 0"},
		{"train.sequence=125", "train.sequence: route_block 256 leaves one block of a window of sequence 125 tokens, whose first block a learned vector routes: the router would never be used; want route_block at most 124, or sequence at least 257"},
		{"model.moe.route_block=1024", "model.moe.route_block: route_block 1024 leaves one block of a window of sequence 500 tokens, whose first block a learned vector routes: the router would never be used; want route_block at most 499, or sequence at least 1025"},
		{"model.moe.layers=[]", "model.moe.layers: there is nothing to grow: model.moe.layers names no layer"},
		{"model.moe.shared_d_ff=64", "model.moe.shared_d_ff: a width of 64, but shared is 0: there are no shared experts"},
		{"budget=150k", "budget: 200000 tokens: the budget of 150000 ends before a step is trained after that, want at most 149000"},
		{"grow[0].at=250k", "grow[0].at: 200000 tokens are not after the growth before, which is at 250000"},
		{"model.moe.experts=12", "model.moe.experts: split makes 2, 4, 8, ... of each of 12 experts, want 24, 48 or 96 and so on, not 16"},
		{"grow[0].method=split_flat", "grow[0].method: split after split_flat: a spec grows by one method, for families nest under split alone"},
	} {
		expectProblems(t, c.override, moeSpec(), []string{c.override}, `override "`+c.override+`": `+c.want)
	}
}

// A dense model has no blocks, however short its windows are.
func TestADenseModelMayHaveShortWindows(t *testing.T) {
	if _, err := Parse("exp.yaml", []byte(minimal), []string{"train.sequence=256"}); err != nil {
		t.Error(err)
	}
}
