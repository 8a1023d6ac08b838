package experiments

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"gopkg.in/yaml.v3"
)

// Problem is one thing wrong with a spec, in one line.
type Problem struct {
	File     string
	Line     int    // 1-based; 0 where the file as a whole is meant
	Override string // the override at fault instead of a line
	Text     string
}

func (p Problem) String() string {
	switch {
	case p.Override != "":
		return fmt.Sprintf("override %q: %s", p.Override, p.Text)
	case p.Line == 0:
		return fmt.Sprintf("%s: %s", p.File, p.Text)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// Problems is everything wrong with a spec, in the order of its lines, overrides last.
type Problems []Problem

// Error gives one line per problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sort puts problems in the order of their lines, overrides last.
func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if (a.Override != "") != (b.Override != "") {
			return strings.Compare(a.Override, b.Override)
		}
		if a.Override != "" {
			return 0 // as they were found
		}
		return cmp.Compare(a.Line, b.Line)
	})
}

// maxText is the longest message in bytes; maxGuess the longest key or value that
// others are compared with; maxProblems how many problems are told apart before the
// rest is counted: a large file of another kind has one in every line.
const (
	maxText     = 1000
	maxGuess    = 64
	maxProblems = 200
)

// problem reports what is wrong at n, which decides the key path.
func (d *decoder) problem(n *yaml.Node, path, format string, args ...any) {
	if d.full() {
		d.unsaid++
		return
	}
	d.bad[path] = true
	// A key is whatever a file holds: one problem stays one line of readable length.
	text := strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(fmt.Sprintf(format, args...))
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	if override, ok := d.origin[n]; ok {
		d.problems = append(d.problems, Problem{File: d.file, Override: override, Text: text})
		return
	}
	d.problems = append(d.problems, Problem{File: d.file, Line: n.Line, Text: text})
}

// full reports whether more problems would only be counted.
func (d *decoder) full() bool { return len(d.problems) >= maxProblems }

// unknownKey reports a key that the mapping at path, of struct type t, does not have.
func (d *decoder) unknownKey(n *yaml.Node, key string, t reflect.Type, path string) {
	where := "in " + path
	if path == "" {
		where = "at the top level"
	}
	fields := fieldsOf(t)
	if d.full() {
		d.unsaid++ // looking for the nearest key takes longest of all
		return
	}
	hint := ""
	if best, ok := nearestField(key, fields); ok {
		hint = fmt.Sprintf("; did you mean %q?", best)
	} else if places := placesOf(key, reflect.TypeFor[Spec](), ""); len(places) > 0 {
		hint = fmt.Sprintf("; it belongs in %s;", strings.Join(places, " or "))
	} else {
		hint = ";"
	}
	d.problem(n, join(path, key), "unknown key %q %s%s valid keys: %s", key, where, hint, strings.Join(names(fields), ", "))
}

// nearestField is the key that a misspelt one most likely means: by its own spelling,
// or by words of its description ("learning_rate" is the lr).
func nearestField(key string, fields []field) (string, bool) {
	words := strings.FieldsFunc(strings.ToLower(key), isSeparator)
	best, least := "", len(key)+1
	consider := func(name, spelling string) {
		if distance, near := near(strings.Join(words, "_"), spelling); near && distance < least {
			best, least = name, distance
		}
	}
	for _, f := range fields {
		consider(f.name, f.name)
	}
	for _, f := range fields {
		said := strings.FieldsFunc(strings.ToLower(f.doc), isSeparator)
		// One word alone says too little: "tokens" is in half of all descriptions.
		for i := 0; len(words) > 1 && i+len(words) <= len(said); i++ {
			consider(f.name, strings.Join(said[i:i+len(words)], "_"))
		}
	}
	return best, best != ""
}

func isSeparator(r rune) bool { return strings.ContainsRune("_- ,.;:()", r) }

// near reports whether got may be a slip of the fingers for want, and how far off it is.
func near(got, want string) (distance int, ok bool) {
	if len(got) > maxGuess || len(want) > maxGuess {
		return 0, false
	}
	distance = levenshtein.ComputeDistance(got, want)
	if distance <= (max(len(got), len(want))+2)/3 && distance < len(want) {
		return distance, true
	}
	// The beginning of a word is as good as one slip.
	return 1, len(got) >= 3 && strings.HasPrefix(want, got)
}

// didYouMean is "; did you mean ...?" for the nearest of values, or nothing.
func didYouMean(got string, values []string) string {
	best, least := "", len(got)+1
	for _, v := range values {
		if distance, ok := near(strings.ToLower(got), strings.ToLower(v)); ok && distance < least {
			best, least = v, distance
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// placesOf lists the mappings under t that do have a key.
func placesOf(key string, t reflect.Type, path string) []string {
	var places []string
	for _, f := range fieldsOf(t) {
		at := join(path, f.name)
		if f.name == key && path != "" {
			places = append(places, path)
		}
		if f.name == key && path == "" {
			places = append(places, "the top level")
		}
		switch {
		case isMapping(f.typ):
			places = append(places, placesOf(key, f.typ, at)...)
		case f.typ.Kind() == reflect.Slice && isMapping(f.typ.Elem()):
			places = append(places, placesOf(key, f.typ.Elem(), at+"[]")...)
		}
	}
	return places
}
