package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"harness/amx"
)

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// tinyConfig has every part of the model at sizes that a finite difference can
// afford; its window is smaller than a query block, and odd.
func tinyConfig() Config {
	return Config{DModel: 16, Layers: []Mixer{Lin, SWA}, DFF: 24, Activation: ReLU2, Heads: 2, HeadWidth: 8, StateWidth: 6, Window: 5, RopeBase: 100}
}

const tinyVocab = 37

// randomModel has no parameter at its initial value: zeros and ones hide mistakes.
func randomModel(cfg Config, vocab int, k *amx.Kernels, seed uint64, grown ...Growth) *Model {
	m := New(cfg, vocab, k, grown...)
	r := rng(seed)
	m.Init(r)
	for _, p := range m.Params() {
		for i := range p.Data {
			p.Data[i] += float32(r.NormFloat64() * 0.1)
		}
	}
	return m
}

// packedBatch joins documents of the given lengths.
func packedBatch(vocab int, r *rand.Rand, lengths ...int) Batch {
	var b Batch
	for _, n := range lengths {
		b.Starts = append(b.Starts, int32(len(b.Tokens)))
		for i := range n {
			b.Tokens = append(b.Tokens, int32(r.IntN(vocab)))
			target := int32(r.IntN(vocab))
			if i == n-1 || r.IntN(5) == 0 {
				target = -1
			}
			b.Targets = append(b.Targets, target)
		}
	}
	return b
}

func TestReleasedDenseBodyCountsAsPublished(t *testing.T) {
	cfg := Config{DModel: 256, Layers: []Mixer{Lin, SWA, SWA, Lin, SWA, Lin}, DFF: 640, Heads: 2, HeadWidth: 32, StateWidth: 32, Window: 256, RopeBase: 1e4}
	a := New(cfg, 16384, amx.Reference()).Account(LossConfig{Kind: FullSoftmax})
	if a.Body != 3_298_144 || a.Stored != 7_492_448 {
		t.Fatalf("body %d, stored %d; published: 3298144 and 7492448", a.Body, a.Stored)
	}
	if active := a.Body + 68*a.EmbeddingRow; active != 3_315_552 {
		t.Fatalf("body and 68 readout rows are %d; published: 3315552", active)
	}
}

// By hand: norms 2*8 + 2*8+4 + 8, swa 8*16 + 8*8, lin 8*26 + 8*8, MLPs 2*(8*24 + 12*8)
// are a body of 1,084. A token's mixer products are 4*8*4 for swa's window and
// 2*64*(4+8) + 4*4*8 for lin's chunk and state, each three times with its backward.
func TestTrainFLOPByHand(t *testing.T) {
	m := New(Config{DModel: 8, Layers: []Mixer{SWA, Lin}, DFF: 12, Heads: 2, HeadWidth: 4, StateWidth: 4, Window: 4, RopeBase: 100}, 20, amx.Reference())
	if body := m.Account(LossConfig{Kind: FullSoftmax}).Body; body != 1084 {
		t.Fatalf("body %d, by hand 1084", body)
	}
	const mixers = 3 * (128 + 1536 + 128)
	for _, x := range []struct {
		loss LossConfig
		want float64
	}{
		{LossConfig{Kind: FullSoftmax}, 6*1084 + 6*20*8 + mixers},
		{LossConfig{Kind: SampledSoftmax, Negatives: 5}, 6*1084 + 6*5*8 + mixers},
		{LossConfig{Kind: SampledSoftmax, Negatives: 500}, 6*1084 + 6*20*8 + mixers},
	} {
		if got := m.TrainFLOP(x.loss); got != x.want {
			t.Errorf("%+v: %g, by hand %g", x.loss, got, x.want)
		}
	}
	if got, want := m.TrainFLOPScoring(3.5*8*0.5), 6*1084+6*14.0+mixers; got != want {
		t.Errorf("3.5 columns for half of the positions: %g, by hand %g", got, want)
	}
}

