package main

import (
	"fmt"
	"io"
	"strings"

	"harness/amx"
	"harness/runs"
)

// writeVersion prints which program this is and which kernel sets it can use here.
func writeVersion(w io.Writer) {
	p := runs.Provenance(nil)
	version := p["code_version"]
	if p["code_dirty"] == "true" {
		version += ", with changes"
	}
	fmt.Fprintf(w, "harness %s\n", version)
	fmt.Fprintf(w, "%s %s/%s\n", p["go"], p["os"], p["arch"])
	var here, missing []string
	for _, s := range amx.Sets() {
		if s.Available() {
			here = append(here, s.Name)
		} else {
			missing = append(missing, s.Name)
		}
	}
	fmt.Fprintf(w, "kernels %s\n", strings.Join(here, ", "))
	if len(missing) > 0 {
		fmt.Fprintf(w, "kernels this build or CPU lacks: %s\n", strings.Join(missing, ", "))
	}
}
