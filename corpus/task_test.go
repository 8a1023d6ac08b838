package corpus

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// judge checks one example of a kind by the task's definition and returns the
// number of pairs or words.
func judge(t *testing.T, c *Corpus, kind TaskKind, e Example) int {
	t.Helper()
	prompt, answer := e.Tokens[:e.Answer], e.Tokens[e.Answer:]
	if prompt[0] != BOS {
		t.Fatalf("no BOS: %v", e.Tokens)
	}
	body := prompt[1:]
	if kind == Add {
		text := string(c.Tokenizer.Decode(body))
		a, b, ok := strings.Cut(strings.TrimSuffix(text, "="), "+")
		x, errX := strconv.Atoi(a)
		y, errY := strconv.Atoi(b)
		if !ok || errX != nil || errY != nil || x < 10 || x > 99 || y < 10 || y > 99 {
			t.Fatalf("prompt %q", text)
		}
		sum := strconv.Itoa(x + y)
		if want := append(c.Tokenizer.Encode([]byte(text+sum), nil), EOT); !slices.Equal(e.Tokens[1:], want) {
			t.Fatalf("%q: tokens %v, want %v", text, e.Tokens[1:], want)
		}
		if string(c.Tokenizer.Decode(answer)) != sum {
			t.Fatalf("%q is answered %q", text, c.Tokenizer.Decode(answer))
		}
		return 1
	}
	var words []int32
	if kind == Induct {
		words = body[:len(body)-1]
		query := body[len(body)-1]
		at := slices.Index(words, query)
		if at < 0 || at%2 != 0 || len(answer) != 1 || answer[0] != words[at+1] {
			t.Fatalf("induct %v", e.Tokens)
		}
	} else {
		words = body[:len(body)-1]
		want, marker := words, MARK
		if kind == Before {
			want, marker = words[len(words)-1:], LAST
		}
		if body[len(body)-1] != marker {
			t.Fatalf("no marker: %v", e.Tokens)
		}
		if !slices.Equal(answer, want) {
			t.Fatalf("%s %v", kind, e.Tokens)
		}
	}
	seen := map[int32]bool{}
	for _, w := range words {
		if w < specials || c.Counts()[w] == 0 || seen[w] {
			t.Fatalf("word %d is special, unseen in the text, or repeated: %v", w, e.Tokens)
		}
		seen[w] = true
	}
	if kind == Induct {
		return len(words) / 2
	}
	return len(words)
}

func TestExamplesAreRight(t *testing.T) {
	cfg, dir := twoSources(t)
	c := opened(t, cfg, dir)
	const n = 600
	for _, task := range cfg.Tasks {
		examples, err := c.Examples(task.Name, 11, n)
		if err != nil {
			t.Fatal(err)
		}
		full := task.withDefaults()
		lengths := map[int]int{}
		for _, e := range examples {
			length := judge(t, c, task.Kind, e)
			lengths[length]++
			want := 1 / float64(length)
			switch task.Kind {
			case Induct:
				want /= 2
			case Add:
				want = 1.0 / 90 // 109 has 90 of the 8,100 sums
			}
			if math.Abs(e.Chance-want) > 1e-12 {
				t.Fatalf("%s: chance %v, want %v", task.Name, e.Chance, want)
			}
		}
		for length := full.Min; length <= full.Max; length++ {
			if lengths[length] < n/(full.Max-full.Min+1)/2 {
				t.Errorf("%s: length %d occurs %d times", task.Name, length, lengths[length])
			}
		}
		if len(lengths) != full.Max-full.Min+1 {
			t.Errorf("%s: lengths %v", task.Name, lengths)
		}
		again, err := c.Examples(task.Name, 11, 3)
		if err != nil || !slices.Equal(again[2].Tokens, examples[2].Tokens) {
			t.Errorf("%s: examples are not frozen by the seed", task.Name)
		}
		other, err := c.Examples(task.Name, 12, 3)
		if err != nil || slices.Equal(other[2].Tokens, examples[2].Tokens) {
			t.Errorf("%s: another seed gives the same", task.Name)
		}
	}
	if _, err := c.Examples("sort", 1, 1); err == nil || !strings.Contains(err.Error(), "induct, pairs, before") {
		t.Errorf("error %v does not list the tasks", err)
	}
}

