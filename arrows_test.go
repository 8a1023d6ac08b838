package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// arrows are the imports among our packages that ARCHITECTURE.md draws. What is
// not listed is forbidden, in tests too.
func arrows() map[string][]string {
	return map[string][]string{
		"harness":               {"experiments", "reports", "runs", "amx", "nn/generate"},
		"harness/experiments":   {"corpus", "probes", "diagnostics", "nn", "nn/optim", "nn/checkpoint", "nn/generate", "runs", "amx"},
		"harness/reports":       {"runs"},
		"harness/probes":        {"nn", "nn/generate", "corpus"},
		"harness/diagnostics":   {"nn"},
		"harness/nn":            {"amx"},
		"harness/nn/optim":      {"nn", "amx"},
		"harness/nn/generate":   {"nn"},
		"harness/nn/checkpoint": {},
		"harness/corpus":        {},
		"harness/runs":          {},
		"harness/amx":           {},
		"harness/bench/peers":   {"amx"},

		"harness/amx/amxemu":         {},
		"harness/amx/amxemu/encoded": {},
	}
}

// testOnly are arrows that only tests may draw: a model in a test needs kernels.
func testOnly() map[string][]string {
	return map[string][]string{
		"harness/probes":      {"amx"},
		"harness/diagnostics": {"amx"},
		"harness/nn/generate": {"amx"},
		"harness/amx":         {"amx/amxemu"},
		"harness/amx/amxemu":  {"amx/amxemu/encoded"},
	}
}

func TestImportArrows(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Fatal(err)
	}
	allowed, tests := arrows(), testOnly()
	seen := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; seen++ {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
		}
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		may, known := allowed[p.ImportPath]
		if !known {
			t.Errorf("package %s is not in ARCHITECTURE.md's picture: add it there and here", p.ImportPath)
			continue
		}
		check := func(imports, may []string, where string) {
			for _, path := range imports {
				ours, is := strings.CutPrefix(path, "harness/")
				if is && path != p.ImportPath && !slices.Contains(may, ours) {
					t.Errorf("%s%s imports %s: forbidden", p.ImportPath, where, ours)
				}
			}
		}
		check(p.Imports, may, "")
		check(slices.Concat(p.TestImports, p.XTestImports), slices.Concat(may, tests[p.ImportPath]), " (tests)")
	}
	if seen != len(allowed) {
		t.Errorf("go list found %d packages, the picture has %d", seen, len(allowed))
	}
}
