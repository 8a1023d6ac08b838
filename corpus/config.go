package corpus

// SourceKind says how a source is read.
type SourceKind string

const (
	GoTree SourceKind = "gotree" // the Go standard library's source of the running toolchain
	Tree   SourceKind = "tree"   // a directory tree with globs, one document per file
	Text   SourceKind = "text"   // plain-text files, one document per file
	JSONL  SourceKind = "jsonl"  // one JSON object per line, .zst and .gz allowed
)

// Values lists what a spec may say.
func (SourceKind) Values() []string {
	return []string{string(GoTree), string(Tree), string(Text), string(JSONL)}
}

// TaskKind names a synthetic task.
type TaskKind string

const (
	Induct TaskKind = "induct" // pairs, then a query key: emit the value that followed it
	Before TaskKind = "before" // random words, a marker of its own: emit the word before it
	Shift  TaskKind = "shift"  // random words, a marker: emit the same words again, at a fixed offset
	Copy   TaskKind = "copy"   // like shift, but the length varies, so that position alone does not tell
	Add    TaskKind = "add"    // two-digit addition in the tokenizer's own digits
)

// Values lists what a spec may say.
func (TaskKind) Values() []string {
	return []string{string(Induct), string(Before), string(Shift), string(Copy), string(Add)}
}

// Config says which text and which synthetic tasks become batches.
type Config struct {
	Tokenizer       TokenizerConfig `yaml:"tokenizer"`
	Sources         []Source        `yaml:"sources" doc:"real text"`
	Tasks           []Task          `yaml:"tasks" doc:"synthetic tasks, generated from the seed as they are needed"`
	Phases          []Phase         `yaml:"phases" doc:"curriculum: mixture weights by phase; without it all sources share one phase in proportion to their tokens"`
	ValidationShare float64         `yaml:"validation_share" default:"0.05" range:"(0,0.5]" doc:"share of documents held out for validation, chosen by content hash"`
}

// TokenizerConfig is the byte-level BPE.
type TokenizerConfig struct {
	Vocab      int    `yaml:"vocab" default:"16384" range:"[272,1000000]" doc:"vocabulary size, special tokens included"`
	File       string `yaml:"file" doc:"an existing tokenizer.json to use instead of training one"`
	TrainBytes int64  `yaml:"train_bytes" default:"100MB" unit:"bytes" range:"[1,1e15]" doc:"how much text the tokenizer is trained on"`
}

// Source is one body of text.
type Source struct {
	Name      string     `yaml:"name" required:"true" doc:"name in mixtures, metrics and tables"`
	Kind      SourceKind `yaml:"kind" required:"true" doc:"how it is read: gotree (the Go toolchain's own source), tree (a directory with globs, a document per file), text (files), jsonl (a field of every line; .zst and .gz too)"`
	Path      string     `yaml:"path" doc:"file, glob or directory; relative to the spec file; not for gotree"`
	Include   []string   `yaml:"include" doc:"tree, gotree: globs to keep, ** crosses directories; all files by default"`
	Exclude   []string   `yaml:"exclude" doc:"tree, gotree: globs to leave out"`
	Separator string     `yaml:"separator" doc:"text: cut every file into documents behind each of these, such as a blank line, \"\\n\\n\"; empty: one document per file"`
	Field     string     `yaml:"field" default:"text" doc:"jsonl: the field that holds the document"`
	MaxBytes  int64      `yaml:"max_bytes" default:"0" unit:"bytes" range:"[0,1e15]" doc:"stop after this much text; 0 reads all"`
}

// Task is one synthetic task. Loss falls on the answers only.
type Task struct {
	Name     string   `yaml:"name" required:"true" doc:"name in mixtures, metrics and tables"`
	Kind     TaskKind `yaml:"kind" required:"true" doc:"what is asked: induct (pairs, then a key: its value), before (the word before a marker), shift (the words before a marker again, fixed length), copy (the same, varying length), add (two-digit sums)"`
	Min      int      `yaml:"min" default:"0" range:"[0,4096]" doc:"smallest length (induct: pairs; others: words); 0 means the kind's default, or max if that is smaller"`
	Max      int      `yaml:"max" default:"0" range:"[0,4096]" doc:"largest length; 0 means the kind's default, or min if that is larger"`
	Queries  int      `yaml:"queries" default:"1" range:"[1,64]" doc:"induct: how many keys are asked per document"`
	Alphabet int      `yaml:"alphabet" default:"0" range:"[0,1e6]" doc:"words are drawn among this many most frequent tokens; 0 draws from all that occur, by frequency"`
}

// Phase is a stretch of training with one mixture.
type Phase struct {
	Until   float64            `yaml:"until" required:"true" range:"(0,1]" doc:"ends at this share of the budget; the last phase says 100%"`
	Weights map[string]float64 `yaml:"weights" required:"true" doc:"share of tokens by source or task name; need not add up to 1"`
}
