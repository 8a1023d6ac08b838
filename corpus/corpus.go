// Package corpus turns text into deterministic batches of tokens.
//
// In: a Config that names sources of text, synthetic tasks and a curriculum. Out:
// a Tokenizer, memory-mapped token shards in a cache directory, Samplers whose
// batches depend on (seed, step, schedule) alone, validation batches, and examples
// of the synthetic tasks for probes. Not here: models, losses, and the judging of
// what a model answers.
package corpus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Progress is told how far a stage of opening a corpus has come, often. The unit
// depends on the stage; total is 0 where it is not known.
type Progress func(stage string, done, total int64)

// Corpus is opened text and tasks. It may be read from several goroutines; each of
// them needs its own Sampler.
type Corpus struct {
	Config    Config
	Tokenizer *Tokenizer
	Manifest  Manifest
	Mixture   []string // names of the sources, then of the tasks; Batch.Sources indexes it
	Reused    bool     // the shards were in the cache already
	Notes     []string // what the user should be told, one line each

	shards *shards
	tasks  []*task
}

// Open makes cfg's corpus ready: its shards come from cacheDir or are built there.
// Relative paths in cfg start at dir. Two processes may open the same corpus at
// once; one builds and the other waits. progress may be nil. Close releases the
// mappings.
func Open(ctx context.Context, cfg Config, dir, cacheDir string, progress Progress) (*Corpus, error) {
	if progress == nil {
		progress = func(string, int64, int64) {}
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir) // the cache key must tell equal names in two places apart
	if err != nil {
		return nil, fmt.Errorf("open corpus: %w", err)
	}
	c := &Corpus{Config: cfg, Mixture: cfg.names()}
	var given *Tokenizer
	if cfg.Tokenizer.File != "" {
		if given, err = Load(inDir(dir, cfg.Tokenizer.File)); err != nil {
			return nil, err
		}
	}
	var sources []*source
	for _, s := range cfg.Sources {
		src, err := list(ctx, s, dir)
		if err != nil {
			return nil, err
		}
		sources = append(sources, src)
	}
	if err := c.openOrBuild(ctx, sources, given, cacheDir, progress); err != nil {
		return nil, err
	}
	return c.ready(given == nil)
}

// Reopen opens the shards in cacheDir that a corpus of cfg was opened with before,
// by their Manifest's Key: whatever has become of the sources since.
func Reopen(ctx context.Context, cfg Config, cacheDir, key string, progress Progress) (*Corpus, error) {
	if progress == nil {
		progress = func(string, int64, int64) {}
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if key == "" || filepath.Base(key) != key {
		return nil, fmt.Errorf("reopen corpus: %q is no key", key)
	}
	opened, err := openShards(ctx, filepath.Join(cacheDir, key), key, progress)
	if err != nil {
		return nil, fmt.Errorf("reopen corpus %s: %w", key, err)
	}
	if len(opened.manifest.Sources) != len(cfg.Sources) {
		return nil, errors.Join(fmt.Errorf("reopen corpus %s: it has %d sources, want %d", key, len(opened.manifest.Sources), len(cfg.Sources)), opened.close())
	}
	c := &Corpus{Config: cfg, Mixture: cfg.names(), shards: opened, Reused: true}
	return c.ready(cfg.Tokenizer.File == "")
}

// ready takes what the shards say and makes the tasks. ownTokenizer says whether
// the tokenizer was trained on this corpus.
func (c *Corpus) ready(ownTokenizer bool) (*Corpus, error) {
	cfg := c.Config
	c.Tokenizer, c.Manifest = c.shards.tokenizer, c.shards.manifest
	if v := c.Tokenizer.Vocab(); ownTokenizer && v < cfg.Tokenizer.Vocab {
		c.Notes = append(c.Notes, fmt.Sprintf("vocabulary is %d of the %d asked for: no pair is left that occurs twice in the tokenizer's training text", v, cfg.Tokenizer.Vocab))
	}
	for _, t := range cfg.Tasks {
		made, err := newTask(t, c.Tokenizer, c.Manifest.Counts)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("task %q: %w", t.Name, err), c.Close())
		}
		c.tasks = append(c.tasks, made)
	}
	return c, nil
}

// Preview finds the files of every source and reads its first document: what a
// corpus would stumble over at once. Nothing is written.
func Preview(ctx context.Context, cfg Config, dir string) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if cfg.Tokenizer.File != "" {
		if _, err := Load(inDir(dir, cfg.Tokenizer.File)); err != nil {
			return err
		}
	}
	for _, s := range cfg.Sources {
		src, err := list(ctx, s, dir)
		if err != nil {
			return err
		}
		read := false
		for _, err := range src.documents(ctx) {
			if err != nil {
				return err
			}
			read = true
			break
		}
		if !read {
			return fmt.Errorf("source %q holds no text in its %d files", s.Name, len(src.files))
		}
	}
	return nil
}

