package corpus

import (
	"math"
	"strings"
	"testing"
)

func TestValidation(t *testing.T) {
	cfg, dir := twoSources(t)
	c := opened(t, cfg, dir)
	for _, source := range []string{"books", "notes"} {
		var want int64
		for _, s := range c.Manifest.Sources {
			if source == s.Name {
				want += s.Validation.Tokens
			}
		}
		batches, err := c.Validation(source, 32, 3, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.Validation(source, 32, 3, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		var tokens, documents, targets int64
		for i, b := range batches {
			checkBatch(t, &b, 32)
			if !equal(b, again[i]) {
				t.Fatalf("%q: batch %d differs the second time", source, i)
			}
			for k, id := range b.Tokens {
				if id != PAD {
					tokens++
				}
				if id == BOS {
					documents++
				}
				if b.Targets[k] >= 0 {
					targets++
				}
			}
		}
		// Each document gives every token but its BOS as a target.
		if tokens != want || targets != want-documents {
			t.Errorf("%q: %d tokens, %d documents, %d targets; want %d tokens", source, tokens, documents, targets, want)
		}
		small, err := c.Validation(source, 32, 3, 96)
		if err != nil || len(small) != 1 {
			t.Errorf("%q: %d batches for 96 tokens, %v", source, len(small), err)
		}
	}
	if _, err := c.Validation("nobody", 32, 3, 96); err == nil || !strings.Contains(err.Error(), "books, notes") {
		t.Errorf("error %v does not list the sources", err)
	}
}

func TestUnigramEntropy(t *testing.T) {
	cfg, dir := twoSources(t)
	c := opened(t, cfg, dir)
	var batches []Batch
	for _, source := range []string{"books", "notes"} {
		part, err := c.Validation(source, 32, 3, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, part...)
	}
	p := make([]float64, c.Tokenizer.Vocab())
	var total, mass, sum, n float64
	for id, count := range c.Counts() {
		if id != int(BOS) {
			p[id] = float64(count) + 1
			total += p[id]
		}
	}
	for i := range p {
		p[i] /= total
		mass += p[i]
	}
	for side := range c.Config.Sources {
		sh := &c.shards.sides[validation][side]
		for at := range sh.length() {
			if id := sh.token(at); id != BOS {
				sum -= math.Log(p[id])
				n++
			}
		}
	}
	got := c.UnigramEntropy(batches)
	if math.Abs(got-sum/n) > 1e-9 || math.Abs(mass-1) > 1e-9 || got < 2 || got > math.Log(float64(len(p))) {
		t.Errorf("%v nats, want %v", got, sum/n)
	}
}

func TestValidationDocuments(t *testing.T) {
	cfg, dir := twoSources(t)
	c := opened(t, cfg, dir)
	docs, err := c.Documents("books", 5, 20, 30)
	if err != nil || len(docs) != 5 {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	held := strings.Join(documentsOf(t, c, validation, 0), "\x00")
	for _, ids := range docs {
		if ids[0] != BOS || len(ids) < 20 || len(ids) > 30 || !strings.Contains(held, string(c.Tokenizer.Decode(ids))) {
			t.Errorf("document %v", ids)
		}
	}
}
