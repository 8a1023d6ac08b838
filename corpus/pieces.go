package corpus

import (
	"unicode"
	"unicode/utf8"
)

// class is what the pre-tokeniser tells apart.
type class uint8

const (
	other class = iota
	letter
	number
	space
)

// classAt returns the class and the width in bytes of the character at text[0].
// A byte that is not valid UTF-8 is one character of class other.
func classAt(text []byte) (class, int) {
	c := text[0]
	if c < utf8.RuneSelf {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			return letter, 1
		case c == ' ', '\t' <= c && c <= '\r':
			return space, 1
		case '0' <= c && c <= '9':
			return number, 1
		}
		return other, 1
	}
	r, size := utf8.DecodeRune(text)
	switch {
	case r == utf8.RuneError && size == 1:
		return other, 1
	case unicode.IsLetter(r):
		return letter, size
	case unicode.IsNumber(r):
		return number, size
	case unicode.IsSpace(r):
		return space, size
	}
	return other, size
}

// nextPiece returns the length in bytes of the pre-token that text (not empty)
// begins with. It is GPT-2's pattern
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// scanned by hand, because Go's regexp has no lookahead.
func nextPiece(text []byte) int {
	if n := contraction(text); n > 0 {
		return n
	}
	kind, size := classAt(text)
	if kind == space {
		if text[0] != ' ' || len(text) == 1 {
			return spaces(text)
		}
		next, width := classAt(text[1:])
		if next == space {
			return spaces(text)
		}
		kind, size = next, 1+width
	}
	for size < len(text) {
		next, width := classAt(text[size:])
		if next != kind {
			break
		}
		size += width
	}
	return size
}

// contraction returns the length of the English contraction ending that text
// begins with, or 0.
func contraction(text []byte) int {
	if text[0] != '\'' || len(text) < 2 {
		return 0
	}
	switch text[1] {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(text) > 2 {
		switch string(text[1:3]) {
		case "re", "ve", "ll":
			return 3
		}
	}
	return 0
}

// spaces returns the length of the run of white space that text begins with,
// less its last character if something else follows and the run is longer than
// that: the last space belongs to the word after it.
func spaces(text []byte) int {
	end, last := 0, 0
	for end < len(text) {
		kind, width := classAt(text[end:])
		if kind != space {
			if last > 0 {
				return last
			}
			return end
		}
		last = end
		end += width
	}
	return end
}
