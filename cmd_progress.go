package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/rivo/uniseg"

	"harness/experiments"
)

// How often progress is shown: a line on a terminal is redrawn, elsewhere lines add up.
const (
	redrawEvery = 200 * time.Millisecond
	linesEvery  = 10 * time.Second
	linesShare  = 0.05
	linesApart  = time.Second // at least, however short the run is
)

// Widths of the bar in columns, its ends included: with fewer than eight cells it
// says less than the percentage before it.
const (
	narrowBar = 10
	widestBar = 40
)

// clearLine goes back to the beginning of the terminal's line and empties it.
const clearLine = "\r\x1b[K"

// progress shows how a run gets on. On a terminal it is one line, redrawn in place
// and as wide as the terminal now is; elsewhere it is a line every few seconds. It
// draws by itself because a bar's library treats what we say beside the bar as one
// text: here figures give way one by one as the terminal gets narrower.
type progress struct {
	mu      sync.Mutex // notes come from the recorder's goroutine too
	out     io.Writer
	columns func() int // width of the terminal, 0 if out is none
	now     func() time.Time

	gone  bool   // out could not be written: nobody reads it any more
	line  string // on the terminal now, "" if there is none
	stage string
	shown time.Time
	share float64 // at that time
	since mean
}

// mean collects what was not shown, so that what is shown next stands for all of it.
type mean struct {
	updates int
	loss    float64 // sum over updates
	tokens  float64 // trained on
	seconds float64 // that these took
	last    int64   // tokens at the last update
}

func (m *mean) add(u experiments.Update) {
	m.updates++
	m.loss += u.Loss
	if passed := float64(u.Tokens - m.last); passed > 0 && u.TokensPerSecond > 0 {
		m.tokens += passed
		m.seconds += passed / u.TokensPerSecond
	}
	m.last = u.Tokens
}

// take puts the means into u and starts anew.
func (m *mean) take(u experiments.Update) experiments.Update {
	u.Loss = m.loss / float64(m.updates)
	if m.seconds > 0 {
		u.TokensPerSecond = m.tokens / m.seconds
	}
	*m = mean{last: m.last}
	return u
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, columns: func() int { return columns(out) }, now: time.Now}
}

// observe shows a moment of a run, or lets it pass if the last one was just now.
func (p *progress) observe(u experiments.Update) {
	if u.Note != "" {
		p.note(u.Note)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	width := p.columns()
	if u.Stage == experiments.StageTrain {
		p.since.add(u)
	}
	if !p.due(u, width > 0) {
		return
	}
	if u.Stage == experiments.StageTrain {
		u = p.since.take(u)
	}
	p.stage, p.shown, p.share = u.Stage, p.now(), share(u)
	if width == 0 {
		p.write(plainLine(u) + "\n")
		return
	}
	p.line = barLine(u, width-1) // a full line would make some terminals wrap
	p.write(clearLine + p.line)
}

// write falls silent after it has failed once.
func (p *progress) write(text string) {
	if p.gone {
		return
	}
	_, err := io.WriteString(p.out, text)
	p.gone = err != nil
}

func (p *progress) due(u experiments.Update, terminal bool) bool {
	since := p.now().Sub(p.shown)
	switch {
	case u.Stage != p.stage:
		return true
	case terminal:
		return since >= redrawEvery || u.Done == u.Total
	}
	return since >= linesEvery || since >= linesApart && share(u)-p.share >= linesShare
}

// note prints a line above the bar, or a few on a narrow terminal.
func (p *progress) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text = visible(text)
	if width := p.columns(); width > 0 {
		text = paragraph(text, width)
	}
	if p.line == "" {
		p.write(text + "\n")
		return
	}
	p.write(clearLine + text + "\n" + p.line)
}

// close leaves the last line standing.
func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line != "" {
		p.write("\n")
		p.line = ""
	}
}

// share of the stage that is done, 0 where its total is not known.
func share(u experiments.Update) float64 {
	if u.Total <= 0 {
		return 0
	}
	return min(1, float64(u.Done)/float64(u.Total))
}

// plainLine is a moment for a log file.
func plainLine(u experiments.Update) string {
	if u.Stage != experiments.StageTrain {
		return strings.TrimSpace(u.Stage + "  " + stageCount(u))
	}
	return strings.Join(append([]string{fmt.Sprintf("train %3.0f%%", 100*share(u))}, figures(u, true)...), "  ")
}

// barLine is a moment in at most width columns.
func barLine(u experiments.Update, width int) string {
	if u.Stage != experiments.StageTrain {
		tail := stageCount(u)
		if u.Total <= 0 {
			return shorten(strings.TrimSpace(visible(u.Stage)+"  "+tail), width)
		}
		return fit(fmt.Sprintf("%s %3.0f%% ", visible(u.Stage), 100*share(u)), share(u), []string{tail}, width)
	}
	percent := fmt.Sprintf("%3.0f%% ", 100*share(u))
	long := figures(u, true)
	if uniseg.StringWidth(percent+strings.Join(long, "  "))+narrowBar+1 <= width {
		return fit(percent, share(u), long, width)
	}
	return fit(percent, share(u), figures(u, false), width)
}

// fit puts a bar in the room that the figures leave, and leaves out the last
// figures where there is none.
func fit(head string, share float64, figures []string, width int) string {
	for ; len(figures) > 0; figures = figures[:len(figures)-1] {
		tail := strings.Join(figures, "  ")
		room := width - uniseg.StringWidth(head+tail)
		if room >= narrowBar+1 {
			return head + bar(share, min(room-1, widestBar)) + " " + tail
		}
		if room >= 0 {
			return head + tail
		}
	}
	return shorten(head, width)
}

// figures of a moment in training, the most telling first; long where there is
// room. Their widths hardly change as they grow, lest the bar twitch. Where the
// training loss is over tasks too, it says that the validation loss is of text alone.
func figures(u experiments.Update, long bool) []string {
	loss := func(v float64) string {
		if math.IsNaN(v) {
			return "    -"
		}
		return fmt.Sprintf("%.3f", v)
	}
	total := fmt.Sprint(u.Total)
	step := fmt.Sprintf("%*d/%s", len(total), u.Done, total)
	train, validation, phase, tokens := "train ", "val ", "ph ", " tok"
	if long {
		total = count(u.Total)
		step = fmt.Sprintf("step %*s/%s", len(total), count(u.Done), total)
		phase, tokens = "phase ", " tokens"
		if u.Mixed {
			train, validation = "train mix ", "val text "
		}
	}
	shown := []string{step, train + loss(u.Loss), validation + loss(u.Validation), fmt.Sprintf("%5s tok/s", brief(u.TokensPerSecond)),
		fmt.Sprintf("ETA %6s", duration(u.Left))}
	shown = append(shown, fmt.Sprintf("%5s", brief(float64(u.Tokens)))+tokens)
	if u.Phases > 1 {
		shown = append(shown, fmt.Sprintf("%s%d/%d", phase, u.Phase, u.Phases))
	}
	return shown
}

func stageCount(u experiments.Update) string {
	switch {
	case u.Total > 0:
		return brief(float64(u.Done)) + "/" + brief(float64(u.Total))
	case u.Done > 0:
		return brief(float64(u.Done))
	}
	return ""
}

// bar is a bar of width columns, its ends included, drawn in eighths.
func bar(share float64, width int) string {
	cells := width - 2
	eighths := int(share * float64(8*cells))
	b := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		b += string([]rune(" ▏▎▍▌▋▊▉")[rest])
	}
	return "▕" + b + strings.Repeat(" ", cells-uniseg.StringWidth(b)) + "▏"
}
