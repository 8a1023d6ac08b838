package reports

import (
	"strings"
	"unicode/utf8"
)

// visible makes text of any origin printable without hiding what it holds:
// invalid UTF-8 becomes U+FFFD and control characters, NUL among them, become
// their pictures (U+2400 and up). Tabs, line feeds and the separators U+2028 and
// U+2029 stay. Escaping for HTML is the template's business, not this function's.
func visible(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	clean := utf8.ValidString(text) && !strings.ContainsFunc(text, isControl)
	if clean {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == 0x7f:
			return '\u2421'
		case isControl(r) && r < 0x20:
			return 0x2400 + r
		case isControl(r):
			return utf8.RuneError
		}
		return r // an invalid byte arrives here as U+FFFD already
	}, text)
}

// isControl holds for the C0 and C1 controls that HTML cannot show; tab and line
// feed lay out text and are kept.
func isControl(r rune) bool {
	return r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0
}