func TestInductAsksEveryPairAlike(t *testing.T) {
	cfg, dir := twoSources(t)
	c := opened(t, cfg, dir)
	const n = 7000
	examples, err := c.Examples("induct", 3, n)
	if err != nil {
		t.Fatal(err)
	}
	var asked [7]float64
	for _, e := range examples {
		asked[slices.Index(e.Tokens[1:], e.Tokens[e.Answer-1])/2]++
	}
	for pair, k := range asked {
		if math.Abs(k-n/7) > 5*math.Sqrt(n/7) {
			t.Errorf("pair %d is asked %v times of %d", pair, k, n)
		}
	}
}

// TestChanceIsWhatAGuesserReaches plays the best guesser that sees a prompt's words
// as a set: it names any of them, here the smallest id.
func TestChanceIsWhatAGuesserReaches(t *testing.T) {
	cfg, dir := twoSources(t)
	cfg.Tasks = []Task{{Name: "induct", Kind: Induct, Alphabet: 40}, {Name: "before", Kind: Before, Alphabet: 40}, {Name: "shift", Kind: Shift, Alphabet: 40}}
	cfg.Phases = nil
	c := opened(t, cfg, dir)
	for _, task := range cfg.Tasks {
		examples, err := c.Examples(task.Name, 1, 20000)
		if err != nil {
			t.Fatal(err)
		}
		var hits, answers, chance float64
		for _, e := range examples {
			words := slices.DeleteFunc(slices.Clone(e.Tokens[1:e.Answer]), c.Tokenizer.IsSpecial)
			for _, id := range e.Tokens[e.Answer:] {
				answers++
				chance += e.Chance
				if id == slices.Min(words) {
					hits++
				}
			}
		}
		got, want := hits/answers, chance/answers
		if sigma := math.Sqrt(want * (1 - want) / answers); math.Abs(got-want) > 4*sigma {
			t.Errorf("%s: the guesser reaches %.4f, chance says %.4f (sigma %.4f)", task.Name, got, want, sigma)
		}
	}
}

func TestTaskWindowsAskOnlyForAnswers(t *testing.T) {
	cfg, dir := twoSources(t)
	cfg.Phases = []Phase{{Until: 1, Weights: map[string]float64{"pairs": 1, "before": 1, "shift": 1, "copy": 1, "add": 1}}}
	c := opened(t, cfg, dir)
	s := sampler(t, c, 1, 256, 2, 50)
	seen := map[TaskKind]int{}
	for step := range int64(50) {
		b := s.Batch(step)
		for i, lo := range b.Starts {
			hi := len(b.Tokens)
			if i+1 < len(b.Starts) {
				hi = int(b.Starts[i+1])
			}
			if hi%256 == 0 {
				continue // perhaps cut off by the window
			}
			doc, targets := b.Tokens[lo:hi], b.Targets[lo:hi]
			var asked []int // answer positions
			for k, id := range targets {
				if id >= 0 {
					asked = append(asked, k+1)
				}
			}
			task := cfg.Tasks[int(b.Sources[lo])-len(cfg.Sources)]
			seen[task.Kind]++
			if task.Kind == Induct {
				pairs := (len(doc) - 1 - 2*len(asked)) / 2
				if len(asked) != min(3, pairs) || pairs < 2 || pairs > 4 {
					t.Fatalf("%d pairs, questions at %v", pairs, asked)
				}
				queried := map[int32]bool{}
				for q, at := range asked {
					if at != 1+2*pairs+2*q+1 || queried[doc[at-1]] {
						t.Fatalf("question %d of %v", q, doc)
					}
					queried[doc[at-1]] = true
					one := append(slices.Clone(doc[:1+2*pairs]), doc[at-1], doc[at])
					judge(t, c, Induct, Example{Tokens: one, Answer: len(one) - 1})
				}
				continue
			}
			judge(t, c, task.Kind, Example{Tokens: doc, Answer: asked[0]})
			if asked[len(asked)-1] != len(doc)-1 || len(asked) != len(doc)-asked[0] {
				t.Fatalf("%s: loss at %v of %d tokens", task.Kind, asked, len(doc))
			}
		}
	}
	if len(seen) != 5 {
		t.Errorf("seen %v", seen)
	}
}

