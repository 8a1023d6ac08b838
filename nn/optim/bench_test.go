package optim

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"harness/amx"
	"harness/nn"
)

// BenchmarkTrainingStep compares training steps of the released shape (d=256, 6 layers,
// 4,096 tokens a step, 4,096 negatives of 16,384 rows) dense and with mixtures of the
// same active width in layers 0, 3 and 5. The models take turns, step by step, so that
// what disturbs one disturbs all; the fastest step of each counts. Every block of 256
// tokens draws from words of its own, so that blocks are routed apart.
func BenchmarkTrainingStep(b *testing.B) {
	const vocab, tokens, block = 16384, 4096, 256
	runtime.LockOSThread() // whose processor time is taken
	defer runtime.UnlockOSThread()
	rng := rand.New(rand.NewPCG(1, 2))
	batch := nn.Batch{}
	for i := range tokens {
		if i%1024 == 0 {
			batch.Starts = append(batch.Starts, int32(i))
		}
		topic := i / block * 997 % (vocab - 600)
		batch.Tokens = append(batch.Tokens, int32(topic+rng.IntN(600)))
		batch.Targets = append(batch.Targets, int32(topic+rng.IntN(600)))
	}
	set, err := amx.Select("auto")
	if err != nil {
		b.Fatal(err)
	}
	type arm struct {
		name    string
		m       *nn.Model
		o       *AdamW
		a       *nn.Activations
		rows    *nn.Rows
		best    time.Duration
		all     []time.Duration
		touched int
	}
	var arms []*arm
	for _, experts := range []int{0, 16, 64, 256} {
		cfg := nn.Config{DModel: 256, Layers: []nn.Mixer{nn.Lin, nn.SWA, nn.SWA, nn.Lin, nn.SWA, nn.Lin}, DFF: 640,
			Activation: nn.ReLU2, Heads: 2, HeadWidth: 32, StateWidth: 32, Window: 256, RopeBase: 1e4}
		x := &arm{name: "dense", best: time.Hour}
		if experts > 0 {
			x.name = fmt.Sprintf("E%d", experts)
			cfg.MoE = nn.MoE{Layers: []int{0, 3, 5}, Experts: experts, TopK: 4, DFF: 160, RouteBlock: block, Statistic: nn.WindowMean, Balance: 0.01}
		}
		x.m = nn.New(cfg, vocab, set)
		x.m.Init(rng)
		x.o = New(Config{LR: 3e-4, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1, ClipNorm: 1}, x.m)
		x.a = nn.NewActivations(x.m, tokens, true)
		x.a.BeforeExperts = x.o.CatchUpExperts
		x.rows = nn.NewRows(x.m, nn.LossConfig{Kind: nn.SampledSoftmax, Negatives: 4096, Power: 0.75, Floor: 1}, make([]int64, vocab), tokens)
		arms = append(arms, x)
	}
	step := func(x *arm) {
		start := amx.ThreadTime()
		x.rows.Plan(batch, rng)
		x.o.CatchUp(x.rows)
		x.m.Forward(x.a, batch)
		x.m.Loss(x.a, batch, x.rows)
		x.m.Backward(x.a, batch, x.rows)
		x.o.Step(x.a, x.rows, 3e-4)
		took := amx.ThreadTime() - start
		x.best = min(x.best, took)
		x.all = append(x.all, took)
	}
	for _, x := range arms {
		step(x)
		x.all, x.best = nil, time.Hour
	}
	for b.Loop() {
		for _, x := range arms {
			step(x)
		}
	}
	for _, x := range arms {
		slices.Sort(x.all)
		if x != arms[0] {
			x.touched = len(x.a.Touched(0).IDs)
			b.ReportMetric(arms[0].best.Seconds()/x.best.Seconds(), x.name+"/dense")
			b.ReportMetric(float64(x.touched), x.name+"-touched")
		}
		b.ReportMetric(tokens/x.best.Seconds(), x.name+"-tok/s")
		b.ReportMetric(tokens/x.all[len(x.all)/2].Seconds(), x.name+"-median-tok/s")
	}
}
