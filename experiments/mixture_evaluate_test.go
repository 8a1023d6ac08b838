package experiments

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"harness/corpus"
	"harness/diagnostics"
	"harness/nn"
	"harness/nn/checkpoint"
	"harness/nn/generate"
	"harness/probes"
)

// owingExperts are overrides that leave many of 32 experts, 64 after step 6, untouched
// in a step, which makes each owe a twentieth of what it holds.
var owingExperts = []string{"budget=2k", "model.moe={layers: [0, 1], experts: 32, top_k: 1, d_ff: 8, route_block: 8}",
	"grow=[{at: 768, experts: 64, jitter: 0.1}]",
	"train.loss.negatives=2", "train.optimizer.lr=1e-2", "train.optimizer.warmup_steps=0", "train.optimizer.weight_decay=5"}

// lazyClocks are the decay clocks of a state by the parameters that they are of.
func lazyClocks(m *nn.Model, clocks []nnClock) map[*nn.Param][]float64 {
	by := map[*nn.Param][]float64{}
	for _, c := range clocks {
		if c.layer < 0 {
			by[m.Embedding] = c.clock
			continue
		}
		x := m.Layers[c.layer].Mixture
		by[x.GateUp], by[x.Down] = c.clock, c.clock
	}
	return by
}

type nnClock struct {
	layer int
	clock []float64
}

// settled is a copy of a model with all pending decay applied to its parameters.
func settled(m *nn.Model, clock float64, clocks []nnClock) *nn.Model {
	out := nn.New(m.Config, m.V, m.K, m.Grown()...)
	for i, p := range out.Params() {
		copy(p.Data, m.Params()[i].Data)
	}
	for p, at := range lazyClocks(out, clocks) {
		row := len(p.Data) / len(at)
		for i := range p.Data {
			p.Data[i] *= float32(math.Exp(clock - at[i/row]))
		}
	}
	return out
}

// settledOf does so for a model in training.
func settledOf(t *testing.T, tr *trainer) *nn.Model {
	t.Helper()
	s := tr.opt.State()
	var clocks []nnClock
	for _, l := range s.Lazy {
		if n := len(owing(s.Clock[0], l.Clock)); n == 0 || n == len(l.Clock) {
			t.Fatalf("layer %d: %d of %d owe decay: the test shows nothing", l.Layer, n, len(l.Clock))
		}
		clocks = append(clocks, nnClock{l.Layer, l.Clock})
	}
	return settled(tr.model, s.Clock[0], clocks)
}

// copied is a deep copy of all that a checkpoint would hold.
func copied(t *trainer) []checkpoint.Tensor {
	var out []checkpoint.Tensor
	for _, x := range t.tensors() {
		x.F32, x.F64, x.I64 = slices.Clone(x.F32), slices.Clone(x.F64), slices.Clone(x.I64)
		out = append(out, x)
	}
	return out
}

func TestTheEvaluatorReadsExpertsWithTheirDecayAndWritesNothing(t *testing.T) {
	ctx, spec := context.Background(), load(t, tinySpec(t, ""), owingExperts...)
	tr := openTrainer(t, spec, 16)
	e, err := newEvaluator(tr)
	if err != nil {
		t.Fatal(err)
	}
	growTo(tr, 12)
	if len(tr.model.Grown()) != 1 {
		t.Fatal("nothing grew: the test shows nothing")
	}
	e.grown()
	before, m := copied(tr), settledOf(t, tr)
	evaluate := func(m *nn.Model) (whole nn.Loss) {
		a := nn.NewActivations(m, spec.Train.StepTokens, false)
		for _, v := range e.validation {
			for _, b := range v.batches {
				m.Forward(a, b)
				whole = whole.Add(m.Evaluate(a, b, nil))
			}
		}
		return whole
	}
	whole, _, err := e.validate(ctx)
	if want := evaluate(m); err != nil || whole != want {
		t.Errorf("validation %+v, with the decay applied by hand %+v, %v", whole, want, err)
	}
	if evaluate(tr.model) == whole {
		t.Error("a model without its decay has the same loss: the test shows nothing")
	}
	results, err := e.probe(ctx)
	want, err2 := probes.Tasks(ctx, m, tr.corpus, spec.Corpus.Tasks, spec.Probes.N, spec.Seed, spec.Train.StepTokens)
	if err != nil || err2 != nil || !reflect.DeepEqual(results, want) || len(results) == 0 {
		t.Errorf("probes %+v, by hand %+v, %v, %v", results, want, err, err2)
	}
	p := spec.Probes
	generations, err := e.generate(ctx)
	wantG, err2 := probes.Generations(ctx, m, e.prompts, p.PromptTokens, p.NewTokens, []int32{corpus.EOT})
	if err != nil || err2 != nil || !reflect.DeepEqual(generations, wantG) || len(generations) == 0 {
		t.Errorf("generations %+v, by hand %+v, %v, %v", generations, wantG, err, err2)
	}
	costs, err := e.ablate(ctx)
	var batches []nn.Batch
	for _, v := range e.validation {
		batches = append(batches, v.batches...)
	}
	wantC, err2 := diagnostics.RoutingAblations(ctx, m, nn.NewActivations(m, spec.Train.StepTokens, false), batches, spec.Train.Sequence,
		rand.New(rand.NewPCG(uint64(spec.Seed), 3)))
	if err != nil || err2 != nil || !reflect.DeepEqual(costs, wantC) || len(costs) != 4 {
		t.Errorf("ablations %+v, by hand %+v, %v, %v", costs, wantC, err, err2)
	}
	for _, c := range costs {
		if c.Cost == 0 {
			t.Errorf("routing otherwise costs nothing: %+v", c)
		}
	}
	_, branches := e.inside()
	b := e.validation[0].batches[0]
	a := nn.NewActivations(m, len(b.Tokens), true)
	m.Forward(a, b)
	if want := diagnostics.BranchShares(m, a); !reflect.DeepEqual(branches, want) {
		t.Errorf("branches %+v, by hand %+v", branches, want)
	}
	if again, _, err := e.validate(ctx); err != nil || again != whole {
		t.Errorf("after an ablation the validation is %+v, %v, before %+v", again, err, whole)
	}
	for i, x := range copied(tr) {
		if !reflect.DeepEqual(x, before[i]) {
			t.Errorf("evaluating wrote to %s", x.Name)
		}
	}
}

