package runs

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Kinds of benches.
const (
	BenchMachine = "machine" // one core: its peaks, bandwidths and GEMMs
	BenchTrain   = "train"   // where the time of one training step goes
)

// Groups of measurements.
const (
	GroupFrequency = "frequency" // of the core, in GHz
	GroupPeak      = "peak"      // of an arithmetic from registers: "fp32", "bf16", "int16", "int8", "amx-bf16", "amx-int8"; GFLOP/s or GOP/s
	GroupBandwidth = "bandwidth" // of reading from "L1", "L2", "L3", "DRAM"; GB/s. Detail: bytes (of the buffer)
	GroupDispatch  = "dispatch"  // floor of one call through the public dispatch, in us
	// GroupGemm holds GEMMs of one shape by one kernel set, in GFLOP/s. Detail: set,
	// arithmetic, trans (NN, NT, TN), m, k, n, of_peak (a share, 0 to 1), where (in a
	// model it occurs), packed (the speed with the right operand packed before).
	GroupGemm = "gemm"
	// GroupTrain holds the operations of a training step, each with Detail op, and the
	// figures of the step as a whole, named below. An operation's value is its time per
	// step in ms. Its Detail: op, calls (per step), gflop and gbyte (per step), bound
	// (BoundCompute or BoundBandwidth), level (of memory, where that bounds it), of_bound
	// (the share of its bound that it reaches, 0 to 1), share (of the step's time, 0 to 1).
	GroupTrain = "train"
)

// What limits an operation.
const (
	BoundCompute   = "compute"
	BoundBandwidth = "bandwidth"
)

// Names of the figures of a training step as a whole, in GroupTrain.
const (
	TrainThroughput = "throughput"      // tokens/s
	TrainStep       = "step"            // ms. Detail: tokens (per step)
	TrainFlops      = "flops per token" // MFLOP, with what was scored, by the formula in Detail formula; by_spec is the spec's figure
	TrainRate       = "model flops"     // GFLOP/s. Detail: of_peak (a share, 0 to 1), peak (which arithmetic's)
)

// Causes of errors that a caller may tell apart.
var (
	ErrNoBench   = errors.New("no such bench")
	ErrNotFinite = errors.New("not a finite number")
)

// Bench is a set of measurements that one process took of the machine.
type Bench struct {
	ID      string // ULID, made by SaveBench: sorts by the time of saving
	Kind    string // BenchMachine or BenchTrain
	Started time.Time
	// Provenance says which program measured, and where: what the function Provenance
	// gives, and cpu, core, amx (whether it can be used, and why not), l2 and l3 (bytes),
	// and of a step spec, model and kernels; whatever else tells machines apart.
	Provenance map[string]string
	Results    []Measurement // in the order they are to be shown
}

// Measurement is one measured figure with its spread. What was calculated, not
// measured, has N 0. A figure without a spread (N below 2) may leave Low and High
// zero: the store then takes both for Value.
type Measurement struct {
	Group, Name string
	Value       float64 // finite, as are Low and High
	Unit        string
	Low, High   float64           // the least and the most that was measured; Value lies between, or is one of them
	N           int               // repetitions
	Detail      map[string]string // may have the median, where Value is the best
}

