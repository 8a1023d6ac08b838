package corpus

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func cloned(b *Batch) Batch {
	return Batch{slices.Clone(b.Tokens), slices.Clone(b.Targets), slices.Clone(b.Starts), slices.Clone(b.Sources)}
}

func equal(a, b Batch) bool {
	return slices.Equal(a.Tokens, b.Tokens) && slices.Equal(a.Targets, b.Targets) && slices.Equal(a.Starts, b.Starts) && slices.Equal(a.Sources, b.Sources)
}

func sampler(t testing.TB, c *Corpus, seed int64, sequence, windows int, steps int64) *Sampler {
	t.Helper()
	s, err := c.Sampler(seed, sequence, windows, steps)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBatchesDependOnSeedAndStepAlone(t *testing.T) {
	cfg, dir := twoSources(t)
	c := opened(t, cfg, dir)
	const steps = 400 // several epochs of both sources, both phases
	run := sampler(t, c, 7, 64, 3, steps)
	var all []Batch
	for step := range int64(steps) {
		all = append(all, cloned(run.Batch(step)))
	}
	again := opened(t, cfg, dir) // built anew, elsewhere
	for _, step := range []int64{399, 0, 1, 250, 200, 199, 201, 13, 14, 14} {
		if got := sampler(t, again, 7, 64, 3, steps).Batch(step); !equal(*got, all[step]) {
			t.Errorf("step %d differs after a fresh seek", step)
		}
		if got := run.Batch(step); !equal(*got, all[step]) {
			t.Errorf("step %d differs after jumping about", step)
		}
	}
	same := 0
	other := sampler(t, c, 8, 64, 3, steps)
	for step := range int64(20) {
		if equal(*other.Batch(step), all[step]) {
			same++
		}
	}
	if same > 0 {
		t.Errorf("%d of 20 batches do not depend on the seed", same)
	}
	for step := 1; step < steps; step++ {
		if slices.Equal(all[step].Tokens, all[step-1].Tokens) {
			t.Fatalf("steps %d and %d are equal", step-1, step)
		}
	}
}

// epochRow reads one epoch window by window, in training order, and puts the
// windows back where they were cut from: the epoch's documents in a row, without
// what was left behind the last whole window. inOrder counts windows that were
// read right after the one they follow in the row.
func epochRow(t *testing.T, c *Corpus, source int, epoch int64, sequence int) (row, targets []int32, inOrder int) {
	t.Helper()
	r := c.trainingReader(source, 1, sequence)
	n := len(r.windows)
	row, targets = make([]int32, n*sequence), make([]int32, n*sequence)
	read := make([]bool, n)
	before := int32(-2)
	for i := range n {
		b := newBatch(sequence, 1)
		r.seekWindow(epoch*int64(n) + int64(i))
		at := r.windows[i]
		r.fill(&b, 0, sequence)
		if read[at] {
			t.Fatalf("window %d was read twice in epoch %d", at, epoch)
		}
		read[at] = true
		if at == before+1 {
			inOrder++
		}
		before = at
		copy(row[int(at)*sequence:], b.Tokens)
		copy(targets[int(at)*sequence:], b.Targets)
	}
	return row, targets, inOrder
}

func TestEpochReadsEveryWindowOnceInDrawnOrder(t *testing.T) {
	cfg, dir := twoSources(t)
	c := opened(t, cfg, dir)
	const sequence = 16
	want := documentsOf(t, c, train, 1)
	var orders [2]string
	for epoch := range 2 {
		row, _, inOrder := epochRow(t, c, 1, int64(epoch), sequence)
		if missing := int(c.shards.sides[train][1].length()) - len(row); missing < 0 || missing >= sequence {
			t.Errorf("epoch %d leaves out %d tokens of a window of %d", epoch, missing, sequence)
		}
		if windows := len(row) / sequence; inOrder > windows/4 {
			t.Errorf("%d of %d windows were read right after the one before them", inOrder, windows)
		}
		if row[0] != BOS {
			t.Fatalf("epoch %d does not begin with a document", epoch)
		}
		var docs []string
		for i, id := range row {
			if id == BOS {
				end := i + 1
				for end < len(row) && row[end] != BOS {
					end++
				}
				docs = append(docs, string(c.Tokenizer.Decode(row[i:end])))
			}
		}
		orders[epoch] = strings.Join(docs, "|")
		// The last document may be cut off by the end of the last whole window; at
		// most one more may lie wholly behind it.
		for _, doc := range docs[:len(docs)-1] {
			if !slices.Contains(want, doc) {
				t.Errorf("epoch %d reads a document that is none: %q", epoch, doc)
			}
		}
		slices.Sort(docs)
		if whole := slices.Compact(docs); len(whole) < len(want)-2 {
			t.Errorf("epoch %d holds %d of %d documents", epoch, len(whole), len(want))
		}
	}
	if orders[0] == orders[1] {
		t.Error("both epochs have one order")
	}
}

func TestASourceShorterThanAWindowIsAnEndlessRow(t *testing.T) {
	cfg, dir := twoSources(t)
	c := opened(t, cfg, dir)
	sh := &c.shards.sides[train][1]
	sequence := int(sh.length()) + 7
	r := c.trainingReader(1, 1, sequence)
	b := newBatch(sequence, 1)
	tokens := int64(0)
	for nth := range int64(5) {
		r.seekWindow(nth)
		r.fill(&b, 0, sequence)
		for _, id := range b.Tokens {
			if id == BOS {
				tokens++
			}
		}
	}
	if epochs := float64(tokens) / float64(sh.documents()); epochs < 5 || epochs > 6 {
		t.Errorf("5 windows of an epoch and 7 tokens held the documents %.2f times", epochs)
	}
}

// checkBatch verifies what every batch promises.
func checkBatch(t *testing.T, b *Batch, sequence int) {
	t.Helper()
	starts := map[int]bool{}
	for i, at := range b.Starts {
		if i > 0 && at <= b.Starts[i-1] {
			t.Fatalf("starts do not ascend: %v", b.Starts)
		}
		starts[int(at)] = true
	}
	for i, id := range b.Tokens {
		if i%sequence == 0 && !starts[i] {
			t.Fatalf("no segment starts the window at %d", i)
		}
		if id == BOS && !starts[i] {
			t.Fatalf("a document starts at %d, a segment does not", i)
		}
		if starts[i] && i%sequence != 0 && id != BOS && id != PAD {
			t.Fatalf("a segment starts at %d, inside its window, with %d", i, id)
		}
		target := b.Targets[i]
		if target == BOS || target == PAD {
			t.Fatalf("the target at %d crosses into another document", i)
		}
		inside := i+1 < len(b.Tokens) && !starts[i+1]
		if inside && target != -1 && target != b.Tokens[i+1] {
			t.Fatalf("the target at %d is %d, the next token %d", i, target, b.Tokens[i+1])
		}
		if inside && b.Sources[i] != b.Sources[i+1] {
			t.Fatalf("the segment at %d has two sources", i)
		}
		if i+1 < len(b.Tokens) && b.Tokens[i+1] == BOS && target != -1 && (i+1)%sequence != 0 {
			t.Fatalf("the last token of the document that ends at %d has a target", i)
		}
	}
}

func TestStartsAndTargetsAgree(t *testing.T) {
	cfg, dir := twoSources(t)
	c := opened(t, cfg, dir)
	for _, sequence := range []int{32, 57, 500} {
		s := sampler(t, c, 3, sequence, 4, 100)
		for step := range int64(100) {
			b := s.Batch(step)
			checkBatch(t, b, sequence)
			for i, id := range b.Targets[:len(b.Targets)-1] {
				text := int(b.Sources[i]) < len(c.Config.Sources)
				if text && id == -1 && b.Tokens[i+1] != BOS && (i+1)%sequence != 0 {
					t.Fatalf("no loss at %d, inside a text", i)
				}
			}
		}
	}
}

func TestTargetAtWindowEdgeIsTheNextToken(t *testing.T) {
	cfg, dir := twoSources(t)
	c := opened(t, cfg, dir)
	const sequence = 10
	row, targets, _ := epochRow(t, c, 0, 1, sequence)
	edges := 0
	for i := sequence; i < len(row); i += sequence {
		want := row[i]
		if want == BOS {
			want = -1
		} else {
			edges++
		}
		if targets[i-1] != want {
			t.Fatalf("the target before position %d is %d, want %d", i, targets[i-1], want)
		}
	}
	if edges < 50 {
		t.Errorf("only %d documents crossed a window's edge", edges)
	}
}

func TestWeightsAreKept(t *testing.T) {
	cfg, dir := twoSources(t)
	c := opened(t, cfg, dir)
	const steps, windows, sequence = 400, 8, 64
	s := sampler(t, c, 5, sequence, windows, steps)
	for half, weights := range []map[string]float64{cfg.Phases[0].Weights, cfg.Phases[1].Weights} {
		var sum float64
		for _, w := range weights {
			sum += w
		}
		tokens := make([]float64, len(c.Mixture))
		for step := half * steps / 2; step < (half+1)*steps/2; step++ {
			for _, source := range s.Batch(int64(step)).Sources {
				tokens[source]++
			}
		}
		for i, name := range c.Mixture {
			got, want := tokens[i]/(steps/2*windows*sequence), weights[name]/sum
			tolerance := 1.0 / (steps / 2 * windows) // text: one window
			if i >= len(cfg.Sources) {
				tolerance = 0.015 // tasks are drawn by lot
			}
			if math.Abs(got-want) > tolerance {
				t.Errorf("phase %d: %s has %.4f of the tokens, want %.4f", half, name, got, want)
			}
		}
	}
}

func TestSharesHoldOverShortStretches(t *testing.T) {
	cfg, dir := twoSources(t)
	cfg.Tasks, cfg.Phases = nil, []Phase{{Until: 1, Weights: map[string]float64{"books": 3, "notes": 1}}}
	s := sampler(t, opened(t, cfg, dir), 5, 16, 4, 10)
	for step := range int64(10) {
		notes := 0
		for _, source := range s.Batch(step).Sources {
			notes += int(source)
		}
		if notes != 16 {
			t.Errorf("step %d has %d tokens of notes, want one window of four", step, notes)
		}
	}
}

func TestNoCreditOutlivesItsPhase(t *testing.T) {
	cfg, dir := twoSources(t)
	cfg.Phases = []Phase{
		{Until: 0.5, Weights: map[string]float64{"books": 1, "notes": 1, "shift": 1}},
		{Until: 1, Weights: map[string]float64{"books": 1, "notes": 1}},
	}
	// Two windows of three, so that the third entry is owed one when the phase ends.
	s := sampler(t, opened(t, cfg, dir), 5, 32, 1, 4)
	for step := range int64(4) {
		if source := s.Batch(step).Sources[0]; source > 1 {
			t.Errorf("step %d is %s", step, s.corpus.Mixture[source])
		}
	}
}

func TestWithoutPhasesSourcesShareByTokens(t *testing.T) {
	cfg, dir := twoSources(t)
	cfg.Phases = nil
	c := opened(t, cfg, dir)
	s := sampler(t, c, 5, 16, 10, 100)
	var notes, all float64
	for step := range int64(100) {
		for _, source := range s.Batch(step).Sources {
			if source > 1 {
				t.Fatal("a task without weight was drawn")
			}
			notes += float64(source)
			all++
		}
	}
	trainTokens, _ := c.Manifest.tokens()
	if want := float64(c.Manifest.Sources[1].Train.Tokens) / float64(trainTokens); math.Abs(notes/all-want) > 0.002 {
		t.Errorf("notes have %.4f, want %.4f", notes/all, want)
	}
	if c.InMixture("induct", 10, 10) || !c.InMixture("notes", 10, 10) {
		t.Error("InMixture is wrong")
	}
}

func TestBatchAllocatesNothing(t *testing.T) {
	cfg, dir := twoSources(t)
	s := sampler(t, opened(t, cfg, dir), 5, 64, 4, 4000)
	step := int64(0)
	for ; step < 50; step++ {
		s.Batch(step)
	}
	if n := testing.AllocsPerRun(1000, func() { s.Batch(step); step++ }); n > 0 {
		t.Errorf("%v allocations per batch", n)
	}
}

func TestSamplerRefuses(t *testing.T) {
	cfg, dir := twoSources(t)
	c := opened(t, cfg, dir)
	if _, err := c.Sampler(1, 20, 4, 10); err == nil || !strings.Contains(err.Error(), `"shift"`) && !strings.Contains(err.Error(), `"pairs"`) && !strings.Contains(err.Error(), `"copy"`) {
		t.Errorf("windows too short for the tasks: error %v", err)
	}
	if _, err := c.Sampler(1, 64, 0, 10); err == nil {
		t.Error("no windows: no error")
	}
}

func TestInMixtureFollowsThePhases(t *testing.T) {
	cfg, dir := twoSources(t)
	cfg.Tasks = []Task{{Name: "shift", Kind: Shift, Min: 2, Max: 3}}
	cfg.Phases = []Phase{{Until: 0.25, Weights: map[string]float64{"notes": 1}}, {Until: 1, Weights: map[string]float64{"shift": 1}}}
	c := opened(t, cfg, dir)
	for _, x := range []struct {
		name string
		step int64
		want bool
	}{{"notes", 0, false}, {"notes", 1, true}, {"notes", 10, true}, {"shift", 3, false}, {"shift", 4, true}} {
		if got := c.InMixture(x.name, x.step, 10); got != x.want { // the second phase begins after step 3 (2.5 rounded)
			t.Errorf("%s in the first %d of 10 steps: %v", x.name, x.step, got)
		}
	}
	if c.InMixture("notes", 1, 1) || !c.InMixture("shift", 1, 1) { // 0.25 of a step is none
		t.Error("a phase without a step counts")
	}
}
