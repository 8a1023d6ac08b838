package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"harness/runs"
)

// headerFacts are the figures a reader looks for first: how good, how large, how
// long, how fast, and which code.
func headerFacts(r record) []Fact {
	facts := append(lossFacts(r), modelFacts(r)...)
	facts = append(facts, budgetFact(r.run), speedFact(r), trainingTime(r.run), codeFact(r.run.Provenance),
		Fact{"seed", strconv.FormatInt(r.run.Seed, 10), ""},
		Fact{"run", r.run.ID, ""},
	)
	return slices.DeleteFunc(facts, func(f Fact) bool { return f.Value == "" })
}

// lossFacts are the validation loss and the entropy it is to be judged by.
func lossFacts(r record) []Fact {
	var facts []Fact
	loss, hasLoss := finalValidationLoss(r.series)
	if hasLoss {
		fact := Fact{Label: "validation loss", Value: withUnit(number(loss.Value), "nats"), Note: "last, at " + humanize.Comma(loss.Tokens) + " tokens"}
		for _, s := range r.series {
			if s.Name == bitsPerByte && len(s.Points) > 0 {
				fact.Note = number(s.Points[len(s.Points)-1].Value) + " bits per byte; " + fact.Note
			}
		}
		if best, better := BestValidation(r.series); better {
			fact.Note += fmt.Sprintf("; best %s at %s tokens", number(best.Value), tick(round(float64(best.Tokens), 3)))
		}
		facts = append(facts, fact)
	}
	if entropy, ok := unigramEntropy(r); ok {
		fact := Fact{Label: "unigram entropy", Value: withUnit(number(entropy), "nats"),
			Note: "cross-entropy of the same validation text under the training text's unigram frequencies"}
		if below := entropy - loss.Value; hasLoss && finite(below) {
			where := "below"
			if below < 0 {
				where = "above"
			}
			fact.Note = fmt.Sprintf("the loss is %.2f %s; %s", math.Abs(below), where, fact.Note)
		}
		facts = append(facts, fact)
	}
	return facts
}

// modelFacts are the size and the shape of the model, from the newest table of
// parameters or, in runs that lack it, from the provenance.
func modelFacts(r record) []Fact {
	total, body, sparse := r.run.Provenance["parameters"], r.run.Provenance["body_parameters"], false
	active := cmp.Or(r.run.Provenance["active_parameters"], body)
	for _, t := range r.tables {
		if t.Name != "parameters" {
			continue
		}
		for _, row := range t.Rows {
			switch {
			case len(row) < 2:
			case row[0] == "stored":
				total = cmp.Or(row[1], total) // the newest table's: experts may have been added
			case row[0] == "body":
				body = cmp.Or(body, row[1])
			case row[0] == "experts active":
				sparse = row[1] != "0"
			}
		}
	}
	parameters := Fact{Label: "parameters", Value: grouped(total)}
	if body != "" {
		parameters.Note = grouped(body) + " of them body, without the embedding"
		switch {
		case total == "":
			parameters = Fact{Label: "parameters", Value: grouped(body) + " body"}
		case sparse:
			parameters.Note = grouped(active) + " of them act on a token, without the embedding"
		}
	}
	return []Fact{parameters, {Label: "model", Value: r.run.Provenance["model"]}}
}

// grouped prints a plain integer with commas, other text as it is.
func grouped(text string) string {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return text
	}
	return humanize.Comma(n)
}

// budgetFact says how much of its budget the run has trained on.
func budgetFact(run runs.Run) Fact {
	fact := Fact{Label: "trained on", Value: humanize.Comma(run.Tokens) + " tokens", Note: humanize.Comma(run.Step) + " steps"}
	budget, err := strconv.ParseInt(run.Provenance["steps"], 10, 64)
	switch {
	case err != nil || budget <= 0:
	case run.Step == 0:
		fact.Note = fmt.Sprintf("0 of %s steps", humanize.Comma(budget))
	case run.Step >= budget:
		fact.Note += ", the whole budget"
	case run.Step > 0:
		tokens := int64(math.Round(float64(run.Tokens) / float64(run.Step) * float64(budget)))
		fact.Note = fmt.Sprintf("%s of %s steps: %s of a budget of %s tokens", fact.Note[:len(fact.Note)-len(" steps")], humanize.Comma(budget),
			percent(float64(run.Step)/float64(budget)), humanize.Comma(tokens))
	}
	return fact
}

