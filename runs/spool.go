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

// spool keeps records that the database would not take in a file unwritten-name.jsonl
// of the run's directory, one JSON object a line.
func (s *Store) spool(runID, name string, records []record) (path string, err error) {
	path = filepath.Join(s.RunDir(runID), "unwritten-"+name+".jsonl")
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
	entries, err := os.ReadDir(s.RunDir(runID)) // in the order of names; a glob would read the store's path as a pattern
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("find unwritten records of run %s: %w", runID, err)
	}
	total := 0
	for _, entry := range entries {
		if ours, _ := filepath.Match("unwritten-*.jsonl", entry.Name()); !ours {
			continue
		}
		path := filepath.Join(s.RunDir(runID), entry.Name())
		var n int
		err := s.write(ctx, "take in "+path, func(tx *sql.Tx) (err error) {
			n, err = applySpool(ctx, tx, path)
			return err
		})
		if err != nil {
			return total, err
		}
		total += n
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return total, fmt.Errorf("take in unwritten records: %w", err)
		}
	}
	return total, nil
}

// applySpool writes the records of a file. One that is gone has been taken in by
// another process.
func applySpool(ctx context.Context, tx *sql.Tx, path string) (int, error) {
	records, err := readSpool(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return len(records), applyAll(ctx, tx, records)
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
