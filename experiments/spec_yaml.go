package experiments

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"
)

// YAML is the resolved spec in its canonical form: every key in the order of the
// structs, every default written out, one spelling per value. Parse of it gives an
// equal Spec, from any directory. Relative paths stay as the spec file wrote them and
// count from base.
func (s *Spec) YAML() string {
	return render(s.tree())
}

// Hash identifies the experiment: the SHA-256, in hex, of the resolved YAML without
// name, notes and tags (labels, not settings) and without base. So a hash is the same
// wherever a repository lies; what files hold is not part of it, that is for the
// corpus manifest to say.
func (s *Spec) Hash() string {
	tree := s.tree()
	var kept []*yaml.Node
	for i := 0; i < len(tree.Content); i += 2 {
		switch tree.Content[i].Value {
		case "name", "notes", "tags", baseKey:
		default:
			kept = append(kept, tree.Content[i], tree.Content[i+1])
		}
	}
	tree.Content = kept
	sum := sha256.Sum256([]byte(render(tree)))
	return hex.EncodeToString(sum[:])
}

// tree is the spec as YAML nodes, paths as they were written.
func (s *Spec) tree() *yaml.Node {
	plain := *s
	plain.Corpus.Sources = slices.Clone(s.Corpus.Sources)
	for _, path := range plain.paths() {
		if as, ok := s.written[*path]; ok {
			*path = as
		}
	}
	return encode(reflect.ValueOf(plain), field{})
}

func render(tree *yaml.Node) string {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	// Only strings that are not UTF-8 could fail, and no spec holds one.
	if err := e.Encode(tree); err != nil {
		panic(fmt.Sprintf("experiments: render spec: %v", err))
	}
	return b.String()
}

// encode writes v, described by f, in its canonical spelling.
func encode(v reflect.Value, f field) *yaml.Node {
	switch {
	case isMapping(v.Type()):
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, f := range fieldsOf(v.Type()) {
			n.Content = append(n.Content, keyNode(f.name), encode(v.Field(f.index), f))
		}
		return n
	case v.Kind() == reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if v.Len() == 0 || !isMapping(v.Type().Elem()) {
			n.Style = yaml.FlowStyle
		}
		for i := range v.Len() {
			n.Content = append(n.Content, encode(v.Index(i), f))
		}
		return n
	case v.Kind() == reflect.Map:
		n := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
		weights := v.Interface().(map[string]float64)
		for _, key := range slices.Sorted(maps.Keys(weights)) {
			n.Content = append(n.Content, textNode(key), encode(reflect.ValueOf(weights[key]), f))
		}
		return n
	}
	return encodeScalar(v, f)
}

func encodeScalar(v reflect.Value, f field) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch x := v.Interface().(type) {
	case Budget:
		n.Value = x.String()
	case float64:
		n.Value = formatRatio(x)
	case int, int64:
		n.Value = strconv.FormatInt(v.Int(), 10)
		if f.isBytes {
			n.Value = formatBytes(v.Int())
		}
	default:
		return textNode(v.String())
	}
	return n
}

// keyNode is the name of a field: always plain, "n" too, which YAML 1.1 has as a boolean
// but no reader takes for one.
func keyNode(name string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: name} }

// plainText is what every YAML version reads as a string without quotes, words such
// as yes and null aside.
var (
	plainText = regexp.MustCompile(`^[A-Za-z_./][A-Za-z0-9_./-]*$`)
	notText   = regexp.MustCompile(`(?i)^(y|n|yes|no|on|off|true|false|null|[.](inf|nan)|[.][0-9_.e]*|[.-]+)$`)
)

// textNode is a string, quoted unless it is safe without.
func textNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if !plainText.MatchString(s) || notText.MatchString(s) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
