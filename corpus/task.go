package corpus

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// lengths returns the kind's default smallest and largest length: pairs for
// induct, words for before, shift and copy.
func (k TaskKind) lengths() (smallest, largest int) {
	switch k {
	case Induct:
		return 7, 7
	case Before:
		return 2, 14
	case Shift:
		return 14, 14
	case Copy:
		return 6, 12
	}
	return 1, 1 // add has one length
}

// withDefaults replaces lengths of 0 by the kind's, or by the other end where the
// kind's would lie beyond it.
func (t Task) withDefaults() Task {
	smallest, largest := t.Kind.lengths()
	if t.Min == 0 {
		t.Min = smallest
		if t.Max > 0 {
			t.Min = min(smallest, t.Max)
		}
	}
	if t.Max == 0 {
		t.Max = max(largest, t.Min)
	}
	t.Queries = max(t.Queries, 1)
	return t
}

// Validate reports a task whose lengths or settings its kind does not know.
func (t Task) Validate() error {
	full := t.withDefaults()
	switch {
	case !slices.Contains(t.Kind.Values(), string(t.Kind)):
		return fmt.Errorf("kind %q is none of %s", t.Kind, strings.Join(t.Kind.Values(), ", "))
	case t.Kind == Add && (t.Min != 0 || t.Max != 0 || t.Alphabet != 0):
		return fmt.Errorf("min, max and alphabet have no meaning for add")
	case t.Kind != Induct && t.Queries > 1:
		return fmt.Errorf("queries has no meaning for %s", t.Kind)
	case t.Min < 0 || t.Max < 0 || t.Alphabet < 0 || t.Queries < 0:
		return fmt.Errorf("min, max, alphabet and queries must not be negative")
	case full.Min > full.Max:
		return fmt.Errorf("min %d is above max %d", full.Min, full.Max)
	}
	return nil
}

// task generates documents of one synthetic task. It does not change after newTask.
type task struct {
	Task  // defaults filled in
	words *wordPool
	vocab int

	// Add: its tokens, and the chance of the commonest sum.
	numbers     [2*addMax + 1][]int32
	plus, equal []int32
	addChance   float64
}

// Operands of add: all two-digit numbers.
const addMin, addMax = 10, 99

func newTask(cfg Task, tok *Tokenizer, counts []int64) (*task, error) {
	t := &task{Task: cfg.withDefaults(), vocab: tok.Vocab()}
	if t.Kind == Add {
		// The pieces of "12+34=46" are its numbers and signs, so that tokens made
		// one by one are those of the whole text.
		for n := addMin; n < len(t.numbers); n++ {
			t.numbers[n] = tok.Encode([]byte(strconv.Itoa(n)), nil)
		}
		t.plus, t.equal = tok.Encode([]byte("+"), nil), tok.Encode([]byte("="), nil)
		t.addChance = commonestSum()
		return t, nil
	}
	distinct := t.Max
	if t.Kind == Induct {
		distinct = 2 * t.Max
	}
	var err error
	t.words, err = newWordPool(counts, t.Alphabet, distinct)
	return t, err
}

// commonestSum is the probability of the likeliest sum of two operands.
func commonestSum() float64 {
	var ways [2*addMax + 1]int
	all := 0
	for a := addMin; a <= addMax; a++ {
		for b := addMin; b <= addMax; b++ {
			ways[a+b]++
			all++
		}
	}
	return float64(slices.Max(ways[:])) / float64(all)
}

// chance is the best expected score of a guesser that sees which words a document
// of length n holds, but neither their order nor the query.
func (t *task) chance(n int) float64 {
	switch t.Kind {
	case Add:
		return t.addChance
	case Induct:
		return 1 / float64(2*n)
	}
	return 1 / float64(n)
}

// tokens is the number of tokens of a document of length n, BOS included; not for add.
func (t *task) tokens(n int) int {
	switch t.Kind {
	case Induct:
		return 1 + 2*n + 2*min(t.Queries, n)
	case Before:
		return 1 + n + 2
	}
	return 1 + n + 1 + n
}

