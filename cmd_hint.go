package main

import (
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// commandName is what the user types to call the program at the path executable:
// one that lies in a build directory of Go was started by go run and has no name.
func commandName(executable string) string {
	for _, part := range strings.Split(filepath.ToSlash(filepath.Dir(executable)), "/") {
		digits, is := strings.CutPrefix(part, "go-build")
		if is && strings.Trim(digits, "0123456789") == "" && !strings.HasSuffix(executable, ".test") {
			return "go run ."
		}
	}
	return "harness"
}

// thisCommand is commandName of the running program.
func thisCommand() string {
	executable, err := os.Executable()
	if err != nil {
		return "harness"
	}
	return commandName(executable)
}

// opening is the beginning of a prompt for a command line: at most 40 letters of
// its first line that has any, up to the end of a word, and nothing that needs more
// than quotes in a shell.
func opening(prompt string) string {
	const most = 40
	text := []rune(strings.TrimLeftFunc(strings.TrimPrefix(prompt, "<|bos|>"), unicode.IsSpace))
	for i, r := range text {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar || strings.HasPrefix(string(text[i:]), "<|") {
			text = text[:i]
			break
		}
	}
	if len(text) > most {
		cut := string(text[:most])
		if space := strings.LastIndex(cut, " "); space > 0 && text[most] != ' ' {
			cut = cut[:space]
		}
		text = []rune(cut)
	}
	return strings.TrimRight(string(text), " ")
}

// shellQuote makes one word of s for a POSIX shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// fromHere is path relative to the working directory if it lies in it.
func fromHere(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if relative, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(relative) {
		return relative
	}
	return path
}
