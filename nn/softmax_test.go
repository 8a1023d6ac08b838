package nn

import (
	"math"
	"testing"

	"harness/amx"
)

func TestSampledSoftmaxOverTheWholeVocabularyIsTheFullSoftmax(t *testing.T) {
	m := randomModel(tinyConfig(), tinyVocab, amx.Reference(), 50)
	b := packedBatch(tinyVocab, rng(51), 60, 30)
	a := NewActivations(m, len(b.Tokens), true)
	full := NewRows(m, LossConfig{Kind: FullSoftmax}, nil, len(b.Tokens))
	gradients(m, a, b, full)
	want := trainLoss(m, a, b, full)
	wantGrad := gradientOf(m.Embedding, full)
	wantIn := append([]float32(nil), m.Layers[0].In.Grad...)

	// So many draws from a flat proposal that every id is in the pool, with
	// probability 1 to float32.
	sampled := NewRows(m, LossConfig{Kind: SampledSoftmax, Negatives: 40 * tinyVocab, Power: 0, Floor: 1}, make([]int64, tinyVocab), len(b.Tokens))
	gradients(m, a, b, sampled)
	if sampled.Scored != tinyVocab || len(sampled.IDs) != tinyVocab {
		t.Fatalf("pool of %d, want the vocabulary of %d", sampled.Scored, tinyVocab)
	}
	if got := trainLoss(m, a, b, sampled); math.Abs(got-want) > 1e-6 {
		t.Errorf("loss %.9f, full softmax %.9f", got, want)
	}
	for i, g := range gradientOf(m.Embedding, sampled) {
		if math.Abs(g-wantGrad[i]) > 1e-6 {
			t.Fatalf("embedding gradient %d: %g, full %g", i, g, wantGrad[i])
		}
	}
	for i, g := range m.Layers[0].In.Grad {
		if math.Abs(float64(g-wantIn[i])) > 1e-6 {
			t.Fatalf("gradient of in %d: %g, full %g", i, g, wantIn[i])
		}
	}
}

// Over many pools from a skewed proposal, the mean of the sampled normaliser is
// the true one.
func TestSampledNormaliserIsUnbiased(t *testing.T) {
	const vocab, draws, pools = 60, 25, 10_000
	r := rng(52)
	logits, counts := make([]float64, vocab), make([]int64, vocab)
	truth := 0.0
	for i := range logits {
		logits[i] = r.NormFloat64()
		counts[i] = int64(5000 / ((i + 1) * (i + 1)))
		truth += math.Exp(logits[i])
	}
	const target = 3
	p := newPool(LossConfig{Negatives: draws, Power: 0.75, Floor: 1}, counts, vocab)
	sum, squares := 0.0, 0.0
	for range pools {
		in := map[int32]bool{}
		p.draw(r, func(id int32) { in[id] = true })
		z := math.Exp(logits[target])
		for id := range in {
			if id != target {
				z += math.Exp(logits[id] + float64(p.bias[id]))
			}
		}
		sum += z
		squares += z * z
	}
	mean := sum / pools
	stderr := math.Sqrt((squares/pools - mean*mean) / pools)
	if math.Abs(mean-truth) > 3*stderr {
		t.Errorf("mean of Z over %d pools %.4f +- %.4f, true %.4f", pools, mean, stderr, truth)
	}
}

// A target outside the pool is scored for its own position and for no other.
func TestTargetsOutsideThePoolCountOnlyForThemselves(t *testing.T) {
	m := randomModel(tinyConfig(), tinyVocab, amx.Reference(), 53)
	b := packedBatch(tinyVocab, rng(54), 50)
	a := NewActivations(m, len(b.Tokens), true)
	counts := make([]int64, tinyVocab)
	counts[0] = 1 << 40 // all draws fall on id 0
	rows := NewRows(m, LossConfig{Kind: SampledSoftmax, Negatives: 4, Power: 1, Floor: 1e-9}, counts, len(b.Tokens))
	rows.Plan(b, rng(55))
	m.Forward(a, b)
	got := m.Loss(a, b, rows)
	want := 0.0
	all := logits(m, b)
	for i, target := range b.Targets {
		if target < 0 {
			continue
		}
		z := math.Exp(all[i][target])
		if target != 0 {
			z += math.Exp(all[i][0])
		}
		want += math.Log(z) - all[i][target]
	}
	if math.Abs(got.Sum-want) > 1e-4 {
		t.Errorf("loss %.6f, by hand %.6f", got.Sum, want)
	}
}

// The same through Plan and Loss: the mean over pools of exp(loss + logit of the
// target) is the true normaliser of every position.
func TestSampledLossIsUnbiased(t *testing.T) {
	m := randomModel(tinyConfig(), tinyVocab, amx.Reference(), 53)
	b := packedBatch(tinyVocab, rng(54), 6)
	a := NewActivations(m, len(b.Tokens), true)
	counts := make([]int64, tinyVocab)
	for i := range counts {
		counts[i] = int64(5000 / ((i + 1) * (i + 1)))
	}
	rows := NewRows(m, LossConfig{Kind: SampledSoftmax, Negatives: 12, Power: 0.75, Floor: 1}, counts, len(b.Tokens))
	all := logits(m, b)
	r := rng(55)
	m.Forward(a, b)
	const pools = 10000
	sum, sq := map[int]float64{}, map[int]float64{}
	for range pools {
		rows.Plan(b, r)
		m.Loss(a, b, rows)
		a.PositionLosses(func(at int, nats float32) {
			z := math.Exp(float64(nats) + all[at][b.Targets[at]])
			sum[at] += z
			sq[at] += z * z
		})
	}
	for at := range sum {
		truth := 0.0
		for _, x := range all[at] {
			truth += math.Exp(x)
		}
		mean := sum[at] / pools
		se := math.Sqrt((sq[at]/pools - mean*mean) / pools)
		if math.Abs(mean-truth) > 4*se {
			t.Errorf("position %d: %.4f +- %.4f, true %.4f", at, mean, se, truth)
		}
	}
}
