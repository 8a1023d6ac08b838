package runs

import (
	"database/sql/driver"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// number is a float that keeps NaN and the infinities: as text in a column of
// type ANY, as a string in JSON. Neither SQLite nor encoding/json would.
type number float64

// nonFinite is the text for NaN and the infinities, "" for other values.
func (n number) nonFinite() string {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return ""
}

func (n number) Value() (driver.Value, error) {
	if text := n.nonFinite(); text != "" {
		return text, nil
	}
	return float64(n), nil
}

func (n *number) Scan(src any) error {
	switch v := src.(type) {
	case float64:
		*n = number(v)
	case string:
		return n.parse(v)
	case []byte:
		return n.parse(string(v))
	default:
		return fmt.Errorf("a float cannot be read from %T", src)
	}
	return nil
}

func (n *number) parse(text string) error {
	f, err := strconv.ParseFloat(text, 64)
	*n = number(f)
	return err
}

func (n number) MarshalJSON() ([]byte, error) {
	if text := n.nonFinite(); text != "" {
		return json.Marshal(text)
	}
	return json.Marshal(float64(n))
}

func (n *number) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return n.parse(text)
	}
	return n.parse(string(data))
}

// text is a string that survives JSON whatever its bytes: what is not valid
// UTF-8 becomes {"base64": ...}. Models write such strings.
type text string

type encodedText struct {
	Base64 string `json:"base64"`
}

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(encodedText{base64.StdEncoding.EncodeToString([]byte(t))})
}

func (t *text) UnmarshalJSON(data []byte) error {
	var plain string
	if json.Unmarshal(data, &plain) == nil {
		*t = text(plain)
		return nil
	}
	var encoded encodedText
	if err := json.Unmarshal(data, &encoded); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(encoded.Base64)
	*t = text(raw)
	return err
}

// asText and asStrings convert a row of cells.
func asText(cells []string) []text {
	out := make([]text, len(cells))
	for i, c := range cells {
		out[i] = text(c)
	}
	return out
}

func asStrings(cells []text) []string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = string(c)
	}
	return out
}
