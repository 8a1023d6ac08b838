package corpus

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// readJSONL hands the named field of every row to take. Blank lines count as rows
// but hold no document.
func readJSONL(ctx context.Context, path string, r io.Reader, field string, take func([]byte) bool) (more bool, err error) {
	lines := bufio.NewReaderSize(r, 1<<20)
	var line []byte
	for row := 1; ; row++ {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		line, err = readLine(lines, line[:0])
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return false, fmt.Errorf("%s:%d: %w", path, row, err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			doc, err := fieldOf(line, field)
			if err != nil {
				return false, fmt.Errorf("%s:%d: %w", path, row, err)
			}
			if !take([]byte(doc)) {
				return false, nil
			}
		}
		if end {
			return true, nil
		}
	}
}

// readLine appends one line to line; the last one comes with io.EOF.
func readLine(r *bufio.Reader, line []byte) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxDocument {
			return nil, fmt.Errorf("line is longer than %d MB", maxDocument>>20)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// fieldOf returns the string under field in one JSON object.
func fieldOf(line []byte, field string) (string, error) {
	var row map[string]json.RawMessage
	if err := json.Unmarshal(line, &row); err != nil {
		return "", fmt.Errorf("not a JSON object: %w", err)
	}
	value, ok := row[field]
	if !ok {
		names := make([]string, 0, len(row))
		for name := range row {
			names = append(names, name)
		}
		slices.Sort(names)
		return "", fmt.Errorf("field %q is missing; fields there: %s", field, strings.Join(names, ", "))
	}
	var text *string
	if err := json.Unmarshal(value, &text); err != nil || text == nil {
		return "", fmt.Errorf("field %q is not a string", field)
	}
	return *text, nil
}
