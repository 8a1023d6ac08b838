package experiments

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"harness/amx"
	"harness/nn"
	"harness/runs"
)

// TrainBench is where a training step's time goes.
type TrainBench struct {
	Started    time.Time
	Core       int // that it ran on
	Spec       string
	Model      string // its shape, for people
	Kernels    string
	Choice     amx.Choice // how the kernels were chosen
	Arithmetic amx.Arithmetic
	Loss       nn.LossConfig
	StepTokens int
	TokenFLOP  float64           // of training, with what the timed steps scored
	Formula    string            // how TokenFLOP comes about
	SpecFLOP   float64           // the same by the spec alone, see nn.Model.TrainFLOP
	Account    nn.Account        // of the model, under the spec's loss
	Steps      []time.Duration   // of the timed steps, without a profile
	Profiled   time.Duration     // the sum of Ops
	Ops        []OpShare         // by time, largest first
	Peaks      []amx.Measurement // of each arithmetic, in this process
	Bandwidths []amx.Measurement // of each level of the memory, nearest first
}

// OpShare is one operation's part of a step, in processor time: the fastest of the
// profiled steps, because what shares the machine only ever makes it slower.
type OpShare struct {
	Op      string
	Calls   int64
	Time    time.Duration
	Slowest time.Duration // of the profiled steps
	FLOP    float64
	Bytes   float64
	Span    float64       // bytes of the largest call's operands
	Matrix  bool          // a product of matrices: its arithmetic is the set's
	Bound   string        // what limits it, runs.BoundCompute or runs.BoundBandwidth; "" outside kernels
	Level   string        // of the memory whose bandwidth counts: the nearest that holds Span
	Limit   time.Duration // that it cannot be faster than
}

// OfBound is the share of its bound that the operation reaches.
func (o OpShare) OfBound() float64 {
	if o.Time <= 0 {
		return 0
	}
	return min(1, o.Limit.Seconds()/o.Time.Seconds())
}

// TokensPerSecond of the median, the slowest and the fastest step.
func (b *TrainBench) TokensPerSecond() (median, low, high float64) {
	s := slices.Clone(b.Steps)
	slices.Sort(s)
	rate := func(d time.Duration) float64 { return float64(b.StepTokens) / d.Seconds() }
	return rate(s[len(s)/2]), rate(s[len(s)-1]), rate(s[0])
}

// benchWarmup is how many steps fill buffers and caches before any is timed.
const benchWarmup = 2

// BenchTrain trains the spec's model on its own batches for a few steps, by the
// path of a run, and takes the time of the whole and of every operation.
func BenchTrain(ctx context.Context, spec *Spec, o Options, steps int) (b *TrainBench, err error) {
	runtime.LockOSThread() // whose processor time is taken
	defer runtime.UnlockOSThread()
	w, err := openWorkplace(ctx, spec, o, spec.Train.Kernels, "")
	if err != nil {
		return nil, err
	}
	defer func() {
		if closing := w.close(); err == nil {
			err = closing
		}
	}()
	t, err := newTrainer(spec, w.corpus, w.kernels, int64(benchWarmup+2*steps))
	if err != nil {
		return nil, err
	}
	m := t.model
	b = &TrainBench{Started: time.Now(), Core: w.core.ID, Spec: spec.Name, Model: modelLine(spec.Model), Kernels: w.kernels.Name, Choice: w.choice, Arithmetic: w.kernels.Arithmetic, Loss: spec.Train.Loss,
		StepTokens: spec.Train.StepTokens, SpecFLOP: m.TrainFLOP(spec.Train.Loss), Account: m.Account(spec.Train.Loss)}
	if b.Peaks, err = amx.MeasurePeaks(ctx, amx.Effort{Quick: true}); err != nil {
		return nil, err
	}
	if b.Bandwidths, err = amx.MeasureBandwidth(ctx, amx.Effort{Quick: true}, amx.DetectCaches(w.core.ID)); err != nil {
		return nil, err
	}
	columns, targets := 0.0, 0.0 // sums over the steps
	step := func() (time.Duration, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		start := time.Now()
		r := t.advance()
		if !r.finite() {
			return 0, fmt.Errorf("step %d of %s is not finite", t.step, spec.Name)
		}
		took := time.Since(start)
		columns += float64(t.rows.Scored)
		targets += float64(r.loss.Count)
		return took, nil
	}
	for range benchWarmup {
		if _, err := step(); err != nil {
			return nil, err
		}
	}
	columns, targets = 0, 0
	for range steps {
		took, err := step()
		if err != nil {
			return nil, err
		}
		b.Steps = append(b.Steps, took)
	}
	b.work(m, columns/float64(steps), targets/float64(steps*b.StepTokens))
	timed, profile := amx.Timed(w.kernels, amx.ThreadTime)
	m.K = timed
	best := map[string]OpShare{}
	for range steps {
		profile.Reset()
		start := amx.ThreadTime()
		if _, err := step(); err != nil {
			return nil, err
		}
		for _, o := range shares(profile.Work(), m, amx.ThreadTime()-start) {
			o.Slowest = o.Time
			if seen, ok := best[o.Op]; ok {
				o.Slowest = max(o.Slowest, seen.Slowest)
				if seen.Time < o.Time {
					seen.Slowest = o.Slowest
					o = seen
				}
			}
			best[o.Op] = o
		}
	}
	for _, o := range best {
		b.limit(&o)
		b.Ops = append(b.Ops, o)
		b.Profiled += o.Time
	}
	slices.SortFunc(b.Ops, func(x, y OpShare) int { return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.Op, y.Op)) })
	return b, nil
}

