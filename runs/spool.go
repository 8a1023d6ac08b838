package runs

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// spool keeps records that the database would not take, one JSON object a line.
func (s *Store) spool(runID string, attempt int, records []record) (path string, err error) {
	path = filepath.Join(s.RunDir(runID), fmt.Sprintf("unwritten-%d.jsonl", attempt))
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	for _, r := range records {
		if err := encoder.Encode(r); err != nil {
			return path, fmt.Errorf("encode a %s for %s: %w", r.kind, path, err)
		}
	}
	if err := renameio.WriteFile(path, buffer.Bytes(), 0o644); err != nil {
		return path, fmt.Errorf("keep unwritten records: %w", err)
	}
	return path, nil
}

// Recover takes in the files in which a run's attempts kept what the database
// would not take, and removes them. It returns how many records there were.
func (s *Store) Recover(ctx context.Context, runID string) (int, error) {
	paths, err := filepath.Glob(filepath.Join(s.RunDir(runID), "unwritten-*.jsonl"))
	if err != nil {
		return 0, fmt.Errorf("find unwritten records of run %s: %w", runID, err)
	}
	total := 0
	for _, path := range paths {
		records, err := readSpool(path)
		if err != nil {
			return total, err
		}
		err = s.write(ctx, "take in "+path, func(tx *sql.Tx) error { return applyAll(ctx, tx, records) })
		if err != nil {
			return total, err
		}
		total += len(records)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return total, fmt.Errorf("take in unwritten records: %w", err)
		}
	}
	return total, nil
}

func readSpool(path string) ([]record, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read unwritten records: %w", err)
	}
	defer file.Close()
	var records []record
	decoder := json.NewDecoder(file)
	for {
		var r record
		switch err := decoder.Decode(&r); {
		case errors.Is(err, io.EOF):
			return records, nil
		case err != nil:
			return nil, fmt.Errorf("read unwritten records: %s: record %d: %w", path, len(records)+1, err)
		}
		records = append(records, r)
	}
}
