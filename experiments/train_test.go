package experiments

import (
	"context"
	"errors"
	"math"
	"testing"

	"harness/amx"
	"harness/corpus"
	"harness/nn"
	"harness/nn/checkpoint"
	"harness/nn/generate"
	"harness/runs"
)

// decaying are overrides that leave many rows untouched and make each step owe them
// half of what they hold.
var decaying = []string{"train.loss.negatives=2", "train.optimizer.lr=1e-2", "train.optimizer.warmup_steps=0", "train.optimizer.weight_decay=50"}

func openTrainer(t *testing.T, spec *Spec, steps int64) *trainer {
	t.Helper()
	c, err := corpus.Open(context.Background(), spec.Corpus, "", t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	k, err := amx.Select("portable")
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newTrainer(spec, c, k, steps)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func (t *trainer) advanceBy(steps int) (last stepResult) {
	for range steps {
		last = t.advance()
	}
	return last
}

// owing lists the rows that have not met all their decay.
func owing(clock float64, rowClock []float64) map[int32]bool {
	rows := map[int32]bool{}
	for id, at := range rowClock {
		if at != clock {
			rows[int32(id)] = true
		}
	}
	return rows
}

// effective is the embedding [V,D] with all decay applied, in float64.
func effective(table []float32, clock float64, rowClock []float64) []float64 {
	out := make([]float64, len(table))
	d := len(table) / len(rowClock)
	for i, x := range table {
		out[i] = float64(x) * math.Exp(clock-rowClock[i/d])
	}
	return out
}

// equalTo fails unless table is want to float32.
func equalTo(t *testing.T, what string, table []float32, want []float64) {
	t.Helper()
	if len(table) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(table), len(want))
	}
	for i, x := range table {
		if math.Abs(float64(x)-want[i]) > 1e-6*math.Abs(want[i])+1e-12 {
			t.Fatalf("%s: element %d is %g, by hand %g", what, i, x, want[i])
		}
	}
}

// A step that reads a row after some time must read, and update, what a row has that
// met its decay at every step.
func TestAStepReadsRowsWithTheirDecayApplied(t *testing.T) {
	spec := load(t, tinySpec(t, ""), decaying...)
	lazy, settled := openTrainer(t, spec, 100), openTrainer(t, spec, 100)
	lazy.advanceBy(12)
	settled.advanceBy(12)
	s := settled.opt.State()
	before := owing(s.Clock[0], s.Lazy[0].Clock)
	rowClock := s.Lazy[0].Clock
	settled.opt.Effective(settled.model.Embedding.Data)
	for i := range rowClock {
		rowClock[i] = s.Clock[0]
	}
	got, want := lazy.advanceBy(1), settled.advanceBy(1)
	late := 0
	for _, id := range lazy.rows.IDs {
		if before[id] {
			late++
		}
	}
	if late == 0 {
		t.Fatal("the step reads no row that owes decay: the test shows nothing")
	}
	if got != want {
		t.Errorf("with %d late rows: %+v, settled before %+v", late, got, want)
	}
	d := spec.Model.DModel
	for _, id := range lazy.rows.IDs {
		for i := int(id) * d; i < (int(id)+1)*d; i++ {
			if x, y := lazy.model.Embedding.Data[i], settled.model.Embedding.Data[i]; x != y {
				t.Fatalf("row %d (late: %v) is updated to %g, settled before %g", id, before[id], x, y)
			}
		}
	}
}

func TestTheEvaluatorReadsTheEffectiveEmbedding(t *testing.T) {
	tr := openTrainer(t, load(t, tinySpec(t, ""), decaying...), 100)
	tr.advanceBy(12)
	e, err := newEvaluator(tr)
	if err != nil {
		t.Fatal(err)
	}
	s := tr.opt.State()
	if len(owing(s.Clock[0], s.Lazy[0].Clock)) == 0 {
		t.Fatal("no row owes decay: the test shows nothing")
	}
	raw := append([]float32(nil), tr.model.Embedding.Data...)
	m := e.model()
	equalTo(t, "the evaluated model", m.Embedding.Data, effective(raw, s.Clock[0], s.Lazy[0].Clock))
	if m.Params()[0] != m.Embedding {
		t.Error("the evaluated model lists another embedding than it reads")
	}
	for i, x := range tr.model.Embedding.Data {
		if x != raw[i] {
			t.Fatal("evaluating wrote to the model in training")
		}
	}
}