// speedFact is the median training speed, and what it was reached with.
func speedFact(r record) Fact {
	var speeds []float64
	for _, s := range r.series {
		if s.Name == "throughput" {
			for _, p := range s.Points {
				if finite(p.Value) {
					speeds = append(speeds, p.Value)
				}
			}
		}
	}
	if len(speeds) == 0 {
		return Fact{}
	}
	slices.Sort(speeds)
	median := (speeds[(len(speeds)-1)/2] + speeds[len(speeds)/2]) / 2
	notes := []string{"median"}
	p := r.run.Provenance
	if kernels := p["kernels"]; kernels != "" {
		notes = append(notes, kernels+" kernels")
	}
	if cpu := p["cpu"]; cpu != "" {
		core := p["core"]
		if n := len(r.run.Attempts); n > 0 {
			core = cmp.Or(core, strconv.Itoa(r.run.Attempts[n-1].Core))
		}
		if core != "" {
			cpu += " (core " + core + ")"
		}
		notes = append(notes, cpu)
	}
	return Fact{Label: "speed", Value: humanize.Comma(int64(math.Round(median))) + " tokens/s", Note: strings.Join(notes, ", ")}
}

// codeFact is the version of the program, and whether it had been edited since.
func codeFact(provenance map[string]string) Fact {
	version, dirty := provenance["code_version"], provenance["code_dirty"]
	if version == "" {
		return Fact{}
	}
	const hash = 40
	if len(version) == hash {
		version = version[:12]
	}
	fact := Fact{Label: "code", Value: version}
	switch {
	case version == "unknown":
		fact.Note = "the build recorded no version"
	case dirty == "true":
		fact.Value += " dirty"
		fact.Note = "the source had changes that no commit holds"
	case dirty == "false":
		fact.Note = "clean: as committed"
	default:
		fact.Note = "not known whether the source was as committed"
	}
	return fact
}

// trainingTime adds up the attempts. One without an end counts to its last heartbeat.
func trainingTime(run runs.Run) Fact {
	var total time.Duration
	for _, a := range run.Attempts {
		total += attemptTime(a)
	}
	if total == 0 {
		return Fact{}
	}
	fact := Fact{Label: "time", Value: elapsed(total), Note: "from " + minute(run.Created)}
	if n := len(run.Attempts); n > 1 {
		fact.Note = fmt.Sprintf("in %d attempts, %s", n, fact.Note)
	}
	return fact
}

func attemptTime(a runs.Attempt) time.Duration {
	end := a.Ended
	if end.IsZero() {
		end = a.Heartbeat
	}
	if end.Before(a.Started) {
		return 0
	}
	return end.Sub(a.Started)
}

// finalValidationLoss takes the last point of the validation loss.
func finalValidationLoss(series []runs.Series) (runs.Point, bool) {
	points := validationLoss(series)
	if len(points) == 0 {
		return runs.Point{}, false
	}
	return points[len(points)-1], true
}

// BestValidation is the point of the lowest validation loss of a run; ok is false
// where the last is within 0.5% of it, and so as good as noise can tell.
func BestValidation(series []runs.Series) (best runs.Point, ok bool) {
	const margin = 0.005
	points := validationLoss(series)
	best.Value = math.Inf(1)
	for _, p := range points {
		if p.Value < best.Value && finite(p.Value) {
			best = p
		}
	}
	if !finite(best.Value) {
		return runs.Point{}, false
	}
	if last := points[len(points)-1].Value; last <= best.Value*(1+margin) { // false for NaN
		return runs.Point{}, false
	}
	return best, true
}

// validationLoss is the series of the validation loss, nil if there is none; among
// several (one per source) the shortest name is the overall one.
func validationLoss(series []runs.Series) []runs.Point {
	var found *runs.Series
	for i, s := range series {
		if !isValidationLoss(s.Name) || len(s.Points) == 0 {
			continue
		}
		if found == nil || len(s.Name) < len(found.Name) {
			found = &series[i]
		}
	}
	if found == nil {
		return nil
	}
	return found.Points
}

// unigramEntropy looks for it among the metrics, then among the tables, where a
// row labelled so holds it in a later cell.
func unigramEntropy(r record) (float64, bool) {
	for _, s := range r.series {
		if isUnigram(s.Name) && len(s.Points) > 0 {
			return s.Points[len(s.Points)-1].Value, true
		}
	}
	for _, t := range slices.Backward(r.tables) {
		for _, row := range t.Rows {
			if len(row) < 2 || !isUnigram(row[0]) {
				continue
			}
			for _, cell := range row[1:] {
				if v, ok := cellNumber(cell); ok {
					return v, true
				}
			}
		}
	}
	return 0, false
}

// bitsPerByte is the metric of the validation loss per byte of text.
const bitsPerByte = "validation/bits_per_byte"

func isValidationLoss(name string) bool {
	return splitOf(name) == "validation" && slices.Contains(nameWords(name), "loss")
}

func isUnigram(name string) bool { return slices.Contains(nameWords(name), "unigram") }
