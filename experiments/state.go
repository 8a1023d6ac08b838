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

	metaCorpusKey = "corpus_key" // of its shards in the cache; in provenance only
)

const (
	tensorClock    = "optimizer.clock"
	tensorSteps    = "optimizer.steps"
	tensorRowClock = "optimizer.row_clock"
	tensorRowSteps = "optimizer.row_steps"
)

// tensors lists the model's parameters under their names, then the optimizer's state.
func (t *trainer) tensors() []checkpoint.Tensor {
	s := t.opt.State()
	return append(append(floats(t.model, s), t.window.tensors()...),
		checkpoint.Tensor{Name: tensorRowClock, Shape: []int{len(s.RowClock)}, F64: s.RowClock},
		checkpoint.Tensor{Name: tensorRowSteps, Shape: []int{len(s.RowSteps)}, I64: s.RowSteps},
		checkpoint.Tensor{Name: tensorClock, Shape: []int{1}, F64: s.Clock},
		checkpoint.Tensor{Name: tensorSteps, Shape: []int{1}, I64: s.Steps})
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
	}
	sha, err = checkpoint.Write(path, meta, t.tensors())
	return path, sha, err
}

// restore takes the state of a checkpoint, which must be of the same model.
func (t *trainer) restore(f *checkpoint.File) error {
	if err := restoreState(t.model, t.opt, f); err != nil {
		return err
	}
	for _, into := range t.window.tensors() {
		if into.F64 != nil {
			from, err := f.F64(into.Name, into.Shape...)
			if err != nil {
				return err
			}
			copy(into.F64, from)
			continue
		}
		from, err := f.I64(into.Name, into.Shape...)
		if err != nil {
			return err
		}
		copy(into.I64, from)
	}
	var err error
	if t.step, err = strconv.ParseInt(f.Meta[metaStep], 10, 64); err != nil || t.step < 0 || t.step > t.total {
		return fmt.Errorf("%s: step %q of a budget of %d steps", f.Path, f.Meta[metaStep], t.total)
	}
	return nil
}

// restoreState fills a model and its optimizer from a checkpoint of the same shape.
func restoreState(model *nn.Model, opt *optim.AdamW, f *checkpoint.File) error {
	s := opt.State()
	clock, steps := make([]float64, 1), make([]int64, 1)
	for _, t := range floats(model, s) {
		data, err := f.F32(t.Name, t.Shape...)
		if err != nil {
			return err
		}
		copy(t.F32, data)
	}
	for name, into := range map[string][]float64{tensorRowClock: s.RowClock, tensorClock: clock} {
		data, err := f.F64(name, len(into))
		if err != nil {
			return err
		}
		copy(into, data)
	}
	for name, into := range map[string][]int64{tensorRowSteps: s.RowSteps, tensorSteps: steps} {
		data, err := f.I64(name, len(into))
		if err != nil {
			return err
		}
		copy(into, data)
	}
	if err := opt.Restore(clock[0], steps[0]); err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	return nil
}

// weightsHash is the identity of the trained weights: SHA-256 over the model's
// parameters, whatever else a checkpoint holds.
func weightsHash(m *nn.Model) string { return checkpoint.Checksum(weights(m)...) }
