package main

import (
	"strings"
	"testing"

	"harness/amx"
)

func TestParseShape(t *testing.T) {
	for _, argument := range []string{"NN:1,2,3", "NT:10,20,30", "TN:4096,256,640"} {
		if s, err := parseShape(argument); err != nil || s.argument() != argument {
			t.Errorf("parseShape(%q) = %+v, %v", argument, s, err)
		}
	}
	for _, argument := range []string{"", "NN", "TT:1,2,3", "NN:1,2", "NN:1,2,3,4", "NN:1,2,3 4", "NN:0,1,1", "NN:1,-1,1", "NN:a,b,c"} {
		if s, err := parseShape(argument); err == nil {
			t.Errorf("parseShape(%q) = %+v, want an error", argument, s)
		}
	}
}

// TestSampledError: what a right product passes and a wrong one does not, in every form.
func TestSampledError(t *testing.T) {
	for form, trans := range forms {
		s := shape{Form: form, M: 13, K: 7, N: 5}
		a, b, c := operands(s)
		lda, ldb := s.strides()
		amx.Reference().Gemm(trans, s.M, s.N, s.K, a, lda, b, ldb, nil, c, s.N)
		if got := sampledError(s, a, b, c); got > 1e-6 {
			t.Errorf("%s: right product: relative error %g", form, got)
		}
		a[len(a)-1]++ // an element of the last row (NN, NT) or of the last step and row (TN)
		if got := sampledError(s, a, b, c); got < 1e-3 {
			t.Errorf("%s: wrong product: relative error %g", form, got)
		}
	}
}

func TestTables(t *testing.T) {
	const lines = `
{"peer":"oneDNN 2.6.3","form":"NN","m":8,"k":4,"n":16,"peaks":{"f32":100},"results":{"f32":{"rate":80,"peak":100},"bf16":{"rate":150,"peak":200}}}
{"peer":"harness","form":"NN","m":8,"k":4,"n":16,"peaks":{"f32":110},"results":{"avx512":{"rate":88,"packed_rate":99,"peak":110}}}
{"peer":"oneDNN 2.6.3","form":"TN","m":8,"k":4,"n":16,"peaks":{"f32":100},"results":{"f32":{"rate":50,"peak":100}}}
{"peer":"oneDNN 2.6.3","form":"NN","m":8,"k":4,"n":16,"peaks":{"f32":90},"results":{"f32":{"rate":90,"peak":90}}}
{"peer":"harness","form":"NN","m":8,"k":4,"n":16,"peaks":{"f32":100},"results":{"avx512":{"rate":70,"packed_rate":108,"peak":100}}}
`
	const want = `All work on operands counted in ours. GFLOP/s (of the fp32 peak measured in the same process); x: over oneDNN's fp32 (oneDNN 2.6.3, harness)
┌───────────┬─────────────┬──────────────┬───────────────────┐
│ (M,K,N)   │ ONEDNN F32  │ ONEDNN BF16  │ AVX512            │
├───────────┼─────────────┼──────────────┼───────────────────┤
│ NN 8,4,16 │ 90.0 (0.90) │ 150.0 (1.50) │ 88.0 (0.80) 0.98x │
│ TN 8,4,16 │ 50.0 (0.50) │              │                   │
└───────────┴─────────────┴──────────────┴───────────────────┘
B packed beforehand in ours too. GFLOP/s (of the fp32 peak measured in the same process); x: over oneDNN's fp32 (oneDNN 2.6.3, harness)
┌───────────┬─────────────┬──────────────┬────────────────────┐
│ (M,K,N)   │ ONEDNN F32  │ ONEDNN BF16  │ AVX512             │
├───────────┼─────────────┼──────────────┼────────────────────┤
│ NN 8,4,16 │ 90.0 (0.90) │ 150.0 (1.50) │ 108.0 (0.98) 1.20x │
│ TN 8,4,16 │ 50.0 (0.50) │              │                    │
└───────────┴─────────────┴──────────────┴────────────────────┘
`
	var out strings.Builder
	if err := printTables(strings.NewReader(lines), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if err := printTables(strings.NewReader("no JSON"), &out); err == nil {
		t.Error("text that is no JSON made a table")
	}
}
