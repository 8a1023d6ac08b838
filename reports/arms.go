package reports

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"harness/runs"
)

// ErrNoBaseline says that the arm to compare with is not among the arms.
var ErrNoBaseline = errors.New("no such baseline")

// Selection says which runs of a store are compared.
type Selection struct {
	Runs     []string // each what Store.Find takes; a name means all runs of that name
	Tag      string   // runs that have it, besides Runs; "" for no such choice
	Prefix   string   // runs whose name begins so, besides Runs; with a Tag, only those of them that have it
	Baseline string   // the arm that the others are compared with; "": that of the first of Runs
}

// ArmsPage compares arms, which are runs of one name over seeds.
type ArmsPage struct {
	Title    string
	Baseline string // name of an arm; "" where nothing is compared
	Arms     []Arm  // the baseline first, then from the lowest loss to the highest
	Tasks    []Task // that any arm was probed for
	Notes    []string
	LeftOut  []LeftOut // runs that were chosen and do not count
}

// Arm is what the finished runs of one name come to.
type Arm struct {
	Name       string
	Runs       []ArmRun // by seed, one of each
	Loss       Estimate // final validation loss, nats
	Difference Difference
	Scores     []ScoreRow // one per task of the page; N is 0 where it was not probed
}

// ArmRun is what counts of one run.
type ArmRun struct {
	runs.Run
	Loss   runs.Point // final validation loss
	Speed  float64    // median training speed, tokens/s; NaN if not known
	Shared bool       // another run of the store ran on the same machine meanwhile
	Stored int64      // parameters; 0 if not known
	Grown  bool       // its mixtures grew after Stored was counted
	Active int64      // parameters that act on a token, embedding rows aside; 0 if not known
	Time   time.Duration
	Scores []runs.Score // final
}

// Task is something that the runs were probed for.
type Task struct {
	Name, Asks string
	Chance     float64 // mean over an arm's runs; NaN where arms differ
	N          int     // prompts of a run; 0 where they differ
}

// LeftOut is a run that does not count, and why.
type LeftOut struct {
	Arm, ID, Why string
	Seed         int64
}

// Estimate is the mean over runs with its 95% interval.
type Estimate struct {
	Mean float64
	Half float64 // half the width of the t interval; NaN for fewer than two runs
	N    int
}

// estimate is the mean of values with Student's t interval.
func estimate(values []float64) Estimate {
	e := Estimate{Mean: math.NaN(), Half: math.NaN(), N: len(values)}
	switch {
	case e.N == 1:
		e.Mean = values[0]
	case e.N > 1:
		var deviation float64
		e.Mean, deviation = stat.MeanStdDev(values, nil)
		t := distuv.StudentsT{Sigma: 1, Nu: float64(e.N - 1)}.Quantile(0.975)
		e.Half = t * stat.StdErr(deviation, float64(e.N))
	}
	return e
}

// Low is the lower end of the interval, NaN if there is none.
func (e Estimate) Low() float64 { return e.Mean - e.Half }

// High is the upper end of the interval, NaN if there is none.
func (e Estimate) High() float64 { return e.Mean + e.Half }

// Difference is an arm's loss less the baseline's, run by run of the same seed.
type Difference struct {
	Estimate
	Why string // why there is none, "" if there is one or none is wanted
	But string // what else the runs differ in that a verdict is to be read with, "" if nothing
}

// Verdict says what the difference shows of a loss: a direction only where the whole
// interval lies on one side of 0, "" where there is no difference.
func (d Difference) Verdict() string {
	switch {
	case d.N == 0:
		return ""
	case d.High() < 0: // false where there is no interval
		return "better"
	case d.Low() > 0:
		return "worse"
	}
	return "no difference shown"
}

// Reading is the verdict, and what it is to be read with.
func (d Difference) Reading() string {
	if d.N == 0 || d.But == "" {
		return d.Verdict()
	}
	return d.Verdict() + ", " + d.But
}

// paired compares two arms over the seeds that both have. A loss over another corpus
// or tokenizer is in other units.
func paired(arm, baseline Arm) Difference {
	var differences []float64
	foreign, but := false, ""
	for _, r := range arm.Runs {
		i := slices.IndexFunc(baseline.Runs, func(b ArmRun) bool { return b.Seed == r.Seed })
		switch {
		case i < 0:
		case r.Corpus() != baseline.Runs[i].Corpus():
			foreign = true
		default:
			if r.Tokens != baseline.Runs[i].Tokens {
				but = "another budget"
			}
			differences = append(differences, r.Loss.Value-baseline.Runs[i].Loss.Value)
		}
	}
	d := Difference{Estimate: estimate(differences), But: but}
	switch {
	case len(differences) > 0:
	case foreign:
		d.Why = "another corpus"
	default:
		d.Why = "no seed in common"
	}
	return d
}

// corpusHash and kernelSet are keys of the provenance.
const (
	corpusHash = "corpus_hash"
	kernelSet  = "kernels"
)

// scoreOf is an arm's score of a task: that of its one run, or the mean over runs with
// the t interval, which for shares ends at 0 and 1.
func (a Arm) scoreOf(task Task) ScoreRow {
	row := ScoreRow{Asks: task.Asks, Score: runs.Score{Name: task.Name, Value: math.NaN(), Low: math.NaN(), High: math.NaN(), Chance: math.NaN()}}
	var values, chances []float64
	var last runs.Score
	n := 0
	for _, r := range a.Runs {
		for _, s := range r.Scores {
			if s.Name == task.Name {
				values, chances, last = append(values, s.Value), append(chances, s.Chance), s
				n += s.N
			}
		}
	}
	switch len(values) {
	case 0:
		return row
	case 1:
		row.Score = last
		return row
	}
	e := estimate(values)
	row.Score = runs.Score{Name: task.Name, Unit: last.Unit, Value: e.Mean, Low: e.Low(), High: e.High(), Chance: stat.Mean(chances, nil), N: n}
	if (ScoreRow{Score: last}).isShare() {
		row.Low, row.High = max(0, row.Low), min(1, row.High)
	}
	return row
}

// speed is the median over runs, NaN if none is known; shared holds where any of them
// ran beside another.
func (a Arm) speed() (median float64, shared bool) {
	var speeds []float64
	for _, r := range a.Runs {
		if finite(r.Speed) {
			speeds = append(speeds, r.Speed)
		}
		shared = shared || r.Shared
	}
	return medianOf(speeds), shared
}

// time is the mean over runs.
func (a Arm) time() time.Duration {
	var total time.Duration
	for _, r := range a.Runs {
		total += r.Time
	}
	return total / time.Duration(max(1, len(a.Runs)))
}

// medianOf is NaN where there are no values; it sorts them.
func medianOf(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// each lists what of says of an arm's runs, every value once.
func (a Arm) each(of func(ArmRun) string) string {
	var values []string
	for _, r := range a.Runs {
		if v := of(r); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return strings.Join(values, ", ")
}