func TestATrainedModelHasItsDecayApplied(t *testing.T) {
	dir := t.TempDir()
	out := run(t, load(t, tinySpec(t, ""), append([]string{"budget=2k"}, decaying...)...), dir)
	f, err := checkpoint.Read(out.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	trained, err := LoadTrained(context.Background(), dir, out.Run.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	vocab, d := trained.Tokenizer.Vocab(), trained.Model.DModel
	raw, err1 := f.F32("embedding", vocab, d)
	rowClock, err2 := f.F64(tensorRowClock, vocab)
	clock, err3 := f.F64(tensorClock, 1)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if len(owing(clock[0], rowClock)) == 0 {
		t.Fatal("no row owes decay: the test shows nothing")
	}
	want := effective(raw, clock[0], rowClock)
	equalTo(t, "the trained model", trained.Model.Embedding.Data, want)
	equalTo(t, "what the trained model lists to be exported", trained.Model.Params()[0].Data, want)
}

func TestLearningRateOfEveryStepIsTheScheduleS(t *testing.T) {
	dir := t.TempDir()
	spec := load(t, tinySpec(t, ""), "budget=8k")
	out := run(t, spec, dir)
	points := seriesOf(t, dir, out.Run.ID)["learning_rate"]
	if out.Steps != 63 || int64(len(points)) != out.Steps {
		t.Fatalf("%d points in %d steps", len(points), out.Steps)
	}
	for _, p := range points {
		done := float64(p.Step-1) / float64(out.Steps)
		if want := spec.Train.Optimizer.LearningRate(p.Step-1, done); p.Value != want {
			t.Errorf("step %d: %g, want %g at %.3f of the budget", p.Step, p.Value, want, done)
		}
	}
	if first, last := points[10].Value, points[len(points)-1].Value; last > first/5 {
		t.Errorf("from %g after the warm-up to %g: the schedule does not fall", first, last)
	}
}

// seriesOf reads the metrics of a run by name.
func seriesOf(t *testing.T, dir, runID string) map[string][]runs.Point {
	t.Helper()
	s, err := runs.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	series, err := s.Series(context.Background(), runID)
	if err != nil {
		t.Fatal(err)
	}
	points := map[string][]runs.Point{}
	for _, x := range series {
		points[x.Name] = x.Points
	}
	return points
}

// A model rigged to say b after a, and to stop after b.
func TestContinueEndsAtTheStopToken(t *testing.T) {
	trainer := corpus.NewTrainer()
	trainer.Add([]byte("a b"))
	tokenizer, err := trainer.Train(context.Background(), 272, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := amx.Select("portable")
	if err != nil {
		t.Fatal(err)
	}
	// Matrices of zero leave a token's normed row as its hidden state.
	m := nn.New(nn.Config{DModel: 8, Layers: []nn.Mixer{nn.SWA}, DFF: 8, Activation: nn.ReLU2, Heads: 1, HeadWidth: 8, StateWidth: 8, Window: 8, RopeBase: 100}, tokenizer.Vocab(), k)
	for i := range m.FinalNorm.Data {
		m.FinalNorm.Data[i] = 1
	}
	set := func(id int32, x, y float32) {
		m.Embedding.Data[int(id)*8], m.Embedding.Data[int(id)*8+1] = x, y
	}
	one := func(text string) int32 {
		ids := tokenizer.Encode([]byte(text), nil)
		if len(ids) != 1 {
			t.Fatalf("%q is %d tokens", text, len(ids))
		}
		return ids[0]
	}
	set(one("a"), 1, 0)
	set(one("b"), 2, 3)
	set(corpus.EOT, 0, 10)
	trained := &Trained{Model: m, Tokenizer: tokenizer}
	for _, x := range []struct {
		limit int
		want  string
	}{{1, "b"}, {9, "b"}} {
		if got, err := trained.Continue(context.Background(), "a", x.limit, generate.Policy{}, 1); err != nil || got != x.want {
			t.Errorf("limit %d: %q, %v, want %q", x.limit, got, err, x.want)
		}
	}
}
