package experiments

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// override edits the tree as if the file had said "path=value". The value is YAML: a
// scalar, a [list] or {keys: values}, which replaces what was there.
func (d *decoder) override(root *yaml.Node, text string) {
	at := &yaml.Node{}
	d.origin[at] = text
	path, valueText, found := strings.Cut(text, "=")
	if !found {
		d.problem(at, "", "want key.path=value")
		return
	}
	steps, err := splitPath(path)
	if err != nil {
		d.problem(at, "", "%v", err)
		return
	}
	value, err := d.overrideValue(valueText, text)
	if err != nil {
		d.problem(at, "", "the value is not YAML: %v", err)
		return
	}
	if value == nil || root.Kind != yaml.MappingNode {
		return // reported already, or by decode
	}
	o := override{decoder: d, label: text, at: at, value: value}
	o.set(root, field{typ: reflect.TypeFor[Spec]()}, "", steps)
}

// overrideValue parses the right-hand side; nothing at all is the empty string. The
// value is nil if it was refused.
func (d *decoder) overrideValue(text, origin string) (*yaml.Node, error) {
	if strings.TrimSpace(text) == "" {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}, nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		_, message := syntaxError(err)
		return nil, errors.New(message)
	}
	value := content(&doc)
	var mark func(n *yaml.Node)
	mark = func(n *yaml.Node) {
		d.origin[n] = origin
		for _, child := range n.Content {
			mark(child)
		}
	}
	mark(value)
	if !d.plain(value) {
		return nil, nil
	}
	return value, nil
}

// splitPath cuts "a.b[0].c" into a, b, [0], c.
func splitPath(path string) ([]string, error) {
	var steps []string
	for part := range strings.SplitSeq(path, ".") {
		name, rest, _ := strings.Cut(part, "[")
		if name == "" {
			return nil, fmt.Errorf("%q is not a key path such as train.optimizer.lr or corpus.sources[0].path", path)
		}
		steps = append(steps, name)
		if rest == "" && !strings.HasSuffix(part, "[") {
			continue
		}
		for index := range strings.SplitSeq(rest, "[") {
			digits, closed := strings.CutSuffix(index, "]")
			if _, err := strconv.ParseUint(digits, 10, 31); err != nil || !closed {
				return nil, fmt.Errorf("%q is not a key path: [%s is no index", path, index)
			}
			steps = append(steps, "["+index)
		}
	}
	return steps, nil
}

// override is one override on its way down the tree.
type override struct {
	*decoder
	label string
	at    *yaml.Node // where its problems are reported
	value *yaml.Node
}

// set follows steps from n, whose type is f's, and puts the value there.
func (o *override) set(n *yaml.Node, f field, path string, steps []string) {
	if len(steps) == 0 {
		*n = *o.value
		o.origin[n] = o.label
		return
	}
	step, rest := steps[0], steps[1:]
	_, isIndex := indexOf(step)
	switch {
	case f.typ.Kind() == reflect.Slice:
		if o.shape(n, yaml.SequenceNode, path) {
			o.setEntry(n, f, path, steps)
		}
	case isIndex:
		o.problem(o.at, path, "%s is not a list", path)
	case isMapping(f.typ):
		next, ok := findField(fieldsOf(f.typ), step)
		if !ok {
			o.unknownKey(o.at, step, f.typ, path)
		} else if o.shape(n, yaml.MappingNode, path) {
			o.set(o.child(n, step, next), next, join(path, step), rest)
		}
	case f.typ.Kind() == reflect.Map:
		if o.shape(n, yaml.MappingNode, path) {
			o.set(o.child(n, step, field{}), field{typ: f.typ.Elem()}, join(path, step), rest)
		}
	default:
		o.problem(o.at, path, "%s is a single value, it has no %q", path, step)
	}
}

func indexOf(step string) (int, bool) {
	if !strings.HasPrefix(step, "[") {
		return 0, false
	}
	i, err := strconv.Atoi(step[1 : len(step)-1])
	return i, err == nil
}

// shape makes sure that n is of a kind, which an absent or empty value becomes.
func (o *override) shape(n *yaml.Node, kind yaml.Kind, path string) bool {
	if isNull(n) {
		*n = yaml.Node{Kind: kind, Line: n.Line}
	}
	if n.Kind != kind {
		o.problem(o.at, path, "%s is %s in %s", path, describe(n), o.file)
		return false
	}
	return true
}

// child is the value under key in a mapping, added if absent. An absent list with a
// default starts as that default, so that one of its entries can be replaced. What is
// wrong with an added section is the file's fault still: only the value is the override's.
func (o *override) child(n *yaml.Node, key string, f field) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line}
	if f.hasDef && f.typ.Kind() == reflect.Slice {
		value = f.defaultNode()
		value.Line = n.Line
	}
	name := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key, Line: n.Line}
	n.Content = append(n.Content, name, value)
	return value
}

// setEntry goes on in one entry of a list, given by its index or by its name.
func (o *override) setEntry(n *yaml.Node, f field, path string, steps []string) {
	step := steps[0]
	entry := field{typ: f.typ.Elem(), bounds: f.bounds, isBytes: f.isBytes}
	if i, isIndex := indexOf(step); isIndex {
		if i >= len(n.Content) {
			o.problem(o.at, path, "%s has no entry %s, it has %d", path, step, len(n.Content))
			return
		}
		o.set(n.Content[i], entry, path+step, steps[1:])
		return
	}
	var known []string
	for i, item := range n.Content {
		for j := 0; item.Kind == yaml.MappingNode && j+1 < len(item.Content); j += 2 {
			if item.Content[j].Value != "name" {
				continue
			}
			if item.Content[j+1].Value == step {
				o.set(item, entry, fmt.Sprintf("%s[%d]", path, i), steps[1:])
				return
			}
			known = append(known, item.Content[j+1].Value)
		}
	}
	if len(known) == 0 {
		o.problem(o.at, path, "%s has no entry named %q; give an index such as %s[0]", path, step, path)
		return
	}
	hint := didYouMean(step, known)
	if hint == "" {
		hint = ";"
	}
	o.problem(o.at, path, "%s has no entry named %q%s names: %s", path, step, hint, strings.Join(known, ", "))
}
