package experiments

import (
	"fmt"
	"slices"
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

// publishedTotals are those of a released model (paper, section 2).
type publishedTotals struct {
	active, stored int
	assumed        string // what our reading of the shape takes for granted
}

// published finds the released model that has the spec's shape.
func published(c nn.Config) (p publishedTotals, ok bool) {
	if c.DModel != 256 || len(c.Layers) != 6 || c.Heads != 2 || c.HeadWidth != 32 || c.StateWidth != 32 || c.DFF != 640 {
		return p, false
	}
	x := c.MoE
	switch isMixture := slices.Equal(x.Layers, []int{0, 3, 5}) && x.TopK == 4 && x.DFF == 160; {
	case len(x.Layers) == 0:
		return publishedTotals{3_315_552, 7_492_448, ""}, true
	case isMixture && x.Experts == 256 && x.SharedWidth() == 160:
		return publishedTotals{3_316_320, 100_956_515, unpublished(513)}, true
	case isMixture && x.Experts == 64 && x.SharedWidth() == 160:
		return publishedTotals{3_315_744, 30_029_420, unpublished(260)}, true
	}
	return p, false
}

// unpublished is what the released mixtures are read to hold.
func unpublished(left int) string {
	return fmt.Sprintf("assumed: one expert's size a layer that is always on and that \"active\" leaves out; of the %d more parameters a layer that the published total has, our first-block vector may be 256, the rest is unexplained", left)
}

// accountRows spells out the parameter accounting, and compares it with the
// published totals where the shape is a released one.
func accountRows(a nn.Account, s *Spec) [][]string {
	count := func(n int) string { return humanize.Comma(int64(n)) }
	scored := func(rows int) string {
		return fmt.Sprintf("%s rows of %d", count(rows), a.EmbeddingRow)
	}
	training := scored(a.RowsTraining) + ": the whole vocabulary"
	if s.Train.Loss.Kind == nn.SampledSoftmax {
		training = "at most " + scored(a.RowsTraining) + ": the step's negatives; its targets come on top"
	}
	rows := [][]string{{"body", count(a.Body), "mixers, MLPs and norms that every token passes through"}}
	if x := s.Model.MoE; a.ExpertsStored > 0 {
		if a.Shared > 0 {
			rows = append(rows, []string{"shared experts", count(a.Shared), "every token passes through them too"})
		}
		rows = append(rows,
			[]string{"router", count(a.Router), fmt.Sprintf("with the first-block vectors; acts once per block of %d tokens", a.RouteBlock)},
			[]string{"experts active", count(a.ExpertsActive), fmt.Sprintf("%d experts of %s, in each of %d layers", x.TopK, humanize.Comma(int64(x.TopK)*int64(a.ExpertsStored)/int64(a.ExpertsActive)), len(x.Layers))},
			[]string{"experts stored", count(a.ExpertsStored), "all routed experts"})
	} else {
		rows = append(rows,
			[]string{"router", "0", "none: the model is dense"},
			[]string{"experts active", "0", "none: the model is dense"})
	}
	rows = append(rows,
		[]string{"scored in training", count(a.RowsTraining * a.EmbeddingRow), training},
		[]string{"scored in generation", count(a.RowsGeneration * a.EmbeddingRow), scored(a.RowsGeneration) + ": every row, for every token"},
		[]string{"stored", count(a.Stored), storedMeaning(a)})
	p, ok := published(s.Model)
	if !ok || s.Model.MoE.Experts*a.ExpertsActive != s.Model.MoE.TopK*a.ExpertsStored { // another shape, or grown out of it
		return rows
	}
	active, how := a.Body+a.ExpertsActive+publishedReadoutRows*a.EmbeddingRow, "body"
	if a.ExpertsStored > 0 { // router rows alone: E*D weights in a block of 256
		per := len(s.Model.MoE.Layers) * s.Model.MoE.Experts * s.Model.DModel / a.RouteBlock
		active, how = active+per, fmt.Sprintf("body + active experts + %d router weights (a router's over a block)", per)
	}
	stored := fmt.Sprintf("ours %s (difference %s): %s", count(a.Stored), count(a.Stored-p.stored), vocabularyNote(a, p.stored))
	if p.assumed != "" {
		stored += "; " + p.assumed
	}
	return append(rows,
		[]string{"published active", count(p.active), fmt.Sprintf("ours %s = %s + %d readout rows (difference %d): the published count scores %d rows, a generated token scores %s",
			count(active), how, publishedReadoutRows, active-p.active, publishedReadoutRows, count(a.RowsGeneration))},
		[]string{"published stored", count(p.stored), stored})
}

func storedMeaning(a nn.Account) string {
	if a.ExpertsStored > 0 {
		return "body, shared experts, router, experts stored, and the embedding, which is also the readout"
	}
	return "body and embedding, which is also the readout"
}

// vocabularyNote explains a difference in stored parameters.
func vocabularyNote(a nn.Account, published int) string {
	switch {
	case a.Stored == published:
		return "the same"
	case a.RowsGeneration == 16_384:
		return "of the same vocabulary"
	}
	return fmt.Sprintf("a vocabulary of %s instead of 16,384", humanize.Comma(int64(a.RowsGeneration)))
}

// modelLine is a model's shape in a line.
func modelLine(c nn.Config) string {
	var mixers []string
	for _, l := range c.Layers {
		mixers = append(mixers, string(l))
	}
	line := fmt.Sprintf("d_model %d, %s, d_ff %d %s, window %d", c.DModel, strings.Join(mixers, " "), c.DFF, c.Activation, c.Window)
	if x := c.MoE; len(x.Layers) > 0 {
		line += fmt.Sprintf("; mixtures in layers %s: %d experts of %d, top %d, %s of %d tokens",
			strings.Trim(fmt.Sprint(x.Layers), "[]"), x.Experts, x.DFF, x.TopK, x.Statistic, x.RouteBlock)
		if x.Shared > 0 {
			line += fmt.Sprintf(", %d shared (%d wide together)", x.Shared, x.SharedWidth())
		}
	}
	return line
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
