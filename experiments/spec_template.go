package experiments

import (
	"fmt"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

// templateHead stands above what the tags say.
const templateHead = `# An experiment of harness. Run it:  harness run FILE.yaml
# Keys after a # have the value shown. Counts may be written 16k, 259M or 4.91B,
# sizes 8MB or 100MiB, shares 0.05 or 5%. A misspelt key is an error, never ignored.

`

// templateExample is what the template fills in: a model that learns to copy within
// a minute or two, from text that every machine with Go has.
const templateExample = `
name: first-run
budget: 1M
corpus:
  tokenizer: {vocab: 4096, train_bytes: 8MB}
  sources:
    - {name: go, kind: gotree, max_bytes: 8MB}
  tasks:
    - {name: shift, kind: shift}
    - {name: copy, kind: copy}
  phases:
    - until: 100%
      weights: {go: 60%, shift: 20%, copy: 20%}
model:
  d_model: 128
  layers: [lin, swa, swa, lin]
  d_ff: 320
  window: 128
  rope_base: 100
  ov_tie: 2
train:
  sequence: 256
  step_tokens: 1024
  optimizer: {lr: 3e-3, warmup_steps: 50}
`

// Template is a commented spec to start from: a small working experiment, and every
// other key with its default and meaning as a comment.
func Template() []byte {
	var example yaml.Node
	if err := yaml.Unmarshal([]byte(templateExample), &example); err != nil {
		panic(fmt.Sprintf("experiments: template: %v", err))
	}
	w := templateWriter{}
	w.text.WriteString(templateHead)
	w.keys(reflect.TypeFor[Spec](), content(&example), "", "")
	return []byte(w.text.String())
}

// baseKey is the key of Spec.Base.
const baseKey = "base"

type templateWriter struct{ text strings.Builder }

// line writes a line and its comment, comments below each other.
func (w *templateWriter) line(code, doc string) {
	if doc != "" {
		code = fmt.Sprintf("%-46s # %s", code, doc)
	}
	w.text.WriteString(code + "\n")
}

// keys writes every key of a struct type, its value from example or as a comment.
// The first line is indented by first (which may hold a list's dash), others by rest.
func (w *templateWriter) keys(t reflect.Type, example *yaml.Node, first, rest string) {
	indent := first
	for _, f := range fieldsOf(t) {
		if f.name == baseKey {
			continue // for resolved specs alone
		}
		given := valueOf(example, f.name)
		doc := f.doc
		if enum, ok := reflect.Zero(f.typ).Interface().(enumeration); ok && !strings.Contains(doc, enum.Values()[0]) {
			doc += ": " + strings.Join(enum.Values(), ", ")
		}
		switch {
		case isMapping(f.typ):
			if rest == "" {
				w.text.WriteString("\n")
			}
			w.line(indent+f.name+":", doc)
			w.keys(f.typ, given, rest+"  ", rest+"  ")
		case given == nil:
			w.line(rest+"# "+f.name+": "+absentValue(f), doc)
			continue // the dash of a list waits for a key
		case f.typ.Kind() == reflect.Slice && isMapping(f.typ.Elem()):
			w.line(indent+f.name+":", doc)
			w.entries(f.typ.Elem(), given, rest+"  ")
		default:
			if f.hasDef && flow(given) != f.def {
				doc += " (default " + f.def + ")"
			}
			w.line(indent+f.name+": "+flow(given), doc)
		}
		indent = rest
	}
}

// entries writes a list: the first entry with all its keys, the others in one line.
func (w *templateWriter) entries(t reflect.Type, list *yaml.Node, indent string) {
	for i, entry := range list.Content {
		if i == 0 {
			w.keys(t, entry, indent+"- ", indent+"  ")
			continue
		}
		w.line(indent+"- "+flow(entry), "")
	}
}

// valueOf is the value under key, nil if the mapping lacks it.
func valueOf(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// absentValue is what a key that is left out amounts to.
func absentValue(f field) string {
	switch {
	case f.hasDef:
		return f.def
	case f.typ.Kind() == reflect.Slice:
		return "[]"
	}
	return `""`
}

// flow writes a node in one line, scalars as they were written.
func flow(n *yaml.Node) string {
	var parts []string
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			parts = append(parts, n.Content[i].Value+": "+flow(n.Content[i+1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.SequenceNode:
		for _, item := range n.Content {
			parts = append(parts, flow(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return n.Value
}
