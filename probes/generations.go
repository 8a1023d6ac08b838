package probes

import (
	"context"
	"math"

	"harness/nn"
	"harness/nn/generate"
)

// Generation is one document's opening continued greedily by the model, with
// what the document really says next and how the model scores that.
type Generation struct {
	Prompt, Tokens, Reference []int32
	ReferenceNats             float64 // nats a token of the true continuation, teacher forced
	ReferenceTop1             float64 // share of it that is the argmax, teacher forced
	Distinct                  float64 // distinct tokens over tokens generated: near 0 in an absorbing state
}

// Generations continues each document from its first promptTokens tokens; what
// follows them in the document is the reference. Documents are longer than that.
func Generations(ctx context.Context, m *nn.Model, documents [][]int32, promptTokens, newTokens int, stop []int32) ([]Generation, error) {
	s := nn.NewStream(m)
	var out []Generation
	for _, document := range documents {
		g := Generation{Prompt: document[:promptTokens], Reference: document[promptTokens:]}
		sequence, err := generate.Run(ctx, s, g.Prompt, newTokens, stop, generate.Policy{}, nil)
		if err != nil {
			return nil, err
		}
		g.Tokens = sequence.Tokens
		g.score(s)
		out = append(out, g)
	}
	return out, nil
}

// score runs the true continuation through the stream.
func (g *Generation) score(s *nn.Stream) {
	s.Reset()
	var logits []float32
	for _, t := range g.Prompt {
		logits = s.Next(t)
	}
	for _, t := range g.Reference {
		top := argmax(logits)
		if top == t {
			g.ReferenceTop1 += 1 / float64(len(g.Reference))
		}
		z := 0.0
		for _, x := range logits {
			z += math.Exp(float64(x - logits[top]))
		}
		g.ReferenceNats += (math.Log(z) - float64(logits[t]-logits[top])) / float64(len(g.Reference))
		logits = s.Next(t)
	}
	seen := map[int32]bool{}
	for _, t := range g.Tokens {
		seen[t] = true
	}
	if len(g.Tokens) > 0 {
		g.Distinct = float64(len(seen)) / float64(len(g.Tokens))
	}
}
