// Package probes measures what a frozen checkpoint can do: accuracy on synthetic
// tasks beside the chance level, and free-running generations beside the score
// of the true continuation.
//
// Input: a model and a corpus. Output: plain values; experiments stores them.
// Non-goals: training, storage, deciding what a failure means (diagnostics).
// Probing reads the model only and draws from random streams of its own.
package probes

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"harness/corpus"
	"harness/nn"
)

// Result is a model's accuracy on one task.
type Result struct {
	Task      string
	Correct   int
	N         int     // prompts, one scored answer each
	Low, High float64 // 95% Wilson interval
	Chance    float64 // best score of a guesser who sees the multiset of the prompt's words but neither their order nor the query
	Seed      int64
	Samples   []Sample // the first few prompts, as they were answered
}

// Accuracy is the share of prompts answered right.
func (r Result) Accuracy() float64 { return float64(r.Correct) / float64(r.N) }

// Sample is one prompt with what the model answered, teacher forced: the prompt
// holds the right words of the answer before the one that is asked.
type Sample struct {
	Prompt, Answer, Expected []int32
	Correct                  bool
}

const samplesKept = 2

// Tasks scores the model on the given tasks, which should be those that its
// mixture has trained: n prompts each, words drawn as the task draws them, from a
// stream frozen by seed. ctx is checked between tasks.
func Tasks(ctx context.Context, m *nn.Model, c *corpus.Corpus, tasks []corpus.Task, n int, seed int64, maxTokens int) ([]Result, error) {
	a := nn.NewActivations(m, maxTokens, false)
	var results []Result
	for _, task := range tasks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		examples, err := c.Examples(task.Name, seed, n)
		if err != nil {
			return nil, fmt.Errorf("probe %s: %w", task.Name, err)
		}
		results = append(results, score(m, a, task, examples, seed, maxTokens))
	}
	return results, nil
}

// question is where one example's answer lies in a batch: the positions whose
// targets must all be predicted, from the prompt that ends with the first of them.
type question struct {
	prompt    []int32
	positions []int
}

// score packs examples into batches and counts the prompts whose every asked
// token is the argmax. Of an answer whose words stand for themselves (shift,
// copy) one word is asked, so that prompts are independent trials; the answer of
// a sum is asked whole.
func score(m *nn.Model, a *nn.Activations, task corpus.Task, examples []corpus.Example, seed int64, maxTokens int) Result {
	r := Result{Task: task.Name, N: len(examples), Seed: seed}
	rng := rand.New(rand.NewPCG(uint64(seed), 0x70726f6265)) // which word of an answer is asked
	var b nn.Batch
	var asked []question
	flush := func() {
		if len(asked) == 0 {
			return
		}
		predicted := map[int]int32{}
		m.Forward(a, b)
		m.Evaluate(a, b, func(at int, logits []float32) { predicted[at] = argmax(logits) })
		for _, q := range asked {
			s := Sample{Prompt: q.prompt, Correct: true}
			for _, at := range q.positions {
				s.Answer = append(s.Answer, predicted[at])
				s.Expected = append(s.Expected, b.Targets[at])
				s.Correct = s.Correct && predicted[at] == b.Targets[at]
			}
			if s.Correct {
				r.Correct++
			}
			if len(r.Samples) < samplesKept {
				r.Samples = append(r.Samples, s)
			}
		}
		b, asked = nn.Batch{}, asked[:0]
	}
	for _, e := range examples {
		if len(b.Tokens)+len(e.Tokens) > maxTokens {
			flush()
		}
		lo := len(b.Tokens)
		b.Starts = append(b.Starts, int32(lo))
		first, last := e.Answer, len(e.Tokens)
		chance := e.Chance
		if task.Kind != corpus.Add {
			said := rng.IntN(last - first)
			first += said
			last = first + 1
			// Words of the answer that the prompt holds already stand in it twice: a
			// guesser leaves them out.
			chance = 1 / (1/e.Chance - float64(said))
		}
		r.Chance += chance / float64(len(examples))
		q := question{prompt: e.Tokens[:first]}
		for t := range e.Tokens {
			target := int32(-1)
			if t+1 >= first && t+1 < last {
				target = e.Tokens[t+1]
				q.positions = append(q.positions, lo+t)
			}
			b.Tokens, b.Targets = append(b.Tokens, e.Tokens[t]), append(b.Targets, target)
		}
		asked = append(asked, q)
	}
	flush()
	r.Low, r.High = Wilson(r.Correct, r.N)
	return r
}

// Wilson is the 95% score interval of a proportion.
func Wilson(correct, n int) (low, high float64) {
	const z = 1.959963984540054
	if n == 0 {
		return 0, 1
	}
	p, nn := float64(correct)/float64(n), float64(n)
	centre := p + z*z/(2*nn)
	half := z * math.Sqrt(p*(1-p)/nn+z*z/(4*nn*nn))
	return max(0, (centre-half)/(1+z*z/nn)), min(1, (centre+half)/(1+z*z/nn))
}

func argmax(x []float32) int32 {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return int32(best)
}
