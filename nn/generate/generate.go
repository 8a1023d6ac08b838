// Package generate decodes: it turns the logits of a streamed model into tokens
// under a policy. Greedy by default.
//
// Input: a model and a prompt. Output: token ids. Non-goals: text (the caller
// decodes ids), batching of streams, training.
package generate

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"harness/nn"
)

// Policy says how the next token is chosen. The zero value is greedy decoding
// without a limit on repetition.
type Policy struct {
	Temperature float64 // 0 is greedy
	TopK        int     // keep the k likeliest; 0 keeps all
	TopP        float64 // keep the likeliest that together reach this mass; 0 keeps all
	MinP        float64 // keep what has at least this share of the likeliest's probability; 0 keeps all
	NoRepeat    int     // never complete an n-gram of this length a second time; 0 allows it
	Banned      []bool  // [V] ids that are never emitted; nil bans none
}

// Sequence is what was generated.
type Sequence struct {
	Tokens  []int32 // without the prompt and without the stop token
	Stopped bool    // a stop token ended it, not the limit
}

// Run feeds the prompt to s, which it resets, and generates up to limit tokens or
// until one of stop. rng is used only if the temperature is not 0. It returns
// early with ctx's error.
func Run(ctx context.Context, s *nn.Stream, prompt []int32, limit int, stop []int32, p Policy, rng *rand.Rand) (Sequence, error) {
	var out Sequence
	s.Reset()
	var logits []float32
	for _, t := range prompt {
		logits = s.Next(t)
	}
	if logits == nil {
		return out, nil
	}
	history := slices.Clone(prompt)
	chooser := chooser{policy: p, rng: rng}
	for len(out.Tokens) < limit {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		next := chooser.choose(logits, history)
		if slices.Contains(stop, next) {
			out.Stopped = true
			return out, nil
		}
		out.Tokens = append(out.Tokens, next)
		history = append(history, next)
		if len(out.Tokens) < limit {
			logits = s.Next(next)
		}
	}
	return out, nil
}

type chooser struct {
	policy Policy
	rng    *rand.Rand
	order  []int32
}

// choose returns the next id. logits are masked in place.
func (c *chooser) choose(logits []float32, history []int32) int32 {
	minusInf := float32(math.Inf(-1))
	for id := range logits {
		if c.policy.Banned != nil && c.policy.Banned[id] {
			logits[id] = minusInf
		}
	}
	for _, id := range repeats(history, c.policy.NoRepeat) {
		logits[id] = minusInf
	}
	if c.policy.Temperature == 0 {
		return argmax(logits)
	}
	return c.sample(logits)
}

// argmax ties go to the lower id.
func argmax(x []float32) int32 {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return int32(best)
}

// sample draws among the candidates that top-k, top-p and min-p leave, in this
// order, each cut on the probabilities at the policy's temperature.
func (c *chooser) sample(logits []float32) int32 {
	c.order = c.order[:0]
	for id := range logits {
		c.order = append(c.order, int32(id))
	}
	slices.SortFunc(c.order, func(a, b int32) int {
		switch x, y := logits[a], logits[b]; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return int(a - b)
	})
	if c.policy.TopK > 0 {
		c.order = c.order[:min(c.policy.TopK, len(c.order))]
	}
	weight := func(id int32) float64 {
		return math.Exp(float64(logits[id]-logits[c.order[0]]) / c.policy.Temperature)
	}
	total := 0.0
	for _, id := range c.order {
		total += weight(id)
	}
	if c.policy.TopP > 0 {
		kept := 0.0
		for i, id := range c.order {
			if kept += weight(id); kept >= c.policy.TopP*total {
				c.order, total = c.order[:i+1], kept
				break
			}
		}
	}
	if c.policy.MinP > 0 {
		kept := 0.0
		for i, id := range c.order {
			w := weight(id)
			if w < c.policy.MinP { // the likeliest has weight 1
				c.order, total = c.order[:i], kept
				break
			}
			kept += w
		}
	}
	x := c.rng.Float64() * total
	for _, id := range c.order {
		if x -= weight(id); x < 0 {
			return id
		}
	}
	return c.order[0] // rounding left nothing: the likeliest
}

// repeats lists the ids that would complete an n-gram the history already holds.
func repeats(history []int32, n int) []int32 {
	if n <= 0 || len(history) < n {
		return nil
	}
	var ids []int32
	tail := history[len(history)-n+1:]
	for i := 0; i+n <= len(history); i++ {
		if slices.Equal(history[i:i+n-1], tail) {
			ids = append(ids, history[i+n-1])
		}
	}
	return ids
}