// openOrBuild fills c.shards.
func (c *Corpus) openOrBuild(ctx context.Context, sources []*source, given *Tokenizer, cacheDir string, progress Progress) error {
	key, err := cacheKey(c.Config, sources, given)
	if err != nil {
		return err
	}
	target := filepath.Join(cacheDir, key)
	reuse := func() (bool, error) {
		opened, err := openShards(ctx, target, key, progress)
		if err != nil {
			return false, err
		}
		c.shards, c.Reused = opened, true
		c.Notes = append(c.Notes, "corpus reused from "+target)
		return true, nil
	}
	// A finished cache is taken without the lock, which a read-only one could not give.
	if ok, _ := reuse(); ok {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("open corpus: %w", err)
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return fmt.Errorf("create corpus cache: %w", err)
	}
	unlock, err := lockFile(ctx, target+".lock", func() { progress("wait for another process that builds this corpus", 0, 0) })
	if err != nil {
		return fmt.Errorf("corpus cache: %w", err)
	}
	defer unlock()
	ok, damage := reuse()
	if ok {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("open corpus: %w", err)
	}
	if !errors.Is(damage, errNoShards) {
		c.Notes = append(c.Notes, fmt.Sprintf("corpus cache %s was damaged and is built anew: %v", target, damage))
	}
	b := &builder{cfg: c.Config, sources: sources, tokenizer: given, progress: progress}
	if err := b.buildAside(ctx, cacheDir, key); err != nil {
		return err
	}
	if c.shards, err = openShards(ctx, target, key, progress); err != nil {
		return fmt.Errorf("open the shards just built: %w", err)
	}
	return nil
}

// Close releases the memory maps. Batches drawn earlier stay valid; samplers do not.
func (c *Corpus) Close() error {
	if err := c.shards.close(); err != nil {
		return fmt.Errorf("close corpus: %w", err)
	}
	return nil
}

// Hash identifies the shards' content: equal text, split and tokenizer give an
// equal hash on any machine.
func (c *Corpus) Hash() string { return c.Manifest.Hash }

// Counts returns how often each id occurs in the training shards, [V]; BOS counts
// once per document. The caller must not change it.
func (c *Corpus) Counts() []int64 { return c.Manifest.Counts }

// Trains reports whether any phase has the named source or task in its mixture.
func (c *Corpus) Trains(name string) bool {
	return slices.ContainsFunc(c.phases(), func(p Phase) bool { return p.Weights[name] > 0 })
}

// InMixture reports whether the mixture of the first step steps, of a run of steps,
// holds the named source or task.
func (c *Corpus) InMixture(name string, step, steps int64) bool {
	begins := int64(0)
	for _, p := range c.phases() {
		ends := p.EndStep(steps)
		if begins < min(step, ends) && p.Weights[name] > 0 {
			return true
		}
		begins = ends
	}
	return false
}

// EndStep is the number of steps, of a run of steps, after which the phase is over.
func (p Phase) EndStep(steps int64) int64 { return int64(math.Round(p.Until * float64(steps))) }

// phases is the curriculum; without one, all sources share in proportion to their
// training tokens.
func (c *Corpus) phases() []Phase {
	if len(c.Config.Phases) > 0 {
		return c.Config.Phases
	}
	weights := map[string]float64{}
	for _, s := range c.Manifest.Sources {
		weights[s.Name] = float64(s.Train.Tokens)
	}
	return []Phase{{Until: 1, Weights: weights}}
}

// UnigramEntropy is the mean loss, in nats per target, that the add-one-smoothed
// unigram distribution of the training text has on the targets of batches: what a
// model that knows nothing but frequencies reaches. BOS is never a target and has
// no share of the distribution.
func (c *Corpus) UnigramEntropy(batches []Batch) float64 {
	counts := c.Counts()
	total := float64(len(counts) - 1)
	for id, n := range counts {
		if int32(id) != BOS {
			total += float64(n)
		}
	}
	var sum float64
	var scored int
	for _, b := range batches {
		for _, id := range b.Targets {
			if id >= 0 {
				sum += math.Log(total / float64(counts[id]+1))
				scored++
			}
		}
	}
	return sum / float64(scored)
}

// sourceIndex finds a source of text by name.
func (c *Corpus) sourceIndex(name string) (int, error) {
	var names []string
	for i, s := range c.Manifest.Sources {
		if s.Name == name {
			return i, nil
		}
		names = append(names, s.Name)
	}
	return 0, fmt.Errorf("no source is named %q; there are: %s", name, strings.Join(names, ", "))
}
