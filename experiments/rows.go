package experiments

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"harness/corpus"
	"harness/diagnostics"
	"harness/nn"
	"harness/probes"
	"harness/runs"
)

// publishedReadoutRows is how many embedding rows the paper's "active" count
// adds to the body (derived from its two published totals).
const publishedReadoutRows = 68

// Published totals of the released dense model (paper, section 2).
const (
	publishedActive = 3_315_552
	publishedStored = 7_492_448
)

// accountRows spells out the parameter accounting, and compares it with the
// published totals where the shape is the released one.
func accountRows(a nn.Account, s *Spec) [][]string {
	count := func(n int) string { return humanize.Comma(int64(n)) }
	scored := func(rows int) string {
		return fmt.Sprintf("%s rows of %d", count(rows), a.EmbeddingRow)
	}
	training := scored(a.RowsTraining) + ": the whole vocabulary"
	if s.Train.Loss.Kind == nn.SampledSoftmax {
		training = "at most " + scored(a.RowsTraining) + ": the step's negatives; its targets come on top"
	}
	rows := [][]string{
		{"body", count(a.Body), "mixers, MLPs and norms that every token passes through"},
		{"router", count(a.Router), "none: the model is dense"},
		{"experts active", count(a.ExpertsActive), "none: the model is dense"},
		{"scored in training", count(a.RowsTraining * a.EmbeddingRow), training},
		{"scored in generation", count(a.RowsGeneration * a.EmbeddingRow), scored(a.RowsGeneration) + ": every row, for every token"},
		{"stored", count(a.Stored), "body and embedding, which is also the readout"},
	}
	if !releasedDense(a, s.Model) {
		return rows
	}
	active := a.Body + publishedReadoutRows*a.EmbeddingRow
	return append(rows,
		[]string{"published active", count(publishedActive), fmt.Sprintf("ours %s = body + %d readout rows (difference %d): the published count scores %d rows, a generated token scores %s",
			count(active), publishedReadoutRows, active-publishedActive, publishedReadoutRows, count(a.RowsGeneration))},
		[]string{"published stored", count(publishedStored), fmt.Sprintf("ours %s (difference %s): %s", count(a.Stored), count(a.Stored-publishedStored), vocabularyNote(a))})
}

// vocabularyNote explains a difference in stored parameters.
func vocabularyNote(a nn.Account) string {
	if a.Stored == publishedStored {
		return "the same"
	}
	return fmt.Sprintf("a vocabulary of %s instead of 16,384", humanize.Comma(int64(a.RowsGeneration)))
}

// releasedDense reports whether the body is the released dense shape.
func releasedDense(a nn.Account, c nn.Config) bool {
	return c.DModel == 256 && a.Body == publishedActive-publishedReadoutRows*256
}

// modelLine is a model's shape in a line.
func modelLine(c nn.Config) string {
	var mixers []string
	for _, l := range c.Layers {
		mixers = append(mixers, string(l))
	}
	return fmt.Sprintf("d_model %d, %s, d_ff %d %s, window %d", c.DModel, strings.Join(mixers, " "), c.DFF, c.Activation, c.Window)
}

// fewDocuments is how many held-out documents a source should have before its
// validation loss says much about the source.
const fewDocuments = 20

// corpusLine says how much there is to train and to validate on.
func corpusLine(c *corpus.Corpus) string {
	var sources []string
	for _, s := range c.Manifest.Sources {
		line := fmt.Sprintf("%s: %s training documents (%s tokens), %s for validation (%s)", s.Name,
			humanize.Comma(s.Train.Documents), humanize.Comma(s.Train.Tokens), humanize.Comma(s.Validation.Documents), humanize.Comma(s.Validation.Tokens))
		switch {
		case s.Validation.Documents == 0:
			line += ": nothing held out, so no validation loss speaks of it; add documents or set separator"
		case s.Validation.Documents < fewDocuments:
			line += ": few, mind the noise"
		}
		sources = append(sources, line)
	}
	return "corpus " + strings.Join(sources, "; ")
}

func corpusRows(m corpus.Manifest) [][]string {
	var rows [][]string
	for _, s := range m.Sources {
		rows = append(rows, []string{s.Name,
			humanize.Comma(s.Train.Documents + s.Validation.Documents), humanize.Comma(s.Train.Bytes + s.Validation.Bytes),
			humanize.Comma(s.Train.Tokens), humanize.Comma(s.Validation.Tokens)})
	}
	return rows
}

func participationRows(gains []diagnostics.Participation) [][]string {
	var rows [][]string
	for _, g := range gains {
		rows = append(rows, []string{g.Name, fmt.Sprintf("%.1f", g.Ratio), fmt.Sprint(g.Of), fmt.Sprintf("%.3f", g.RMS)})
	}
	return rows
}

func branchRows(branches []diagnostics.Branch) [][]string {
	var rows [][]string
	for _, b := range branches {
		rows = append(rows, []string{b.Name, fmt.Sprintf("%.4f", b.Share)})
	}
	return rows
}

// Sample is one prompt of a probe as the model answered it, teacher forced.
// Tokens of the prompt are parted by │.
type Sample struct {
	Task, Prompt, Answer, Expected string
	Right                          bool
}

func (a *attempt) sampleText(results []probes.Result) []Sample {
	var out []Sample
	for _, r := range results {
		for _, s := range r.Samples {
			var tokens []string
			for _, id := range s.Prompt {
				tokens = append(tokens, a.text([]int32{id}))
			}
			out = append(out, Sample{Task: r.Task, Prompt: strings.Join(tokens, "│"), Answer: a.text(s.Answer), Expected: a.text(s.Expected), Right: s.Correct})
		}
	}
	return out
}

func sampleRows(samples []Sample) [][]string {
	var rows [][]string
	for _, s := range samples {
		right := "✗"
		if s.Right {
			right = "✓"
		}
		rows = append(rows, []string{s.Task, s.Prompt, s.Answer, s.Expected, right})
	}
	return rows
}

func (a *attempt) generationText(generations []probes.Generation) []runs.Generation {
	var out []runs.Generation
	for _, g := range generations {
		out = append(out, runs.Generation{Prompt: a.text(g.Prompt), Text: a.text(g.Tokens), Reference: a.text(g.Reference),
			Scores: map[string]float64{"reference nats/token": g.ReferenceNats, "reference top-1": g.ReferenceTop1, "distinct": g.Distinct}})
	}
	return out
}

// text decodes ids. Special tokens show by name, since they decode to nothing.
func (a *attempt) text(ids []int32) string { return readable(a.corpus.Tokenizer, ids) }

func readable(t *corpus.Tokenizer, ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		if t.IsSpecial(id) {
			b.WriteString(t.Token(id))
			continue
		}
		b.Write(t.Decode([]int32{id}))
	}
	return b.String()
}

func joinCommand(args []string) string { return strings.Join(args, " ") }
