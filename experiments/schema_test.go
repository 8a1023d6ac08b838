package experiments

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("spec.json", doc); err != nil {
		t.Fatal(err)
	}
	// Compiling checks the schema itself against draft 2020-12.
	schema, err := c.Compile("spec.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func valid(t *testing.T, schema *jsonschema.Schema, text string) error {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return schema.Validate(doc)
}

func TestSchemaGolden(t *testing.T) { golden(t, "schema.json", Schema()) }

func TestSchemaAcceptsEverySpec(t *testing.T) {
	schema := compiledSchema(t)
	for _, path := range committed(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(t, schema, string(text)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		spec, err := Load(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(t, schema, spec.YAML()); err != nil {
			t.Errorf("%s, resolved: %v", path, err)
		}
	}
	if err := valid(t, schema, string(Template())); err != nil {
		t.Errorf("template: %v", err)
	}
}

// What an editor says by the schema and what the decoder says is the same.
func TestSchemaAgreesWithTheDecoder(t *testing.T) {
	schema := compiledSchema(t)
	for _, c := range []struct {
		line string
		ok   bool
	}{
		{"seed: 16k", true}, {"seed: 1e3", true}, {"seed: 1.5", false}, {"seed: -1", false}, {"seed: x", false}, {"seed: [1]", false},
		{"seed:", false}, {"train:", true}, {"tags:", true}, {"tags: [a]", true}, {"tags: a", false}, {"sede: 1", false},
		{"train: {optimizer: {lr: 5%}}", true}, {"train: {optimizer: {lr: 0}}", false}, {"train: {optimizer: {lr: 1}}", true},
		{"train: {optimizer: {beta1: 1}}", false}, {"train: {optimizer: {lr: 5k}}", false}, {"train: {loss: {kind: fool}}", false},
		{"model: {layers: [lin, swa]}", true}, {"model: {layers: [gru]}", false}, {"model: {d_model: 4}", false},
		{"      max_bytes: 8MiB", true}, {"      max_bytes: 8M", false}, {"      kynd: a", false}, {"    - {name: b}", false},
		{"  phases: [{until: 1, weights: {go: 50%}}]", true}, {"  phases: [{until: 1, weights: {go: -1}}]", false},
		{"  phases: [{until: 1, weights: {}}]", false}, {"  phases: [{until: 1}]", false},
	} {
		text := minimal + c.line + "\n"
		_, err := Parse("exp.yaml", []byte(text), nil)
		if (err == nil) != c.ok {
			t.Errorf("decoder, %s: %v", c.line, err)
		}
		if err := valid(t, schema, text); (err == nil) != c.ok {
			t.Errorf("schema, %s: %v", c.line, err)
		}
	}
	for budget, ok := range map[string]bool{"259M": true, "5000": true, "1h30m": true, "0": false, "2d": false, "-1": false} {
		text := strings.Replace(minimal, "1M", budget, 1)
		if err := valid(t, schema, text); (err == nil) != ok {
			t.Errorf("schema, budget %s: %v", budget, err)
		}
	}
}