// extent returns the mean and the largest number of tokens of a document.
func (t *task) extent() (mean float64, largest int) {
	sum, documents := 0, 0
	count := func(tokens int) {
		sum += tokens
		documents++
		largest = max(largest, tokens)
	}
	if t.Kind == Add {
		for a := addMin; a <= addMax; a++ {
			for b := addMin; b <= addMax; b++ {
				count(1 + len(t.numbers[a]) + len(t.plus) + len(t.numbers[b]) + len(t.equal) + len(t.numbers[a+b]) + 1)
			}
		}
	} else {
		for n := t.Min; n <= t.Max; n++ {
			count(t.tokens(n))
		}
	}
	return float64(sum) / float64(documents), largest
}

// taskDocument is one generated document; its slices are used again for the next.
type taskDocument struct {
	tokens []int32
	answer []bool // whether loss falls on the token
	length int    // pairs or words

	distinct distinctWords
	asked    []int32 // induct: pairs in the order of the questions
}

func (d *taskDocument) say(answer bool, ids ...int32) {
	for _, id := range ids {
		d.tokens = append(d.tokens, id)
		d.answer = append(d.answer, answer)
	}
}

// generate replaces d by the next document that r gives, with at most queries
// questions where the task asks any.
func (t *task) generate(r *stream, d *taskDocument, queries int) {
	d.tokens, d.answer = d.tokens[:0], d.answer[:0]
	d.length = t.Min + int(r.below(int64(t.Max-t.Min+1)))
	d.say(false, BOS)
	if t.Kind == Add {
		t.generateAdd(r, d)
		return
	}
	words := d.length
	if t.Kind == Induct {
		words *= 2
	}
	d.distinct.begin(t.vocab)
	for range words {
		d.say(false, d.distinct.word(t.words, r))
	}
	switch t.Kind {
	case Induct:
		d.asked = d.asked[:0]
		for pair := range d.length {
			d.asked = append(d.asked, int32(pair))
		}
		r.shuffle(d.asked)
		for _, pair := range d.asked[:min(queries, d.length)] {
			d.say(false, d.tokens[1+2*pair])
			d.say(true, d.tokens[2+2*pair])
		}
	case Before:
		d.say(false, LAST) // a marker of its own: after MARK the answer is the first word
		d.say(true, d.tokens[words])
	case Shift, Copy:
		d.say(false, MARK)
		for i := range words {
			d.say(true, d.tokens[1+i])
		}
	}
}

func (t *task) generateAdd(r *stream, d *taskDocument) {
	a := addMin + int(r.below(addMax-addMin+1))
	b := addMin + int(r.below(addMax-addMin+1))
	d.say(false, t.numbers[a]...)
	d.say(false, t.plus...)
	d.say(false, t.numbers[b]...)
	d.say(false, t.equal...)
	d.say(true, t.numbers[a+b]...)
	d.say(true, EOT)
}

// Example is one document of a task, to be asked of a model. Tokens[:Answer] is
// the prompt and Tokens[Answer:] the right answer; add's ends with EOT.
type Example struct {
	Tokens []int32
	Answer int     // index of the first answer token
	Chance float64 // expected accuracy of the best guesser that sees the prompt's words but neither order nor query
}

// Examples draws n documents of the named task, for induct with one question each.
// Equal arguments give equal examples, and no training batch shares their stream.
func (c *Corpus) Examples(name string, seed int64, n int) ([]Example, error) {
	at := slices.IndexFunc(c.tasks, func(t *task) bool { return t.Name == name })
	if at < 0 {
		var names []string
		for _, t := range c.tasks {
			names = append(names, t.Name)
		}
		return nil, fmt.Errorf("no task is named %q; there are: %s", name, strings.Join(names, ", "))
	}
	r := newStream(seed, "examples/"+name, 0)
	var d taskDocument
	examples := make([]Example, n)
	for i := range examples {
		c.tasks[at].generate(&r, &d, 1)
		examples[i] = Example{
			Tokens: slices.Clone(d.tokens),
			Answer: slices.Index(d.answer, true),
			Chance: c.tasks[at].chance(d.length),
		}
	}
	return examples, nil
}