// work fills in the operations of a token from the mean number of columns that a
// step scored, and the share of positions that had a target.
func (b *TrainBench) work(m *nn.Model, columns, targets float64) {
	elements := columns * float64(m.DModel) * targets
	b.TokenFLOP = m.TrainFLOPScoring(elements)
	what := "of the vocabulary"
	if b.Loss.Kind == nn.SampledSoftmax {
		what = fmt.Sprintf("of %d draws, with repeats, and the targets", b.Loss.Negatives)
	}
	acting := "body parameters"
	if b.Account.ExpertsActive > 0 {
		acting = "parameters of body and active experts"
	}
	b.Formula = fmt.Sprintf("6 x %.0f %s + 6 x %d x %.0f columns %s, for %.1f%% of positions, + %.2fM of the mixers' own products",
		b.Account.PerToken(), acting, m.DModel, columns, what, 100*targets, m.TrainFLOPScoring(0)/1e6-6*b.Account.PerToken()/1e6)
}

// Peak of an arithmetic in operations a second; 0 where it was not measured.
func (b *TrainBench) Peak(name string) float64 {
	for _, m := range b.Peaks {
		if m.Name == name {
			return 1e9 * m.Value
		}
	}
	return 0
}

// matrixPeak is the peak of the arithmetic that the set multiplies matrices in.
func (b *TrainBench) matrixPeak() float64 {
	if peak := b.Peak(b.Kernels + "-" + string(b.Arithmetic)); peak > 0 { // amx-bf16
		return peak
	}
	return b.Peak(string(b.Arithmetic))
}

// limit finds out what bounds an operation: its arithmetic at the peak, or its
// traffic at the bandwidth of the nearest level that holds its operands.
func (b *TrainBench) limit(o *OpShare) {
	if o.FLOP == 0 && o.Bytes == 0 {
		return
	}
	peak := b.Peak(string(amx.FP32))
	if o.Matrix {
		peak = b.matrixPeak()
	}
	compute, traffic := 0.0, 0.0
	if peak > 0 {
		compute = o.FLOP / peak
	}
	for _, m := range b.Bandwidths {
		o.Level, traffic = m.Name, o.Bytes/(1e9*m.Value)
		// The buffer that a level was measured with fills half of it.
		if buffer, err := strconv.ParseFloat(m.Detail["bytes"], 64); err == nil && o.Span <= 2*buffer {
			break
		}
	}
	o.Bound = runs.BoundCompute
	if traffic > compute {
		o.Bound = runs.BoundBandwidth
	}
	o.Limit = time.Duration(1e9 * max(compute, traffic))
}

// Rate is the model's operations over the median step's time, in operations a second.
func (b *TrainBench) Rate() float64 {
	median, _, _ := b.TokensPerSecond()
	return median * b.TokenFLOP
}

// outside is the share of a step that no kernel takes.
const outside = "Go and other"

// shares sums up the work of each role in one step, and what is left of the step.
func shares(work []amx.Work, m *nn.Model, whole time.Duration) []OpShare {
	at := map[string]int{}
	ops := []OpShare{{Op: outside, Time: whole}}
	for _, w := range work {
		name := m.Role(w)
		i, seen := at[name]
		if !seen {
			i = len(ops)
			at[name] = i
			ops = append(ops, OpShare{Op: name, Matrix: w.K > 0})
		}
		o := &ops[i]
		o.Calls += w.Calls
		o.Time += w.Time
		o.FLOP += w.FLOP
		o.Bytes += w.Bytes
		o.Span = max(o.Span, w.Span)
		ops[0].Time -= w.Time
	}
	return ops
}