// A step that chooses an expert after some time must read, and update, what an expert
// has that met its decay at every step.
func TestAStepReadsExpertsWithTheirDecayApplied(t *testing.T) {
	spec := load(t, tinySpec(t, ""), owingExperts...)
	late, met := openTrainer(t, spec, 16), openTrainer(t, spec, 16)
	growTo(late, 12)
	growTo(met, 12)
	m, s := settledOf(t, met), met.opt.State()
	for i, p := range met.model.Params() {
		copy(p.Data, m.Params()[i].Data)
	}
	owed := map[int]map[int32]bool{}
	for _, l := range s.Lazy {
		owed[l.Layer] = owing(s.Clock[0], l.Clock)
		for i := range l.Clock {
			l.Clock[i] = s.Clock[0]
		}
	}
	for layer, x := range late.model.Layers { // others are chosen, which nothing has touched for long
		for level, router := range x.Mixture.Routers {
			for i := range router.Data {
				router.Data[i] = -router.Data[i]
			}
			copy(met.model.Layers[layer].Mixture.Routers[level].Data, router.Data)
		}
	}
	if got, want := late.advance(), met.advance(); got != want {
		t.Errorf("%+v, settled before %+v", got, want)
	}
	for layer := range late.model.Layers {
		touched, seen := late.acts.Touched(layer).IDs, 0
		x, y := late.model.Layers[layer].Mixture, met.model.Layers[layer].Mixture
		for _, id := range touched {
			if owed[layer][id] {
				seen++
			}
			for _, p := range [][2]*nn.Param{{x.GateUp, y.GateUp}, {x.Down, y.Down}} {
				row := len(p[0].Data) / x.Experts()
				if lo, hi := int(id)*row, (int(id)+1)*row; !slices.Equal(p[0].Data[lo:hi], p[1].Data[lo:hi]) {
					t.Errorf("expert %d of %s differs from one that met its decay in time", id, p[0].Name)
				}
			}
		}
		if seen == 0 {
			t.Errorf("layer %d: no expert in %v owed decay: the test shows nothing", layer, touched)
		}
	}
}

func TestATrainedMixtureHasItsDecayApplied(t *testing.T) {
	dir := t.TempDir()
	out := run(t, load(t, tinySpec(t, ""), owingExperts...), dir)
	trained, err := LoadTrained(context.Background(), dir, out.Run.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	f, err := checkpoint.Read(out.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	f64 := func(name string, n int) []float64 {
		x, err := f.F64(name, n)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	raw := nn.New(trained.Model.Config, trained.Model.V, trained.Model.K, trained.Model.Grown()...)
	for _, p := range raw.Params() {
		data, err := f.F32(p.Name, p.Shape...)
		if err != nil {
			t.Fatal(err)
		}
		copy(p.Data, data)
	}
	clock := f64(tensorClock, 1)[0]
	clocks := []nnClock{{-1, f64(tensorRowClock, raw.V)}, {0, f64("optimizer.layers.0.expert_clock", 64)}, {1, f64("optimizer.layers.1.expert_clock", 64)}}
	for _, c := range clocks {
		if len(owing(clock, c.clock)) == 0 {
			t.Fatal("nothing owes decay: the test shows nothing")
		}
	}
	b := nn.Batch{Starts: []int32{0}}
	for i := range 64 {
		b.Tokens, b.Targets = append(b.Tokens, int32(260+i%40)), append(b.Targets, int32(261+i%39))
	}
	loss := func(m *nn.Model) nn.Loss {
		a := nn.NewActivations(m, 64, false)
		m.Forward(a, b)
		return m.Evaluate(a, b, nil)
	}
	m := settled(raw, clock, clocks)
	if got, want := loss(trained.Model), loss(m); got != want || got == loss(raw) {
		t.Errorf("loss %+v, by hand %+v, without its decay %+v", got, want, loss(raw))
	}
	byHand, undecayed := *trained, *trained
	byHand.Model, undecayed.Model = m, raw
	var texts []string
	for _, x := range []*Trained{trained, &byHand, &undecayed} {
		text, err := x.Continue(context.Background(), "the small", 40, generate.Policy{Temperature: 1}, 1)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if texts[0] != texts[1] || texts[0] == texts[2] {
		t.Errorf("text %q, by hand %q, without its decay %q", texts[0], texts[1], texts[2])
	}
}

// Validation, probes, generations and ablations must not perturb a training in which
// experts owe decay and are cloned.
func TestEvaluationDoesNotPerturbAMixtureThatGrows(t *testing.T) {
	path := tinySpec(t, "")
	for _, settings := range [][]string{thatGrows(nn.SplitFlat), owingExperts} {
		often := run(t, load(t, path, append(slices.Clone(settings), "train.validate_every=2%", "probes.every=5%", "train.checkpoint_every=5%")...), t.TempDir())
		quiet := run(t, load(t, path, append(slices.Clone(settings), "train.validate_every=100%", "probes.every=100%", "probes.n=1", "probes.generations=0")...), t.TempDir())
		if often.Weights != quiet.Weights {
			t.Errorf("%q: evaluating more often changed the trained weights", settings)
		}
	}
}
