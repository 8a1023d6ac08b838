package experiments

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestCounts(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "4096": 4096, "+7": 7, "-3": -3, "16k": 16000, "16K": 16000, "259M": 259e6, "4.91B": 4.91e9, "2T": 2e12,
		"1e6": 1e6, "1E6": 1e6, "2.5e3": 2500, "1_000": 1000, "1_000.5k": 1000500, "5.": 5, "1.0": 1, "100e-2": 1,
		"9223372036854775807": math.MaxInt64, "0.000001M": 1,
	} {
		if got, err := parseCount(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	const shape = "want a whole number such as 4096, 16k, 259M or 1e6, got "
	for text, want := range map[string]string{
		"":                    shape + `""`,
		"abc":                 shape + `"abc"`,
		"010":                 shape + `"010"`, // 8 in YAML 1.1, 10 in 1.2
		"0o10":                shape + `"0o10"`,
		"0x10":                shape + `"0x10"`,
		"1__0":                shape + `"1__0"`,
		"16m":                 shape + `"16m"`,
		"1e3k":                shape + `"1e3k"`,
		"8MB":                 shape + `"8MB"`,
		"5%":                  shape + `"5%"`,
		".nan":                shape + `".nan"`,
		"1e1000":              shape + `"1e1000"`,
		" 1":                  shape + `" 1"`,
		"1\n":                 shape + `"1\n"`,
		"1.5":                 `"1.5" is not a whole number`,
		"1e-3":                `"1e-3" is not a whole number`,
		"9223372036854775808": `"9223372036854775808" is too large`,
		"1e999":               `"1e999" is too large`,
	} {
		if got, err := parseCount(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %d, %v, want %s", text, got, err, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "512": 512, "512B": 512, "8MB": 8e6, "8 MB": 8e6, "8kB": 8000, "8KB": 8000, "100MiB": 100 << 20,
		"1.5GiB": 3 << 29, "2GB": 2e9, "1TiB": 1 << 40, "3TB": 3e12, "1e6": 1e6, "1KiB": 1024,
	} {
		got, err := parseBytes(text)
		if err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
		if back, err := parseBytes(formatBytes(got)); err != nil || back != got {
			t.Errorf("%d is written %s, read %d, %v", got, formatBytes(got), back, err)
		}
	}
	// M alone is a million of anything, B alone a billion: neither is a size.
	for _, text := range []string{"8M", "8k", "8mb", "MB", "8MBB", "8  MB", "1.5B", "0.5"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
	for n, want := range map[int64]string{0: "0", 1: "1", 1000: "1kB", 1024: "1KiB", 8e6: "8MB", 8 << 20: "8MiB", 1e15: "1000TB", 1001: "1001"} {
		if got := formatBytes(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestRatios(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "1": 1, "0.5": 0.5, ".5": 0.5, "5.": 5, "1e-3": 1e-3, "3e-4": 3e-4, "5%": 0.05, "0.1%": 0.001, "100%": 1,
		"-1": -1, "1_000": 1000, "1e-400": 0,
	} {
		if got, err := parseRatio(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "e", ".", "nan", ".inf", "inf", "0x1p-2", "1e999", "5 %", "%", "1k", "007", "1,5"} {
		if got, err := parseRatio(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
	for f, want := range map[float64]string{0.05: "0.05", 1e-8: "1e-8", 1e9: "1e9", 1e21: "1e21", 10000: "10000", 1e-12: "1e-12"} {
		if got := formatRatio(f); got != want {
			t.Errorf("%v: got %s, want %s", f, got, want)
		}
	}
}

func TestBudget(t *testing.T) {
	for _, c := range []struct {
		text, canonical string
		want            Budget
	}{
		{"259M", "259M", Budget{Tokens: 259e6}},
		{"4.91B", "4.91B", Budget{Tokens: 4.91e9}},
		{"1e6", "1M", Budget{Tokens: 1e6}},
		{"1_234_567", "1234567", Budget{Tokens: 1234567}},
		{"16k", "16000", Budget{Tokens: 16000}},
		{"3500k", "3.5M", Budget{Tokens: 3.5e6}},
		{"90s", "1m30s", Budget{Wall: 90 * time.Second}},
		{"9h", "9h", Budget{Wall: 9 * time.Hour}},
		{"1h30m", "1h30m", Budget{Wall: 90 * time.Minute}},
		{"10m", "10m", Budget{Wall: 10 * time.Minute}},
		{"10h0m", "10h", Budget{Wall: 10 * time.Hour}},
		{"1h5s", "1h0m5s", Budget{Wall: time.Hour + 5*time.Second}},
		{"1500ms", "1.5s", Budget{Wall: 1500 * time.Millisecond}},
	} {
		got, err := ParseBudget(c.text)
		if err != nil || got != c.want || got.String() != c.canonical {
			t.Errorf("%q: got %+v (%s), %v, want %+v (%s)", c.text, got, got, err, c.want, c.canonical)
		}
		text, err := json.Marshal(got)
		var back Budget
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil || back != got {
			t.Errorf("%s through JSON is %s, %+v, %v", c.text, text, back, err)
		}
	}
	const shape = "want tokens such as 259M or 4.91B, or a time such as 90s, 9h or 1h30m, got "
	for text, want := range map[string]string{
		"0":         `"0" is no tokens at all`,
		"-5M":       `"-5M" is no tokens at all`,
		"0s":        `"0s" is no time at all`,
		"9999999h":  `"9999999h" is too long`,
		"2d":        shape + `"2d"`,
		"2 M":       shape + `"2 M"`,
		"-9h":       shape + `"-9h"`,
		"forever":   shape + `"forever"`,
		"1.5":       `"1.5" is not a whole number`,
		"10000000T": `"10000000T" is too large`,
	} {
		if got, err := ParseBudget(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %+v, %v, want %s", text, got, err, want)
		}
	}
}
