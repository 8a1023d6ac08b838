package experiments

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// label starts a message about the value at path.
func label(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

// describe says what n is, for messages.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "keys and values"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	}
	return strconv.Quote(n.Value)
}

func (d *decoder) decodeScalar(n *yaml.Node, v reflect.Value, f field, path string) {
	if isNull(n) {
		d.problem(n, path, "%sno value; leave the key out to get its default", label(path))
		return
	}
	if n.Kind != yaml.ScalarNode {
		d.problem(n, path, "%swant one value, got %s", label(path), describe(n))
		return
	}
	if err := setScalar(n.Value, v, f); err != nil {
		d.problem(n, path, "%s%v", label(path), err)
	}
}

// setScalar reads text as v's type asks, whatever YAML takes it for.
func setScalar(text string, v reflect.Value, f field) error {
	if budget, ok := v.Addr().Interface().(*Budget); ok {
		return budget.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(text) {
			return fmt.Errorf("%q is not valid UTF-8", text)
		}
		if enum, ok := v.Interface().(enumeration); ok && !slices.Contains(enum.Values(), text) {
			hint := didYouMean(text, enum.Values())
			if hint == "" {
				hint = ";"
			}
			return fmt.Errorf("unknown value %q%s valid values: %s", text, hint, strings.Join(enum.Values(), ", "))
		}
		v.SetString(text)
		return nil
	case reflect.Int, reflect.Int64:
		parse := parseCount
		if f.isBytes {
			parse = parseBytes
		}
		n, err := parse(text)
		if err != nil {
			return err
		}
		if v.OverflowInt(n) || !parseBounds(f.bounds).contains(float64(n)) {
			return fmt.Errorf("%s is outside %s", text, f.bounds)
		}
		v.SetInt(n)
		return nil
	case reflect.Float64:
		x, err := parseRatio(text)
		if err != nil {
			return err
		}
		if !parseBounds(f.bounds).contains(x) {
			return fmt.Errorf("%s is outside %s", text, f.bounds)
		}
		v.SetFloat(x)
		return nil
	}
	panic(fmt.Sprintf("experiments: a spec cannot hold a %s", v.Type()))
}

// bounds is an interval of allowed numbers.
type bounds struct {
	low, high         float64
	lowOpen, highOpen bool
}

// parseBounds reads a range tag such as "[1,10)" or "(0,1]"; "" bounds nothing.
func parseBounds(tag string) bounds {
	if tag == "" {
		return bounds{low: math.Inf(-1), high: math.Inf(1)}
	}
	low, high, found := strings.Cut(tag[1:len(tag)-1], ",")
	l, lowErr := strconv.ParseFloat(low, 64)
	h, highErr := strconv.ParseFloat(high, 64)
	open, end := tag[0], tag[len(tag)-1]
	if !found || lowErr != nil || highErr != nil || !strings.ContainsRune("[(", rune(open)) || !strings.ContainsRune("])", rune(end)) {
		panic(fmt.Sprintf("experiments: range %q is not an interval", tag))
	}
	return bounds{low: l, high: h, lowOpen: open == '(', highOpen: end == ')'}
}

func (b bounds) contains(x float64) bool {
	return (x > b.low || x == b.low && !b.lowOpen) && (x < b.high || x == b.high && !b.highOpen)
}
