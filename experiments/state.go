package experiments

import (
	"fmt"
	"strconv"

	"harness/nn"
	"harness/nn/checkpoint"
	"harness/nn/optim"
)

// Keys of a checkpoint's metadata.
const (
	metaRun     = "run"
	metaStep    = "step"
	metaSteps   = "steps" // of the whole budget
	metaTokens  = "tokens"
	metaKernels = "kernels"
	metaSpec    = "spec_hash"
	metaCorpus  = "corpus_hash"
	metaGrown   = "grown" // growth steps of the spec that the model has behind it

	metaCorpusKey = "corpus_key" // of its shards in the cache; in provenance only
)

const (
	tensorClock    = "optimizer.clock"
	tensorSteps    = "optimizer.steps"
	tensorRowClock = "optimizer.row_clock"
	tensorRowSteps = "optimizer.row_steps"
)

// tensors lists everything a step reads, under its name: parameters, the optimizer's
// state, routers' loads, and what training has told since it was last recorded.
func (t *trainer) tensors() []checkpoint.Tensor {
	s := t.opt.State()
	ts := append(floats(t.model, s), lazyState(t.model, s)...)
	return append(append(ts, t.window.tensors()...),
		checkpoint.Tensor{Name: tensorClock, Shape: []int{1}, F64: s.Clock},
		checkpoint.Tensor{Name: tensorSteps, Shape: []int{1}, I64: s.Steps})
}

// lazyState lists decay clocks and counts of updates, and the running loads that the
// balance loss reads.
func lazyState(m *nn.Model, s optim.State) []checkpoint.Tensor {
	var ts []checkpoint.Tensor
	for _, l := range s.Lazy {
		clock, steps := tensorRowClock, tensorRowSteps
		if l.Layer >= 0 {
			clock, steps = fmt.Sprintf("optimizer.layers.%d.expert_clock", l.Layer), fmt.Sprintf("optimizer.layers.%d.expert_steps", l.Layer)
			load := m.Layers[l.Layer].Mixture.Load
			ts = append(ts, checkpoint.Tensor{Name: fmt.Sprintf("layers.%d.moe.load", l.Layer), Shape: []int{len(load)}, F64: load})
		}
		ts = append(ts, checkpoint.Tensor{Name: clock, Shape: []int{len(l.Clock)}, F64: l.Clock},
			checkpoint.Tensor{Name: steps, Shape: []int{len(l.Steps)}, I64: l.Steps})
	}
	return ts
}

// floats lists every float32 tensor of a checkpoint: parameters, then moments.
func floats(m *nn.Model, s optim.State) []checkpoint.Tensor {
	ts := weights(m)
	for _, m := range s.Moments {
		ts = append(ts,
			checkpoint.Tensor{Name: "optimizer.first." + m.Param.Name, Shape: m.Param.Shape, F32: m.First},
			checkpoint.Tensor{Name: "optimizer.second." + m.Param.Name, Shape: m.Param.Shape, F32: m.Second})
	}
	return ts
}

func weights(m *nn.Model) []checkpoint.Tensor {
	var ts []checkpoint.Tensor
	for _, p := range m.Params() {
		ts = append(ts, checkpoint.Tensor{Name: p.Name, Shape: p.Shape, F32: p.Data})
	}
	return ts
}

// save writes the trainer's state as the checkpoint of its step.
func (t *trainer) save(dir, runID string) (path, sha string, err error) {
	path = checkpoint.StepPath(dir, t.step)
	meta := map[string]string{
		"format":    "pt",
		metaRun:     runID,
		metaStep:    strconv.FormatInt(t.step, 10),
		metaSteps:   strconv.FormatInt(t.total, 10),
		metaTokens:  strconv.FormatInt(t.tokens(), 10),
		metaKernels: t.model.K.Name,
		metaSpec:    t.spec.Hash(),
		metaCorpus:  t.corpus.Hash(),
		metaGrown:   strconv.Itoa(len(t.model.Grown())),
	}
	sha, err = checkpoint.Write(path, meta, t.tensors())
	return path, sha, err
}

// restore takes the state of the checkpoint at path, which must be of this run: the
// trainer must be new. After an error it is of no use.
func (t *trainer) restore(path, runID string) error {
	h, err := checkpoint.ReadHeader(path)
	if err != nil {
		return err
	}
	if h.Meta[metaRun] != runID {
		return fmt.Errorf("%s belongs to run %q, not to %q", path, h.Meta[metaRun], runID)
	}
	grown, err := growth(t.spec, h)
	if err != nil {
		return err
	}
	if len(grown) > 0 {
		t.build(nn.New(t.spec.Model, t.model.V, t.model.K, grown...))
	}
	ts := t.tensors()
	if _, err := checkpoint.Load(path, ts, nil); err != nil {
		return err
	}
	if err := restoreScalars(t.opt, ts, path); err != nil {
		return err
	}
	if t.step, err = strconv.ParseInt(h.Meta[metaStep], 10, 64); err != nil || t.step < 0 || t.step > t.total {
		return fmt.Errorf("%s: step %q of a budget of %d steps", path, h.Meta[metaStep], t.total)
	}
	return nil
}

// growth is what the model of a checkpoint has behind it.
func growth(spec *Spec, h *checkpoint.Header) ([]nn.Growth, error) {
	text := h.Meta[metaGrown]
	if text == "" { // written before models could grow
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > len(spec.Grow) {
		return nil, fmt.Errorf("%s: %q growth steps of the %d in its spec", h.Path, text, len(spec.Grow))
	}
	return spec.Grow[:n], nil
}

// restoreScalars takes clock and count of steps out of loaded tensors.
func restoreScalars(opt *optim.AdamW, ts []checkpoint.Tensor, path string) error {
	var clock float64
	var steps int64
	for _, t := range ts {
		switch t.Name {
		case tensorClock:
			clock = t.F64[0]
		case tensorSteps:
			steps = t.I64[0]
		}
	}
	if err := opt.Restore(clock, steps); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// loadModel fills a model, and the clocks of its optimizer, from a checkpoint.
// Moments are left aside: they are two thirds of the file.
func loadModel(m *nn.Model, opt *optim.AdamW, path string) error {
	s := opt.State()
	ts := append(weights(m), lazyState(m, s)...)
	ts = append(ts, checkpoint.Tensor{Name: tensorClock, Shape: []int{1}, F64: s.Clock}, checkpoint.Tensor{Name: tensorSteps, Shape: []int{1}, I64: s.Steps})
	wanted := map[string]bool{}
	for _, t := range ts {
		wanted[t.Name] = true
	}
	if _, err := checkpoint.Load(path, ts, func(name string) bool { return !wanted[name] }); err != nil {
		return err
	}
	return restoreScalars(opt, ts, path)
}

// weightsHash is the identity of the trained weights: SHA-256 over the model's
// parameters, whatever else a checkpoint holds.
func weightsHash(m *nn.Model) string { return checkpoint.Checksum(weights(m)...) }