// A view reads, scores and exports the table it was given, and leaves the model's
// own alone.
func TestAViewHasTheEmbeddingItWasGiven(t *testing.T) {
	m := randomModel(tinyConfig(), tinyVocab, amx.Reference(), 12)
	b := packedBatch(tinyVocab, rng(13), 20)
	own, before := append([]float32(nil), m.Embedding.Data...), logits(m, b)
	table := append([]float32(nil), own...)
	for i := range table {
		table[i] *= 0.5
	}
	view := m.WithPending(table, nil)
	if p := view.Params()[0]; p != view.Embedding || &p.Data[0] != &table[0] || p.Name != "embedding" {
		t.Errorf("the view lists %s of its own model", p.Name)
	}
	if p := m.Params()[0]; p != m.Embedding || &p.Data[0] == &table[0] {
		t.Error("the model lists the view's table")
	}
	got := logits(view, b)
	if sameLogits(before, logits(m, b)) != nil {
		t.Error("making a view changed the model")
	}
	copy(m.Embedding.Data, table)
	if err := sameLogits(logits(m, b), got); err != nil {
		t.Errorf("the view is not the model with its table: %v", err)
	}
}

func TestInitMoments(t *testing.T) {
	cfg := Config{DModel: 64, Layers: []Mixer{Lin, SWA}, DFF: 96, Heads: 2, HeadWidth: 16, StateWidth: 16, Window: 32, RopeBase: 100}
	m := New(cfg, 512, amx.Reference())
	m.Init(rng(3))
	residual := 1 / math.Sqrt(4)
	want := map[string]float64{
		"embedding": 1 / math.Sqrt(64), "layers.0.mlp.gate_up": 1 / math.Sqrt(64), "layers.1.swa.in": 1 / math.Sqrt(64),
		"layers.0.mlp.down": residual / math.Sqrt(96), "layers.0.lin.out": residual / math.Sqrt(32), "layers.1.swa.out": residual / math.Sqrt(32),
	}
	for _, p := range m.Params() {
		mean, square := 0.0, 0.0
		for _, x := range p.Data {
			mean += float64(x)
			square += float64(x) * float64(x)
		}
		n := float64(len(p.Data))
		mean /= n
		std := math.Sqrt(square/n - mean*mean)
		if p.Kind == Gain {
			if mean != 1 || std != 0 {
				t.Errorf("%s: gains start at 1, not mean %g std %g", p.Name, mean, std)
			}
			continue
		}
		w, ok := want[p.Name]
		if !ok {
			continue
		}
		// Standard error of a standard deviation is std/sqrt(2n); of a mean std/sqrt(n).
		if math.Abs(std-w) > 4*w/math.Sqrt(2*n) || math.Abs(mean) > 4*w/math.Sqrt(n) {
			t.Errorf("%s: mean %g, std %g, want 0 and %g", p.Name, mean, std, w)
		}
	}
	if l := m.Layers[0]; l.In.Data[l.In.Shape[1]-1] != 0 {
		t.Error("the decay projection must start at zero")
	}
}

func TestOVTieWritesBackWhatItReads(t *testing.T) {
	cfg := tinyConfig()
	cfg.OVTie = 8
	m := New(cfg, tinyVocab, amx.Reference())
	m.Init(rng(4))
	for i := range m.Layers {
		l, v := &m.Layers[i], m.linColumns().v
		if l.Mixer == SWA {
			v = m.Heads*m.HeadWidth + m.HeadWidth
		}
		for h := range m.Heads {
			from := v
			if l.Mixer == Lin {
				from += h * m.HeadWidth
			}
			for j := range m.HeadWidth {
				for r := range m.DModel {
					out, in := l.Out.Data[(h*m.HeadWidth+j)*m.DModel+r], l.In.Data[r*l.In.Shape[1]+from+j]
					if out != 8*in {
						t.Fatalf("layer %d head %d: out[%d,%d] = %g, want 8 * %g", i, h, j, r, out, in)
					}
				}
			}
		}
	}
}

// logits runs the batch and returns the full logits [N,V] as float64.
func logits(m *Model, b Batch) [][]float64 {
	a := NewActivations(m, len(b.Tokens), false)
	m.Forward(a, b)
	all := Batch{Tokens: b.Tokens, Starts: b.Starts, Targets: make([]int32, len(b.Tokens))}
	out := make([][]float64, len(b.Tokens))
	m.Evaluate(a, all, func(at int, row []float32) {
		for _, x := range row {
			out[at] = append(out[at], float64(x))
		}
	})
	return out
}

func sameLogits(a, b [][]float64) error {
	for i := range a {
		for j := range a[i] {
			if a[i][j] != b[i][j] {
				return fmt.Errorf("position %d, token %d: %g and %g", i, j, a[i][j], b[i][j])
			}
		}
	}
	return nil
}

