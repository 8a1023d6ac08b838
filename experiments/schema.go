package experiments

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

// object is a JSON object that keeps the order of its members, so that editors show
// keys as the spec orders them.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Schema is the JSON Schema (draft 2020-12) of a spec file, made of the same tags that
// the decoder reads. Checks of several values together are not in it.
func Schema() []byte {
	root := object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", "harness experiment"},
	}
	root = append(root, schemaOf(reflect.TypeFor[Spec](), field{doc: "one experiment of harness"})...)
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("experiments: render schema: %v", err)) // nothing in it can fail
	}
	return append(text, '\n')
}

// schemaOf describes the values of type t that f's tags allow.
func schemaOf(t reflect.Type, f field) object {
	var s object
	if f.name != "" {
		s = append(s, member{"title", strings.ReplaceAll(f.name, "_", " ")})
	}
	if f.doc != "" {
		s = append(s, member{"description", f.doc})
	}
	switch {
	case t == reflect.TypeFor[Budget]():
		s = append(s, member{"anyOf", []object{
			{{"type", "integer"}, {"exclusiveMinimum", 0}},
			quantity(countPattern), quantity(durationPattern),
		}})
	case isMapping(t):
		s = append(s, structSchema(t, f)...)
	case t.Kind() == reflect.Slice:
		s = append(s, member{"type", orNull("array", f)},
			member{"items", schemaOf(t.Elem(), field{bounds: f.bounds, isBytes: f.isBytes})})
	case t.Kind() == reflect.Map:
		s = append(s, member{"type", orNull("object", f)}, member{"minProperties", 1},
			member{"additionalProperties", schemaOf(t.Elem(), field{bounds: "[0,1e300]"})})
	case t.Kind() == reflect.String:
		s = append(s, member{"type", "string"})
		if enum, ok := reflect.Zero(t).Interface().(enumeration); ok {
			s = append(s, member{"enum", enum.Values()})
		} else if f.required {
			s = append(s, member{"minLength", 1})
		}
	case t.Kind() == reflect.Float64:
		s = append(s, member{"anyOf", []object{
			append(object{{"type", "number"}}, interval(f.bounds)...), quantity(ratioPattern),
		}})
	default:
		pattern := countPattern
		if f.isBytes {
			pattern = bytesPattern
		}
		s = append(s, member{"anyOf", []object{
			append(object{{"type", "integer"}}, interval(f.bounds)...), quantity(pattern),
		}})
	}
	if f.hasDef {
		s = append(s, member{"default", defaultJSON(f)})
	}
	return s
}

func structSchema(t reflect.Type, f field) object {
	var properties object
	required := []string{}
	for _, f := range fieldsOf(t) {
		properties = append(properties, member{f.name, schemaOf(f.typ, f)})
		if f.required {
			required = append(required, f.name)
		}
	}
	kind := orNull("object", f)
	if f.name == "" {
		kind = "object"
	}
	return object{{"type", kind}, {"properties", properties}, {"required", required}, {"additionalProperties", false}}
}

// orNull lets a section be empty, unless it is required.
func orNull(kind string, f field) any {
	if f.required {
		return kind
	}
	return []string{kind, "null"}
}

// quantity is a number written as text.
func quantity(pattern string) object {
	return object{{"type", "string"}, {"pattern", "^(?:" + pattern + ")$"}}
}

// interval is a range tag in JSON Schema's words.
func interval(tag string) object {
	if tag == "" {
		return nil
	}
	low, high, _ := strings.Cut(tag[1:len(tag)-1], ",")
	b := parseBounds(tag)
	lowKey, highKey := "minimum", "maximum"
	if b.lowOpen {
		lowKey = "exclusiveMinimum"
	}
	if b.highOpen {
		highKey = "exclusiveMaximum"
	}
	return object{{lowKey, json.Number(low)}, {highKey, json.Number(high)}}
}

// defaultJSON is a default in its canonical spelling, numbers as JSON numbers.
func defaultJSON(f field) any {
	v := reflect.New(f.typ).Elem()
	d := newDecoder("")
	d.decode(f.defaultNode(), v, f, f.name)
	if len(d.problems) > 0 {
		panic(fmt.Sprintf("experiments: default of %v", d.problems))
	}
	n := encode(v, f)
	if n.Kind != yaml.ScalarNode {
		return v.Interface()
	}
	if n.Tag != "!!str" && json.Valid([]byte(n.Value)) {
		return json.Number(n.Value)
	}
	return n.Value
}
