package experiments

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"

	"harness/amx"
	"harness/corpus"
	"harness/nn"
	"harness/nn/checkpoint"
	"harness/nn/generate"
	"harness/nn/optim"
	"harness/runs"
)

// Trained is a run's model as its newest whole checkpoint holds it, ready to be
// read: pending weight decay is applied.
type Trained struct {
	Run        runs.Run
	Checkpoint string
	Skipped    []error // newer checkpoints that are damaged
	Step       int64
	Kernels    string
	Model      *nn.Model
	Tokenizer  *corpus.Tokenizer
}

// LoadTrained opens the model of a run by reference, with the kernel set it was
// trained with, or with the one named.
func LoadTrained(ctx context.Context, store, ref, kernels string) (_ *Trained, err error) {
	s, err := runs.OpenReadOnly(store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	run, err := s.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	spec, err := Parse("spec of run "+run.ID, []byte(run.Spec), nil)
	if err != nil {
		return nil, err
	}
	t := &Trained{Run: run}
	if t.Tokenizer, err = corpus.Load(filepath.Join(s.RunDir(run.ID), tokenizerFile)); err != nil {
		return nil, err
	}
	if t.Checkpoint, t.Skipped, err = checkpoint.Latest(checkpointDir(s, run.ID)); err != nil {
		return nil, fmt.Errorf("run %s (%s): %w", run.Name, run.ID, err)
	}
	h, err := checkpoint.ReadHeader(t.Checkpoint)
	if err != nil {
		return nil, err
	}
	if kernels == "" {
		kernels = h.Meta[metaKernels]
	}
	k, err := amx.Select(kernels)
	if err != nil {
		return nil, fmt.Errorf("%w; --kernels chooses another set", err)
	}
	t.Kernels = k.Name
	if t.Step, err = strconv.ParseInt(h.Meta[metaStep], 10, 64); err != nil {
		return nil, fmt.Errorf("%s: step %q", h.Path, h.Meta[metaStep])
	}
	grown, err := growth(spec, h)
	if err != nil {
		return nil, err
	}
	t.Model = nn.New(spec.Model, t.Tokenizer.Vocab(), k, grown...)
	opt := optim.New(spec.Train.Optimizer, t.Model)
	if err := loadModel(t.Model, opt, t.Checkpoint); err != nil {
		return nil, err
	}
	t.Model = opt.Effective(make([]float32, len(t.Model.Embedding.Data)))
	return t, nil
}

// Continue generates up to limit tokens after the prompt, which begins a
// document, and returns their text. Special tokens other than the end of an answer
// are never generated, unless the policy has a ban list of its own.
func (t *Trained) Continue(ctx context.Context, prompt string, limit int, p generate.Policy, seed int64) (string, error) {
	if p.Banned == nil {
		p.Banned = t.unspoken()
	}
	ids := t.Tokenizer.Encode([]byte(prompt), []int32{corpus.BOS})
	out, err := generate.Run(ctx, nn.NewStream(t.Model), ids, limit, []int32{corpus.EOT}, p, rand.New(rand.NewPCG(uint64(seed), 2)))
	if err != nil {
		return "", err
	}
	return strings.ToValidUTF8(readable(t.Tokenizer, out.Tokens), "\uFFFD"), nil
}

// unspoken are the special ids that are never an answer: all but the end of one.
func (t *Trained) unspoken() []bool {
	banned := make([]bool, t.Tokenizer.Vocab())
	for id := range banned {
		banned[id] = t.Tokenizer.IsSpecial(int32(id)) && int32(id) != corpus.EOT
	}
	return banned
}
