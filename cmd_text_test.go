package main

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rivo/uniseg"
)

// hostile is what a model may write to harm the reader's terminal or trust.
const hostile = "ok\x1b]0;title\x07\x1b[2J\x1b[1;1H\r\x00\x08\x7f\u009b31m\u202eevil\u2066\ufeff\u2028line\n\ttab \xff\xfe 你好 e\u0301"

func TestVisible(t *testing.T) {
	got := visible(hostile)
	want := "ok␛]0;title␇␛[2J␛[1;1H␍␀␈␡\ufffd31m\ufffdevil\ufffd\ufffd↵line↵⇥tab \ufffd 你好 e\u0301"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := visible("a\r\nb"); got != "a↵b" {
		t.Errorf("CRLF is %q", got)
	}
	if got := visibleLines("a\n\tb\x1b"); got != "a\n\tb␛" {
		t.Errorf("visibleLines: %q", got)
	}
}

func FuzzVisible(f *testing.F) {
	f.Add(hostile, 10)
	f.Fuzz(func(t *testing.T, s string, width int) {
		v := visible(s)
		if strings.ContainsFunc(v, func(r rune) bool { return unicode.Is(unicode.C, r) && !unicode.Is(unicode.Co, r) }) {
			t.Errorf("%q comes through in %q", s, v)
		}
		width = 2 + width&0xff
		for _, short := range []string{shorten(v, width), shortenLeft(v, width)} {
			if got := uniseg.StringWidth(short); got > width {
				t.Errorf("%q is %d columns wide, want at most %d", short, got, width)
			}
		}
	})
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		text, head, tail string
		width            int
	}{
		{"abc", "abc", "abc", 3},
		{"abcdef", "ab…", "…ef", 3},
		{"你好吗", "你…", "…吗", 4},
		{"e\u0301e\u0301e\u0301", "e\u0301…", "…e\u0301", 2},
	} {
		if got := shorten(c.text, c.width); got != c.head {
			t.Errorf("shorten(%q, %d) = %q, want %q", c.text, c.width, got, c.head)
		}
		if got := shortenLeft(c.text, c.width); got != c.tail {
			t.Errorf("shortenLeft(%q, %d) = %q, want %q", c.text, c.width, got, c.tail)
		}
	}
}

func TestBrief(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 9999: "9999", 9999.6: "10.0k", 12345: "12.3k", 99960: "100k", 999600: "1.00M",
		1234567: "1.23M", 4.91e9: "4.91B"} {
		if got := brief(n); got != want {
			t.Errorf("brief(%g) = %s, want %s", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{-1: "?", 9400 * time.Millisecond: "9.4s", 59 * time.Second: "59s",
		65 * time.Second: "1m05s", 9*time.Hour + 3*time.Minute: "9h03m", 75 * time.Hour: "3d03h"} {
		if got := duration(d); got != want {
			t.Errorf("duration(%v) = %s, want %s", int64(d), got, want)
		}
	}
}