func TestWordsAreDrawnAsAsked(t *testing.T) {
	counts := make([]int64, 400)
	for id := specials; id < 400; id++ {
		counts[id] = int64(id % 7) // every seventh does not occur
	}
	counts[BOS] = 1000
	even, err := newWordPool(counts, 50, 10)
	if err != nil {
		t.Fatal(err)
	}
	weighted, err := newWordPool(counts, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	var all float64
	for id := specials; id < 400; id++ {
		all += float64(counts[id])
	}
	r := newStream(1, "test", 0)
	const n = 400000
	gotEven, gotWeighted := map[int32]float64{}, map[int32]float64{}
	for range n {
		gotEven[even.draw(&r)]++
		gotWeighted[weighted.draw(&r)]++
	}
	if len(gotEven) != 50 {
		t.Errorf("%d words of an alphabet of 50", len(gotEven))
	}
	for id, k := range gotEven {
		if counts[id] != 6 || math.Abs(k-n/50) > 5*math.Sqrt(n/50) {
			t.Errorf("word %d of count %d was drawn %v times", id, counts[id], k)
		}
	}
	for id := range int32(400) {
		want := 0.0
		if id >= specials {
			want = n * float64(counts[id]) / all
		}
		if math.Abs(gotWeighted[id]-want) > 5*math.Sqrt(want) {
			t.Errorf("word %d was drawn %v times, want %v", id, gotWeighted[id], want)
		}
	}
}

func TestDistinctWordsNeedNoPatience(t *testing.T) {
	counts := make([]int64, 30)
	counts[16] = 1 << 40 // all draws but a few hit this one
	for id := 17; id < 30; id++ {
		counts[id] = 1
	}
	p, err := newWordPool(counts, 0, 14)
	if err != nil {
		t.Fatal(err)
	}
	r := newStream(1, "test", 0)
	var d distinctWords
	for range 20 {
		d.begin(30)
		seen := map[int32]bool{}
		for range 14 {
			seen[d.word(p, &r)] = true
		}
		if len(seen) != 14 {
			t.Fatalf("%d different words of 14", len(seen))
		}
	}
}

func TestMistakesInTheConfigurationAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"unknown weight":  {func(c *Config) { c.Phases[1].Weights["bokos"] = 1 }, `phase 2 weighs "bokos", which is no source or task; valid names: books, notes, induct, pairs`},
		"negative weight": {func(c *Config) { c.Phases[0].Weights["books"] = -1 }, `gives "books" the weight -1`},
		"NaN weight":      {func(c *Config) { c.Phases[0].Weights["books"] = math.NaN() }, `the weight NaN`},
		"no weight":       {func(c *Config) { c.Phases[0].Weights = nil }, "phase 1 has no weight above 0"},
		"phases fall":     {func(c *Config) { c.Phases[1].Until = 0.5 }, "ends must rise"},
		"phases stop":     {func(c *Config) { c.Phases[1].Until = 0.9 }, "must end at 1"},
		"two names":       {func(c *Config) { c.Tasks[0].Name = "books" }, `two sources or tasks are named "books"`},
		"no source":       {func(c *Config) { c.Sources = nil }, "at least one source"},
		"kind":            {func(c *Config) { c.Sources[0].Kind = "parquet" }, "gotree, tree, text, jsonl"},
		"path":            {func(c *Config) { c.Sources[0].Path = "" }, "path is missing"},
		"gotree path":     {func(c *Config) { c.Sources[0].Kind = GoTree }, "path has no meaning for gotree"},
		"jsonl globs":     {func(c *Config) { c.Sources[0].Include = []string{"*"} }, "include and exclude have no meaning"},
		"bad glob":        {func(c *Config) { c.Sources[0].Kind = Tree; c.Sources[0].Include = []string{"[a"} }, `glob "[a" is malformed`},
		"share":           {func(c *Config) { c.ValidationShare = 0 }, "validation_share"},
		"vocab":           {func(c *Config) { c.Tokenizer.Vocab = 100 }, "must be at least 272"},
		"task kind":       {func(c *Config) { c.Tasks[0].Kind = "sort" }, "induct, before, shift, copy, add"},
		"task lengths":    {func(c *Config) { c.Tasks[0].Min, c.Tasks[0].Max = 7, 4 }, "min 7 is above max 4"},
		"add lengths":     {func(c *Config) { c.Tasks[5].Max = 4 }, "no meaning for add"},
		"queries":         {func(c *Config) { c.Tasks[3].Queries = 4 }, "queries has no meaning for shift"},
		"small alphabet":  {func(c *Config) { c.Tasks[0].Alphabet = 13 }, "needs 14 different words in one document, but its alphabet has 13"},
		"large alphabet":  {func(c *Config) { c.Tasks[0].Alphabet = 9000 }, "tokens occur in the training text"},
	} {
		cfg, dir := twoSources(t)
		c.change(&cfg)
		_, err := Open(context.Background(), cfg, dir, t.TempDir(), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}
