package generate

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"harness/amx"
	"harness/nn"
)

func stream() *nn.Stream {
	m := nn.New(nn.Config{DModel: 8, Layers: []nn.Mixer{nn.Lin, nn.SWA}, DFF: 12, Heads: 2, HeadWidth: 4, StateWidth: 4, Window: 4, RopeBase: 100}, 19, amx.Reference())
	m.Init(rand.New(rand.NewPCG(1, 2)))
	return nn.NewStream(m)
}

func TestGreedyIsDeterministicAndFollowsTheArgmax(t *testing.T) {
	s := stream()
	prompt := []int32{1, 7, 3}
	a, err := Run(context.Background(), s, prompt, 12, nil, Policy{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := Run(context.Background(), s, prompt, 12, nil, Policy{}, nil)
	if !slices.Equal(a.Tokens, b.Tokens) || len(a.Tokens) != 12 {
		t.Fatalf("%v then %v", a.Tokens, b.Tokens)
	}
	fresh := stream()
	for i, token := range append(slices.Clone(prompt), a.Tokens...) {
		logits := fresh.Next(token)
		if at := i - len(prompt) + 1; at >= 0 && at < len(a.Tokens) && argmax(logits) != a.Tokens[at] {
			t.Fatalf("token %d is %d, argmax %d", at, a.Tokens[at], argmax(logits))
		}
	}
}

func TestStopTokenEndsTheSequenceAndIsNotEmitted(t *testing.T) {
	s := stream()
	all, _ := Run(context.Background(), s, []int32{1}, 5, nil, Policy{}, nil)
	got, _ := Run(context.Background(), s, []int32{1}, 5, []int32{all.Tokens[0]}, Policy{}, nil)
	if !got.Stopped || len(got.Tokens) != 0 {
		t.Fatalf("%+v", got)
	}
}

func TestBannedIdsAndRepeatedNgramsAreNeverEmitted(t *testing.T) {
	s := stream()
	all, _ := Run(context.Background(), s, []int32{1}, 1, nil, Policy{}, nil)
	banned := make([]bool, 19)
	banned[all.Tokens[0]] = true
	got, _ := Run(context.Background(), s, []int32{1}, 15, nil, Policy{Banned: banned, NoRepeat: 2}, nil)
	sequence := append([]int32{1}, got.Tokens...)
	seen := map[[2]int32]bool{}
	for i, token := range got.Tokens {
		if banned[token] {
			t.Fatalf("banned id %d emitted", token)
		}
		pair := [2]int32{sequence[i], token}
		if seen[pair] {
			t.Fatalf("pair %v twice in %v", pair, sequence)
		}
		seen[pair] = true
	}
}

func TestSamplingCuts(t *testing.T) {
	logits := []float32{3, 1, 2, 0} // order by likelihood: 0, 2, 1, 3
	drawn := func(p Policy) map[int32]int {
		p.Temperature = 1
		c := chooser{policy: p, rng: rand.New(rand.NewPCG(3, 4))}
		seen := map[int32]int{}
		for range 3000 {
			seen[c.choose(slices.Clone(logits), nil)]++
		}
		return seen
	}
	// Probabilities at temperature 1: .644, .237, .087, .032.
	for name, x := range map[string]struct {
		p    Policy
		want []int32
	}{
		"all":   {Policy{}, []int32{0, 1, 2, 3}},
		"top-k": {Policy{TopK: 2}, []int32{0, 2}},
		"top-p": {Policy{TopP: 0.7}, []int32{0, 2}},
		"min-p": {Policy{MinP: 0.12}, []int32{0, 1, 2}},
	} {
		seen := drawn(x.p)
		if len(seen) != len(x.want) {
			t.Errorf("%s: drew %v, want only %v", name, seen, x.want)
		}
		for _, id := range x.want {
			if seen[id] == 0 {
				t.Errorf("%s: never drew %d", name, id)
			}
		}
	}
	if n := drawn(Policy{})[0]; n < 1800 || n > 2060 { // 3000 * .644 = 1932, sd 26
		t.Errorf("the likeliest was drawn %d times of 3000, want about 1932", n)
	}
}

func TestCancelledContextEndsGeneration(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, stream(), []int32{1}, 5, nil, Policy{}, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
}
