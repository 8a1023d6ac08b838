package experiments

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A spec's numbers are read by the type of their field, never by what YAML takes
// them for: 1e-3, 1_000 and 0o17 are numbers, strings or octals depending on the
// YAML version, and 259M or 5% are strings in all of them.

// Patterns of the quantities, shared by the parser and the JSON Schema. A leading
// zero is not allowed before another digit: YAML 1.1 reads 010 as 8.
const (
	decimalPattern  = `[+-]?((0|[1-9][0-9]*(_[0-9]+)*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?`
	countPattern    = `[+-]?((0|[1-9][0-9]*(_[0-9]+)*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3}|[kKMBT])?`
	ratioPattern    = decimalPattern + `%?`
	bytesPattern    = decimalPattern + ` ?(B|[kKMGT]B|[KMGT]iB)?`
	durationPattern = `([0-9]+(\.[0-9]+)?(h|m|s|ms))+`
)

var (
	countSyntax    = regexp.MustCompile(`^` + countPattern + `$`)
	ratioSyntax    = regexp.MustCompile(`^` + ratioPattern + `$`)
	bytesSyntax    = regexp.MustCompile(`^` + bytesPattern + `$`)
	durationSyntax = regexp.MustCompile(`^` + durationPattern + `$`)
)

// unit is a suffix and the whole number it stands for.
type unit struct {
	suffix string
	factor int64
}

// countUnits and byteUnits list longer suffixes before those they end with.
func countUnits() []unit {
	return []unit{{"T", 1e12}, {"B", 1e9}, {"M", 1e6}, {"k", 1e3}, {"K", 1e3}}
}

func byteUnits() []unit {
	return []unit{
		{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1},
	}
}

// maxQuantity is the longest text taken for a number.
const maxQuantity = 64

// parseCount reads a whole number: 4096, 16k, 259M, 4.91B, 1e6, 1_000.
func parseCount(text string) (int64, error) {
	if len(text) > maxQuantity || !countSyntax.MatchString(text) {
		return 0, fmt.Errorf("want a whole number such as 4096, 16k, 259M or 1e6, got %q", text)
	}
	return whole(text, countUnits())
}

// parseBytes reads a size in bytes: 4096, 8MB (powers of 1000), 100MiB (of 1024).
func parseBytes(text string) (int64, error) {
	if len(text) > maxQuantity || !bytesSyntax.MatchString(text) {
		return 0, fmt.Errorf("want a size such as 4096, 8MB or 100MiB, got %q", text)
	}
	return whole(text, byteUnits())
}

// whole multiplies the decimal in text by its unit, exactly.
func whole(text string, units []unit) (int64, error) {
	number, factor := text, int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	value := exact(number)
	value.Mul(value, new(big.Rat).SetInt64(factor))
	if !value.IsInt() {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	if !value.Num().IsInt64() {
		return 0, fmt.Errorf("%q is too large", text)
	}
	return value.Num().Int64(), nil
}

// parseRatio reads a real number: 0.5, 1e-3, 5%.
func parseRatio(text string) (float64, error) {
	if len(text) > maxQuantity || !ratioSyntax.MatchString(text) {
		return 0, fmt.Errorf("want a number such as 0.5, 1e-3 or 5%%, got %q", text)
	}
	number, isPercent := strings.CutSuffix(text, "%")
	value := exact(number)
	if isPercent {
		value.Quo(value, big.NewRat(100, 1))
	}
	f, _ := value.Float64()
	if math.IsInf(f, 0) {
		return 0, fmt.Errorf("%q is too large", text)
	}
	return f, nil
}

// exact reads what matches decimalPattern.
func exact(number string) *big.Rat {
	value, ok := new(big.Rat).SetString(strings.ReplaceAll(number, "_", ""))
	if !ok {
		panic(fmt.Sprintf("experiments: %q matches the pattern of a decimal but is none", number))
	}
	return value
}

// formatBytes writes n in the largest unit that divides it.
func formatBytes(n int64) string {
	best := unit{"", 1}
	for _, u := range byteUnits() {
		if n != 0 && n%u.factor == 0 && u.factor > best.factor {
			best = u
		}
	}
	return strconv.FormatInt(n/best.factor, 10) + best.suffix
}

// formatRatio writes the shortest decimal that reads back as f: 0.05, 1e-8, 1e9.
func formatRatio(f float64) string {
	return strings.NewReplacer("e-0", "e-", "e+0", "e", "e+", "e").Replace(strconv.FormatFloat(f, 'g', -1, 64))
}

// Budget is how long a run trains: a number of tokens or a wall-clock time. Exactly
// one is set in a valid budget.
type Budget struct {
	Tokens int64
	Wall   time.Duration
}

// ParseBudget reads 259M, 4.91B, 1e6 (tokens), or 90s, 9h, 1h30m (wall clock). Mind
// the case: 2M is two million tokens, 2m is two minutes.
func ParseBudget(text string) (Budget, error) {
	if len(text) <= maxQuantity && durationSyntax.MatchString(text) {
		wall, err := time.ParseDuration(text)
		if err != nil {
			return Budget{}, fmt.Errorf("%q is too long", text)
		}
		if wall <= 0 {
			return Budget{}, fmt.Errorf("%q is no time at all", text)
		}
		return Budget{Wall: wall}, nil
	}
	if len(text) > maxQuantity || !countSyntax.MatchString(text) {
		return Budget{}, fmt.Errorf("want tokens such as 259M or 4.91B, or a time such as 90s, 9h or 1h30m, got %q", text)
	}
	tokens, err := parseCount(text)
	if err != nil {
		return Budget{}, err
	}
	if tokens <= 0 {
		return Budget{}, fmt.Errorf("%q is no tokens at all", text)
	}
	return Budget{Tokens: tokens}, nil
}

// String writes the budget as ParseBudget reads it: 259M, 4.91B, 1234567, 1h30m.
func (b Budget) String() string {
	if b.Wall > 0 {
		text := b.Wall.String()
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, zero) {
				text = text[:len(text)-2]
			}
		}
		return text
	}
	for _, u := range countUnits() {
		// Two decimals at most, exact or not at all.
		if b.Tokens >= u.factor && b.Tokens%(u.factor/100) == 0 && u.factor > 1e3 {
			hundredths := b.Tokens / (u.factor / 100)
			text := fmt.Sprintf("%d.%02d", hundredths/100, hundredths%100)
			return strings.TrimRight(strings.TrimRight(text, "0"), ".") + u.suffix
		}
	}
	return strconv.FormatInt(b.Tokens, 10)
}

// MarshalText writes String, so that JSON shows a budget as a spec does.
func (b Budget) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads what ParseBudget reads.
func (b *Budget) UnmarshalText(text []byte) (err error) {
	*b, err = ParseBudget(string(text))
	return err
}