func TestDocumentIsolation(t *testing.T) {
	for _, k := range kernelSets(t) {
		t.Run(k.Name, func(t *testing.T) {
			cfg := tinyConfig()
			cfg.Layers = []Mixer{Lin, SWA, Lin}
			cfg.Window = 70 // wider than a query block, so that tiles reach back
			m := randomModel(cfg, tinyVocab, k, 5)
			r := rng(6)
			document := packedBatch(tinyVocab, r, 150)
			alone := logits(m, document)
			for _, offset := range []int{0, 1, 17, 63, 64, 65, 100, 131} {
				before := packedBatch(tinyVocab, r, max(offset, 1))
				after := packedBatch(tinyVocab, r, 1+r.IntN(80))
				var packed Batch
				if offset > 0 {
					packed = join(before, document, after)
				} else {
					packed = join(document, after)
				}
				got := logits(m, packed)[offset : offset+150]
				if err := sameLogits(alone, got); err != nil {
					t.Fatalf("offset %d: the document's logits depend on its neighbours: %v", offset, err)
				}
			}
		})
	}
}

func join(parts ...Batch) Batch {
	var b Batch
	for _, p := range parts {
		for _, s := range p.Starts {
			b.Starts = append(b.Starts, s+int32(len(b.Tokens)))
		}
		b.Tokens = append(b.Tokens, p.Tokens...)
		b.Targets = append(b.Targets, p.Targets...)
	}
	return b
}

// The property the isolation test rests on must be able to fail: without the
// boundary, the same tokens give other logits.
func TestIsolationTestCanFail(t *testing.T) {
	m := randomModel(tinyConfig(), tinyVocab, amx.Reference(), 5)
	r := rng(6)
	document := packedBatch(tinyVocab, r, 40)
	joined := join(packedBatch(tinyVocab, r, 20), document)
	joined.Starts = joined.Starts[:1]
	if sameLogits(logits(m, document), logits(m, joined)[20:]) == nil {
		t.Fatal("removing the boundary changed nothing")
	}
}

func TestStreamEqualsBatchedForward(t *testing.T) {
	for _, k := range kernelSets(t) {
		t.Run(k.Name, func(t *testing.T) {
			cfg := tinyConfig()
			cfg.Layers = []Mixer{Lin, SWA, SWA, Lin}
			cfg.Window = 11
			m := randomModel(cfg, tinyVocab, k, 8)
			b := packedBatch(tinyVocab, rng(9), 200)
			want := logits(m, b)
			// Where operands are rounded, a difference in the last place can tip a rounding.
			tolerance := max(1e-4, 5*k.Arithmetic.GemmError())
			s := NewStream(m)
			for range 2 { // a second document after Reset
				for i, token := range b.Tokens {
					for j, got := range s.Next(token) {
						if d := math.Abs(float64(got) - want[i][j]); !(d <= tolerance*(1+math.Abs(want[i][j]))) {
							t.Fatalf("position %d, token %d: streamed %g, batched %g", i, j, got, want[i][j])
						}
					}
				}
				s.Reset()
			}
		})
	}
}

// Inference shares caches between layers; it must give what training's forward gives.
func TestInferenceForwardEqualsTrainingForward(t *testing.T) {
	m := randomModel(Config{DModel: 16, Layers: []Mixer{Lin, SWA, Lin, SWA}, DFF: 24, Activation: SiLU, Heads: 2, HeadWidth: 8, StateWidth: 6, Window: 9, RopeBase: 100}, tinyVocab, amx.Reference(), 10)
	b := packedBatch(tinyVocab, rng(11), 90, 1, 70)
	train, infer := NewActivations(m, 200, true), NewActivations(m, 200, false)
	m.Forward(train, b)
	m.Forward(infer, b)
	for i := range infer.Hidden[:len(b.Tokens)*m.DModel] {
		if train.Hidden[i] != infer.Hidden[i] {
			t.Fatalf("hidden state %d differs: %g and %g", i, train.Hidden[i], infer.Hidden[i])
		}
	}
}

// kernelSets are the reference and every set that runs here.
func kernelSets(t *testing.T) []*amx.Kernels {
	t.Helper()
	sets := []*amx.Kernels{amx.Reference()}
	for _, s := range amx.Sets() {
		if s.Name != sets[0].Name && s.Available() {
			sets = append(sets, s.New())
		}
	}
	return sets
}
