package experiments

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// field is what a struct field's tags say.
//
//	yaml      the key
//	doc       one line for people
//	default   value of an absent key, as YAML
//	required  "true": the key must be there
//	range     smallest and largest number, as an interval: "[1,10)"
//	unit      "bytes": an integer that is a size
//
// Enumerations are string types with a method Values() []string.
type field struct {
	name     string
	doc      string
	def      string
	hasDef   bool
	required bool
	bounds   string
	isBytes  bool
	index    int
	typ      reflect.Type
}

// fieldsOf lists the keys of a struct type in order.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		def, hasDef := f.Tag.Lookup("default")
		fields = append(fields, field{
			name: f.Tag.Get("yaml"), doc: f.Tag.Get("doc"), def: def, hasDef: hasDef,
			required: f.Tag.Get("required") == "true", bounds: f.Tag.Get("range"),
			isBytes: f.Tag.Get("unit") == "bytes", index: i, typ: f.Type,
		})
	}
	return fields
}

func names(fields []field) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	return list
}

func findField(fields []field, name string) (field, bool) {
	for _, f := range fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// isMapping reports whether a type is written as keys and values.
func isMapping(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[Budget]()
}

// enumeration is a string type that lists its values.
type enumeration interface{ Values() []string }

// join appends a key to a dotted path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// decoder turns YAML nodes into a struct by its tags, collecting every problem.
type decoder struct {
	file     string
	problems Problems
	unsaid   int                   // problems after maxProblems
	bad      map[string]bool       // key paths with a problem
	at       map[string]*yaml.Node // key path to the value that decided it
	implied  map[*yaml.Node]bool   // values of keys that were left out
	origin   map[*yaml.Node]string // nodes that come from an override, and which
}

func newDecoder(file string) *decoder {
	return &decoder{file: file, bad: map[string]bool{}, at: map[string]*yaml.Node{},
		implied: map[*yaml.Node]bool{}, origin: map[*yaml.Node]string{}}
}

// maxSpec is the largest spec in bytes. Nobody writes more by hand.
const maxSpec = 1 << 20

var (
	yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	// yaml.v3 counts lines from 0 in errors of its parser and from 1 in those of its
	// scanner; these are the parser's.
	countsFromZero = regexp.MustCompile(`^did not find expected (<document start>|node content|'-' indicator|key|',' or '[]}]')`)
)

// syntaxError takes the error of a YAML parser apart.
func syntaxError(err error) (line int, message string) {
	parts := yamlLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if parts == nil {
		return 1, err.Error()
	}
	line, convErr := strconv.Atoi(parts[1])
	if convErr != nil {
		return 1, parts[2] // the first line goes unsaid
	}
	if countsFromZero.MatchString(parts[2]) {
		line++
	}
	return line, parts[2]
}

// parseYAML reads the one document of a file. It returns nil after a problem.
func (d *decoder) parseYAML(text []byte) *yaml.Node {
	if len(text) > maxSpec {
		d.problem(&yaml.Node{}, "", "a spec of %d bytes is too large, the limit is %d", len(text), maxSpec)
		return nil
	}
	source := yaml.NewDecoder(bytes.NewReader(text))
	var doc, next yaml.Node
	err := source.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && isNull(content(&doc)) {
		d.problem(&yaml.Node{}, "", "the spec is empty")
		return nil
	}
	if err == nil {
		if err = source.Decode(&next); err == nil {
			d.problem(&next, "", "a second YAML document starts here, a spec is one")
			return nil
		}
	}
	if !errors.Is(err, io.EOF) {
		line, message := syntaxError(err)
		d.problem(&yaml.Node{Line: line}, "", "not YAML: %s", message)
		return nil
	}
	root := content(&doc)
	if !d.plain(root) {
		return nil
	}
	return root
}

func content(doc *yaml.Node) *yaml.Node {
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		return doc.Content[0]
	}
	return doc
}

// plain refuses what makes a file mean more than it shows: aliases can also blow up
// a small file without bound.
func (d *decoder) plain(n *yaml.Node) bool {
	ok := true
	refuse := func(what string) {
		ok = false
		d.problem(n, "", "%s are not allowed in a spec", what)
	}
	switch {
	case n.Kind == yaml.AliasNode:
		refuse("aliases (*name)")
		return ok
	case n.Anchor != "":
		refuse("anchors (&name)")
	case n.Style&yaml.TaggedStyle != 0:
		refuse("tags (!name)")
	case n.Tag == "!!merge":
		refuse("merge keys (<<)")
	}
	for _, child := range n.Content {
		ok = d.plain(child) && ok
	}
	return ok
}