// SaveBench adds a bench to the store as a whole and returns the id it gets.
func (s *Store) SaveBench(ctx context.Context, b Bench) (id string, err error) {
	doing := fmt.Sprintf("save a bench of kind %q", b.Kind)
	if b.Kind != BenchMachine && b.Kind != BenchTrain {
		return "", fmt.Errorf("%s: the kinds are %s and %s", doing, BenchMachine, BenchTrain)
	}
	if len(b.Results) == 0 {
		return "", fmt.Errorf("%s: it holds no measurements", doing)
	}
	for i, m := range b.Results {
		if err := m.check(); err != nil {
			return "", fmt.Errorf("%s: measurement %d, %s/%s: %w", doing, i, m.Group, m.Name, err)
		}
	}
	saved := s.now()
	made, err := ulid.New(ulid.Timestamp(saved), ulid.DefaultEntropy())
	if err != nil {
		return "", fmt.Errorf("%s: make an id: %w", doing, err)
	}
	if b.Started.IsZero() {
		b.Started = saved
	}
	id = made.String()
	err = s.write(ctx, doing, func(tx *sql.Tx) error {
		provenance, err := pairs(b.Provenance)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO benches (id, kind, started, provenance) VALUES (?, ?, ?, ?)`,
			id, b.Kind, nanos(b.Started), provenance); err != nil {
			return err
		}
		for seq, m := range b.Results {
			if m.N < 2 && m.Low == 0 && m.High == 0 {
				m.Low, m.High = m.Value, m.Value
			}
			detail, err := pairs(m.Detail)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO measurements (bench, seq, family, name, value, unit, low, high, n, detail)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, id, seq, m.Group, m.Name, m.Value, m.Unit, m.Low, m.High, m.N, detail); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// check refuses what is no measurement. A bench that holds one is refused as a
// whole: a table with a NaN in it is a fault of who measured.
func (m Measurement) check() error {
	for _, f := range []struct {
		name  string
		value float64
	}{{"value", m.Value}, {"low", m.Low}, {"high", m.High}} {
		if math.IsNaN(f.value) || math.IsInf(f.value, 0) {
			return fmt.Errorf("its %s is %v: %w", f.name, f.value, ErrNotFinite)
		}
	}
	switch {
	case m.Group == "" || m.Name == "":
		return errors.New("it has no group or no name")
	case m.N < 0:
		return fmt.Errorf("it was repeated %d times", m.N)
	case m.N < 2 && m.Low == 0 && m.High == 0:
		return nil
	case m.Low > m.Value || m.Value > m.High:
		return fmt.Errorf("its value %v is outside of its spread, %v to %v", m.Value, m.Low, m.High)
	}
	return nil
}

// pairs encodes a map whose keys and values may hold any bytes; JSON replaces those
// that are not UTF-8.
func pairs(m map[string]string) (string, error) {
	if m == nil {
		m = map[string]string{}
	}
	data, err := json.Marshal(m)
	return string(data), err
}

// Benches returns all benches, newest first, without their results.
func (s *Store) Benches(ctx context.Context) ([]Bench, error) {
	const doing = "read the benches"
	// A store that an older version wrote, opened for reading alone, has no such table.
	var tables int
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE name = 'benches'`).Scan(&tables); err != nil {
		return nil, s.explain(doing, err)
	}
	if tables == 0 {
		return nil, nil
	}
	return collect(ctx, s, doing, func(rows *sql.Rows, b *Bench) error {
		var started int64
		var provenance string
		if err := rows.Scan(&b.ID, &b.Kind, &started, &provenance); err != nil {
			return err
		}
		b.Started = fromNanos(started)
		return json.Unmarshal([]byte(provenance), &b.Provenance)
	}, `SELECT id, kind, started, provenance FROM benches ORDER BY id DESC`)
}

// Bench returns the bench that ref means, with its results: an id, or a prefix that
// only one id of the kind has; "" is the newest. kind "" is any kind.
func (s *Store) Bench(ctx context.Context, kind, ref string) (Bench, error) {
	all, err := s.Benches(ctx)
	if err != nil {
		return Bench{}, err
	}
	b, err := findBench(all, kind, ref)
	if err != nil {
		return Bench{}, fmt.Errorf("%w in the store %s", err, s.dir)
	}
	b.Results, err = collect(ctx, s, "read the measurements of bench "+b.ID, func(rows *sql.Rows, m *Measurement) error {
		var detail string
		if err := rows.Scan(&m.Group, &m.Name, &m.Value, &m.Unit, &m.Low, &m.High, &m.N, &detail); err != nil {
			return err
		}
		return json.Unmarshal([]byte(detail), &m.Detail)
	}, `SELECT family, name, value, unit, low, high, n, detail FROM measurements WHERE bench = ? ORDER BY seq`, b.ID)
	return b, err
}

// findBench looks among benches that stand newest first.
func findBench(all []Bench, kind, ref string) (Bench, error) {
	of := ""
	if kind != "" {
		of = " of kind " + kind
	}
	var found []Bench
	for _, b := range all {
		if kind == "" || b.Kind == kind {
			if strings.EqualFold(b.ID, ref) || ref == "" {
				return b, nil
			}
			if strings.HasPrefix(b.ID, strings.ToUpper(ref)) {
				found = append(found, b)
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		var ids []string
		for _, b := range found {
			ids = append(ids, b.ID+" ("+b.Kind+")")
		}
		return Bench{}, fmt.Errorf("ambiguous bench %q: could be %s,", ref, strings.Join(ids, ", "))
	case ref == "":
		return Bench{}, fmt.Errorf("%w: there is none%s", ErrNoBench, of)
	}
	return Bench{}, fmt.Errorf("%w%s: %q", ErrNoBench, of, ref)
}
