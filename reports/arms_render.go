package reports

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/google/renameio/v2"
)

var (
	//go:embed templates/arms.html
	armsTemplate string
	//go:embed templates/arms.css
	armsStyle string
)

// Write writes the page to path, atomically.
func (page ArmsPage) Write(path string) error {
	var html bytes.Buffer
	if err := page.Render(&html); err != nil {
		return fmt.Errorf("render the comparison: %w", err)
	}
	if err := renameio.WriteFile(path, html.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the comparison: %w", err)
	}
	return nil
}

// drawnArm is an arm with the pictures of its loss and of its difference.
type drawnArm struct {
	Arm
	LossPicture, DifferencePicture template.HTML
}

// Render writes the page as one HTML document, which holds no script.
func (page ArmsPage) Render(w io.Writer) error {
	view := struct {
		Page   ArmsPage
		Facts  []Fact
		Arms   []drawnArm
		Runs   Table
		Policy string
		Style  template.HTML
	}{Page: page, Facts: page.facts(), Runs: page.runTable(), Policy: contentPolicy(nil), Style: template.HTML("<style>\n" + pageStyle + armsStyle + "</style>")}
	losses, differences := newSpan(), newSpan(0)
	for _, a := range page.Arms {
		losses.include(a.Loss)
		differences.include(a.Difference.Estimate)
	}
	for _, a := range page.Arms {
		drawn := drawnArm{Arm: a, LossPicture: losses.picture(a.Loss, false)}
		if a.Difference.N > 0 {
			drawn.DifferencePicture = differences.picture(a.Difference.Estimate, true)
		}
		view.Arms = append(view.Arms, drawn)
	}
	layout, err := template.New("run").Funcs(pageFuncs()).Funcs(armsFuncs()).Parse(runTemplate)
	if err == nil {
		layout, err = layout.New("arms").Parse(armsTemplate)
	}
	if err != nil {
		return fmt.Errorf("parse the page template: %w", err)
	}
	return fillPage(w, layout, view)
}

func armsFuncs() template.FuncMap {
	return template.FuncMap{
		"nats":       nats,
		"signed":     signed,
		"half":       Estimate.halfText,
		"tokensOf":   func(a Arm) string { return a.each(func(r ArmRun) string { return humanize.Comma(r.Tokens) }) },
		"storedOf":   func(a Arm) string { return a.each(func(r ArmRun) string { return known(r.Stored) }) },
		"activeOf":   func(a Arm) string { return a.each(func(r ArmRun) string { return known(r.Active) }) },
		"speedOf":    Arm.speedText,
		"timeOf":     func(a Arm) string { return elapsed(a.time()) },
		"kernelsOf":  func(a Arm) string { return a.each(ArmRun.Kernels) },
		"scoreOf":    func(a Arm, task int) ScoreRow { return a.Scores[task] },
		"isKnown":    func(r ScoreRow) bool { return !math.IsNaN(r.Value) },
		"verdictKey": verdictClass,
	}
}

// known prints a count, or that it is none.
func known(n int64) string {
	if n == 0 {
		return "unknown"
	}
	return humanize.Comma(n)
}

// verdictClass is the style of a verdict.
func verdictClass(verdict string) string {
	switch verdict {
	case "better":
		return "good"
	case "worse":
		return "bad"
	}
	return "neutral"
}

func (page ArmsPage) facts() []Fact {
	count := 0
	for _, a := range page.Arms {
		count += len(a.Runs)
	}
	facts := []Fact{{Label: "arms", Value: strconv.Itoa(len(page.Arms))}, {Label: "finished runs", Value: strconv.Itoa(count)}}
	if n := len(page.LeftOut); n > 0 {
		facts[1].Note = fmt.Sprintf("%d left out", n)
	}
	if page.Baseline != "" {
		facts = append(facts, Fact{Label: "baseline", Value: visible(page.Baseline)})
	}
	return facts
}

// runTable lists the runs behind every arm.
func (page ArmsPage) runTable() Table {
	t := Table{Title: "Runs", Columns: []string{"arm", "seed", "run", "validation loss", "tokens", "tokens/s", "time", "kernels", "corpus", "host", "core", "code", "ended"},
		Numeric: []bool{false, true, false, true, true, true, true, false, false, false, true, false, false}}
	for _, a := range page.Arms {
		for _, r := range a.Runs {
			speed := ""
			if finite(r.Speed) {
				speed = humanize.Comma(int64(math.Round(r.Speed)))
			}
			if r.Shared {
				speed += "†"
			}
			var host, core, ended string
			if n := len(r.Attempts); n > 0 {
				last := r.Attempts[n-1]
				host, core, ended = last.Host, strconv.Itoa(last.Core), minute(last.Ended)
			}
			t.Rows = append(t.Rows, []string{a.Name, strconv.FormatInt(r.Seed, 10), r.ID, nats(r.Loss.Value), humanize.Comma(r.Tokens), speed, elapsed(r.Time),
				r.Kernels(), short(r.Corpus()), host, core, short(r.Provenance["code_version"]), ended})
		}
	}
	return t
}

// span is the range of values that the pictures of one column share.
type span struct{ from, to float64 }

func newSpan(values ...float64) *span {
	s := &span{math.Inf(1), math.Inf(-1)}
	for _, v := range values {
		s.from, s.to = min(s.from, v), max(s.to, v)
	}
	return s
}

// include widens the range by an estimate and its interval.
func (s *span) include(e Estimate) {
	for _, v := range []float64{e.Mean, e.Low(), e.High()} {
		if finite(v) {
			s.from, s.to = min(s.from, v), max(s.to, v)
		}
	}
}

// picture draws an estimate with its interval on the range, and where 0 is if it matters.
func (s *span) picture(e Estimate, zero bool) template.HTML {
	const width = 160.0
	at := func(v float64) float64 {
		if s.to <= s.from {
			return width / 2
		}
		return width * (v - s.from) / (s.to - s.from)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="bar" viewBox="-4 0 %g 14" aria-hidden="true"><line class="track" x1="0" y1="7" x2="%g" y2="7"/>`, width+8, width)
	if zero {
		fmt.Fprintf(&b, `<line class="chance" x1="%.1f" y1="1" x2="%.1f" y2="13"/>`, at(0), at(0))
	}
	if finite(e.Half) {
		low, high := at(e.Low()), at(e.High())
		fmt.Fprintf(&b, `<path class="interval" d="M%.1f 2V12M%.1f 7H%.1fM%.1f 2V12"/>`, low, low, high, high)
	}
	fmt.Fprintf(&b, `<circle class="value" cx="%.1f" cy="7" r="2.2"/></svg>`, at(e.Mean))
	return template.HTML(b.String())
}