func isNull(n *yaml.Node) bool {
	return n.Kind == 0 || n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// decode sets v from n, described by f. A nil slice or map and an empty one are the
// same spec, so empty ones stay nil.
func (d *decoder) decode(n *yaml.Node, v reflect.Value, f field, path string) {
	d.at[path] = n
	switch {
	case d.bad[path] && isNull(n): // what an override could not fill
	case isMapping(v.Type()):
		d.decodeStruct(n, v, path)
	case v.Kind() == reflect.Slice:
		d.decodeSlice(n, v, f, path)
	case v.Kind() == reflect.Map:
		d.decodeMap(n, v, f, path)
	default:
		d.decodeScalar(n, v, f, path)
	}
}

func (d *decoder) decodeStruct(n *yaml.Node, v reflect.Value, path string) {
	fields := fieldsOf(v.Type())
	if !isNull(n) && n.Kind != yaml.MappingNode {
		d.problem(n, path, "%swant keys and values, got %s", label(path), describe(n))
		return
	}
	values := map[string]*yaml.Node{}
	for key, value := range d.pairs(n, path) {
		if _, ok := findField(fields, key.Value); !ok {
			d.unknownKey(key, key.Value, v.Type(), path)
			continue
		}
		values[key.Value] = value
	}
	for _, f := range fields {
		at := join(path, f.name)
		value, given := values[f.name]
		if given && isNull(value) && !f.isScalar() {
			given = false // a section whose lines are all commented out
		}
		switch {
		case given:
			d.decode(value, v.Field(f.index), f, at)
		case f.required:
			d.problem(n, at, "%srequired key %q is missing (%s)", label(path), f.name, f.doc)
		case f.hasDef:
			absent := f.defaultNode()
			absent.Line = n.Line
			d.inherit(absent, n)
			d.implied[absent] = true
			d.decode(absent, v.Field(f.index), f, at)
		case isMapping(f.typ):
			absent := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line}
			d.implied[absent] = true
			d.inherit(absent, n)
			d.decode(absent, v.Field(f.index), f, at)
		}
	}
}

func (f field) isScalar() bool {
	return !isMapping(f.typ) && f.typ.Kind() != reflect.Slice && f.typ.Kind() != reflect.Map
}

// defaultNode is the default as if it had been written.
func (f field) defaultNode() *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(f.def), &doc); err != nil {
		panic(fmt.Sprintf("experiments: default of %s: %v", f.name, err))
	}
	return content(&doc)
}

// inherit makes problems at n be reported where parent stands.
func (d *decoder) inherit(n, parent *yaml.Node) {
	if override, ok := d.origin[parent]; ok {
		d.origin[n] = override
	}
}

// pairs yields the keys and values of a mapping, the first of each key.
func (d *decoder) pairs(n *yaml.Node, path string) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		first := map[string]*yaml.Node{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if key.Kind != yaml.ScalarNode {
				d.problem(key, path, "%sa key must be a name, got %s", label(path), describe(key))
				continue
			}
			if earlier := first[key.Value]; earlier != nil {
				d.problem(key, join(path, key.Value), "%skey %q is already on line %d", label(path), key.Value, earlier.Line)
				continue
			}
			first[key.Value] = key
			if !yield(key, value) {
				return
			}
		}
	}
}

func (d *decoder) decodeSlice(n *yaml.Node, v reflect.Value, f field, path string) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.problem(n, path, "%swant a list, got %s", label(path), describe(n))
		return
	}
	if len(n.Content) == 0 {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		d.decode(item, v.Index(i), f, fmt.Sprintf("%s[%d]", path, i))
	}
}

func (d *decoder) decodeMap(n *yaml.Node, v reflect.Value, f field, path string) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.problem(n, path, "%swant names and numbers, got %s", label(path), describe(n))
		return
	}
	for key, value := range d.pairs(n, path) {
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		element := reflect.New(v.Type().Elem()).Elem()
		d.decode(value, element, f, join(path, key.Value))
		v.SetMapIndex(reflect.ValueOf(key.Value), element)
	}
}
