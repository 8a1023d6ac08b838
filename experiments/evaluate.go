package experiments

import (
	"context"
	"math"
	"math/rand/v2"

	"harness/corpus"
	"harness/diagnostics"
	"harness/nn"
	"harness/probes"
)

// evaluator scores a model in training without touching it: it reads the
// embedding through a scratch copy with all pending weight decay applied, and has
// activations and random streams of its own.
type evaluator struct {
	t          *trainer
	acts       *nn.Activations
	table      []float32 // [V,D] effective embedding
	validation []sourceValidation
	prompts    [][]int32 // openings of validation documents, for generations
	Unigram    float64   // nats: the unigram entropy of the validation targets
	bytes      int64     // of text that the validation targets stand for
}

type sourceValidation struct {
	name    string
	batches []nn.Batch
}

// newEvaluator draws the validation batches: the validation tokens of the spec
// are shared by the text sources in proportion to what they hold.
func newEvaluator(t *trainer) (*evaluator, error) {
	e := &evaluator{t: t, table: make([]float32, len(t.model.Embedding.Data))}
	train, p := t.spec.Train, t.spec.Probes
	e.acts = nn.NewActivations(t.model, train.StepTokens, false)
	held := int64(0)
	for _, s := range t.corpus.Manifest.Sources {
		held += s.Validation.Tokens
	}
	var all []corpus.Batch
	var prompts [][][]int32 // by source
	for _, s := range t.corpus.Manifest.Sources {
		if s.Validation.Tokens == 0 {
			continue
		}
		share := float64(s.Validation.Tokens) / float64(held)
		batches, err := t.corpus.Validation(s.Name, train.Sequence, train.StepTokens/train.Sequence, max(train.Sequence, int(share*float64(train.ValidationTokens))))
		if err != nil {
			return nil, err
		}
		v := sourceValidation{name: s.Name}
		for _, b := range batches {
			v.batches = append(v.batches, nn.Batch{Tokens: b.Tokens, Targets: b.Targets, Starts: b.Starts})
			for _, id := range b.Targets {
				if id >= 0 {
					e.bytes += int64(len(t.corpus.Tokenizer.Decode([]int32{id})))
				}
			}
		}
		e.validation = append(e.validation, v)
		all = append(all, batches...)
		documents, err := t.corpus.Documents(s.Name, p.Generations, p.PromptTokens+1, p.PromptTokens+p.NewTokens)
		if err != nil {
			return nil, err
		}
		prompts = append(prompts, documents)
	}
	e.prompts = takeInTurn(prompts, p.Generations)
	e.Unigram = t.corpus.UnigramEntropy(all)
	return e, nil
}

// takeInTurn picks up to n documents, one source after the other, so that what one
// source lacks the others supply.
func takeInTurn(sources [][][]int32, n int) [][]int32 {
	var picked [][]int32
	for i := 0; len(picked) < n; i++ {
		before := len(picked)
		for _, documents := range sources {
			if i < len(documents) && len(picked) < n {
				picked = append(picked, documents[i])
			}
		}
		if len(picked) == before {
			break
		}
	}
	return picked
}

// bitsPerByte is a validation loss per byte of text instead of per token.
func (e *evaluator) bitsPerByte(l nn.Loss) float64 {
	return l.Sum / math.Ln2 / float64(e.bytes)
}

// model is the trained model as it would be exported now.
func (e *evaluator) model() *nn.Model {
	return e.t.opt.Effective(e.table)
}

// validate is the exact full-softmax loss on the validation text, whole and by source.
func (e *evaluator) validate(ctx context.Context) (whole nn.Loss, bySource map[string]nn.Loss, err error) {
	m := e.model()
	bySource = map[string]nn.Loss{}
	for _, v := range e.validation {
		for _, b := range v.batches {
			if err := ctx.Err(); err != nil {
				return nn.Loss{}, nil, err
			}
			m.Forward(e.acts, b)
			l := m.Evaluate(e.acts, b, nil)
			bySource[v.name] = bySource[v.name].Add(l)
			whole = whole.Add(l)
		}
	}
	return whole, bySource, nil
}

// probe asks the tasks that the mixture has trained so far: a score on any other
// would say nothing about the training.
func (e *evaluator) probe(ctx context.Context) ([]probes.Result, error) {
	var trained []corpus.Task
	for _, task := range e.t.spec.Corpus.Tasks {
		if e.t.corpus.InMixture(task.Name, e.t.step, e.t.total) {
			trained = append(trained, task)
		}
	}
	return probes.Tasks(ctx, e.model(), e.t.corpus, trained, e.t.spec.Probes.N, e.t.spec.Seed, e.t.spec.Train.StepTokens)
}

// generate continues validation documents.
func (e *evaluator) generate(ctx context.Context) ([]probes.Generation, error) {
	p := e.t.spec.Probes
	return probes.Generations(ctx, e.model(), e.prompts, p.PromptTokens, p.NewTokens, []int32{corpus.EOT})
}

// grown makes room for a model that has grown.
func (e *evaluator) grown() {
	e.acts = nn.NewActivations(e.t.model, e.t.spec.Train.StepTokens, false)
}

// ablate measures on the validation text what routing otherwise costs.
func (e *evaluator) ablate(ctx context.Context) ([]diagnostics.Ablation, error) {
	if len(e.t.spec.Model.MoE.Layers) == 0 {
		return nil, nil
	}
	var batches []nn.Batch
	for _, v := range e.validation {
		batches = append(batches, v.batches...)
	}
	rng := rand.New(rand.NewPCG(uint64(e.t.spec.Seed), 3))
	return diagnostics.RoutingAblations(ctx, e.model(), e.acts, batches, e.t.spec.Train.Sequence, rng)
}

// inside measures norm gains and branches on one validation batch.
func (e *evaluator) inside() ([]diagnostics.Participation, []diagnostics.Branch) {
	m := e.model()
	b := e.validation[0].batches[0]
	a := nn.NewActivations(m, len(b.Tokens), true)
	m.Forward(a, b)
	return diagnostics.ParticipationRatios(m), diagnostics.BranchShares(m, a)
}
