package main

import (
	"bytes"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rivo/uniseg"

	"harness/experiments"
)

// moments are updates from a first to a very long run's.
func moments() []experiments.Update {
	return []experiments.Update{
		{Stage: experiments.StageTrain, Done: 1, Total: 100, Tokens: 1024, Loss: 8.31, Validation: math.NaN(), TokensPerSecond: 12345, Left: 99 * time.Second},
		{Stage: experiments.StageTrain, Done: 12345, Total: 56789, Phase: 2, Phases: 2, Mixed: true, Tokens: 12641280, Loss: 3.412, Validation: 3.601, TokensPerSecond: 12345, Left: 9 * time.Hour},
		{Stage: experiments.StageTrain, Done: 39063123, Total: 139063123, Tokens: 4_910_000_000, Loss: math.Inf(1), Validation: 12.345, TokensPerSecond: 1e7, Left: 999 * time.Hour},
		{Stage: experiments.StageTrain, Done: 100, Total: 100, Tokens: 1024, Loss: math.NaN(), Validation: math.NaN(), TokensPerSecond: math.NaN(), Left: -1},
		{Stage: "tokenise", Done: 5_000_000, Total: 8_000_000},
		{Stage: "wait for another process that builds this corpus"},
		{Stage: "read\x1b[2J 你好", Done: 9, Total: 3},
	}
}

func TestBarFitsItsWidth(t *testing.T) {
	for _, u := range moments() {
		for width := 10; width <= 250; width++ {
			line := barLine(u, width)
			if got := uniseg.StringWidth(line); got > width || strings.ContainsAny(line, "\n\r\x1b") {
				t.Errorf("%d columns instead of %d: %q", got, width, line)
			}
		}
	}
}

func TestBarAtCommonWidths(t *testing.T) {
	var b strings.Builder
	for _, width := range []int{40, 79, 119} {
		for _, u := range moments() {
			b.WriteString(barLine(u, width) + "\n")
		}
	}
	golden(t, "progress.golden", b.String())
}

func TestNoBarOfFewCells(t *testing.T) {
	for _, u := range moments() {
		for width := 10; width <= 250; width++ {
			_, after, found := strings.Cut(barLine(u, width), "▕")
			if cells := uniseg.StringWidth(after[:max(0, strings.LastIndex(after, "▏"))]); found && cells < 8 {
				t.Errorf("%d columns: a bar of %d cells", width, cells)
			}
		}
	}
}

func TestBarDoesNotTwitch(t *testing.T) {
	u := moments()[1]
	want := -1
	for u.Done = 1; u.Done < u.Total; u.Done += 397 {
		u.Tokens = u.Done * 1024
		u.TokensPerSecond = float64(9000 + u.Done%3000)
		u.Left = time.Duration(u.Total-u.Done) * time.Second / 7
		got := uniseg.StringWidth(barLine(u, 119)[:strings.Index(barLine(u, 119), "step")])
		if want < 0 {
			want = got
		}
		if got != want {
			t.Fatalf("the bar takes %d columns at step %d and %d before", got, u.Done, want)
		}
	}
}

// screen is a progress line with a clock and a terminal of its own.
type screen struct {
	progress
	out   bytes.Buffer
	clock time.Time
}

func newScreen(width int) *screen {
	s := &screen{clock: time.Unix(1e9, 0)}
	s.progress.out = &s.out
	s.progress.columns = func() int { return width }
	s.progress.now = func() time.Time { return s.clock }
	return s
}

// drive sends a minute of training, a step every 100 ms, with a note in its middle.
func (s *screen) drive() {
	const steps = 600
	for i := range int64(steps) {
		s.clock = s.clock.Add(100 * time.Millisecond)
		s.observe(experiments.Update{Stage: experiments.StageTrain, Done: i + 1, Total: steps, Tokens: (i + 1) * 1000, Loss: float64(i % 2), TokensPerSecond: 10000})
		if i == steps/2 {
			s.observe(experiments.Update{Note: "half\x1b[2J"})
		}
	}
	s.close()
}

func TestProgressOnATerminalIsOneLine(t *testing.T) {
	s := newScreen(80)
	s.drive()
	lines := strings.Split(s.out.String(), "\n")
	if len(lines) != 3 || lines[2] != "" {
		t.Fatalf("%d lines: %q", len(lines), s.out.String())
	}
	if !strings.HasSuffix(lines[0], clearLine+"half␛[2J") {
		t.Errorf("the note does not stand on a line of its own: %q", lines[0][max(0, len(lines[0])-60):])
	}
	drawn := strings.Split(lines[1], clearLine)
	if last := drawn[len(drawn)-1]; !strings.HasPrefix(last, "100% ") {
		t.Errorf("the last line is %q", last)
	}
	for _, d := range drawn {
		if uniseg.StringWidth(d) > 79 {
			t.Errorf("%q fills the line or more", d)
		}
	}
	if got := strings.Count(s.out.String(), clearLine); got < 250 || got > 310 {
		t.Errorf("a minute is drawn %d times", got)
	}
	if !strings.Contains(s.out.String(), "train 0.500") {
		t.Error("the loss is not the mean since the line was last drawn")
	}
}

func TestProgressInAFileIsFewLines(t *testing.T) {
	s := newScreen(0)
	s.drive()
	out := s.out.String()
	if strings.ContainsAny(out, "\r\x1b") {
		t.Errorf("controls in a file: %q", out)
	}
	if got := strings.Count(out, "\n"); got < 15 || got > 25 { // a line every 5% of a minute, and a note
		t.Errorf("%d lines: %s", got, out)
	}
	slow := newScreen(0)
	for i := range int64(100) {
		slow.clock = slow.clock.Add(time.Second)
		slow.observe(experiments.Update{Stage: experiments.StageTrain, Done: i, Total: 1e6, TokensPerSecond: 1})
	}
	if got := strings.Count(slow.out.String(), "\n"); got != 10 {
		t.Errorf("100 s of a long run make %d lines, want one every 10 s", got)
	}
}

// leaver reads once and goes away.
type leaver struct{ writes int }

func (w *leaver) Write(p []byte) (int, error) {
	if w.writes++; w.writes > 1 {
		return 0, syscall.EPIPE
	}
	return len(p), nil
}

func TestProgressWithoutAReaderIsSilent(t *testing.T) {
	for _, width := range []int{0, 80} {
		s, reader := newScreen(width), &leaver{}
		s.progress.out = reader
		s.drive()
		if reader.writes != 2 {
			t.Errorf("width %d: written %d times, want none after the first failure", width, reader.writes)
		}
	}
}
