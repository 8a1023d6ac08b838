package runs

import (
	"math"
	"time"
)

// State says how a run, or one attempt at it, stands.
type State string

const (
	Pending     State = "pending"     // created; no attempt has begun
	Running     State = "running"     // its process is alive
	Finished    State = "finished"    // reached the end of its budget
	Interrupted State = "interrupted" // stopped on request, with a checkpoint
	Diverged    State = "diverged"    // stopped at a non-finite loss
	Failed      State = "failed"      // stopped at an error
	Crashed     State = "crashed"     // never ended, and its process is gone; derived when read, never stored
)

// NewRun is what is known of a run before it starts.
type NewRun struct {
	Name       string
	Notes      string // "" means none were given, and is stored as NULL
	Tags       []string
	Spec       string // resolved spec, YAML
	SpecHash   string
	Seed       int64
	Provenance map[string]string
}

// Run is one experiment as the store knows it.
type Run struct {
	ID         string // ULID: sorts by time of creation
	Name       string
	Notes      string // "" if none were given
	Tags       []string
	State      State // of the last attempt
	Spec       string
	SpecHash   string
	Seed       int64
	Created    time.Time // UTC
	Provenance map[string]string
	Attempts   []Attempt // in order
	Step       int64     // last step recorded by the last attempt
	Tokens     int64     // tokens trained on at that step
}

// AttemptInfo says which process works on a run. Begin fills in Host, PID and
// BootID where they are left zero.
type AttemptInfo struct {
	Host     string
	PID      int
	BootID   string // changes at every boot, so that a pid is not mistaken for an older one; "" where the system has none
	Core     int    // CPU the process is pinned to
	Kernels  string // kernel set
	FromStep int64  // steps already done by earlier attempts; 0 for the first
	Command  string
}

// Attempt is one process's work on a run. A resume adds an attempt.
type Attempt struct {
	AttemptInfo
	Number    int // 1 for the first
	State     State
	Message   string    // why it ended as it did
	Started   time.Time // UTC, as are the others
	Heartbeat time.Time
	Ended     time.Time // zero if it has not ended
	Step      int64     // last step recorded, FromStep at first
	Tokens    int64     // tokens at that step
}

// Point is one value of a metric.
type Point struct {
	Step, Tokens int64
	Elapsed      time.Duration // monotonic, since the attempt began
	Time         time.Time     // UTC
	Value        float64       // may be NaN or infinite
	Attempt      int
}

// Series is a metric over a run: the points that no later attempt replaced, by
// step, then in the order they were recorded.
type Series struct {
	Name   string // free UTF-8; / groups
	Unit   string // "" if not defined
	Better string // "lower", "higher" or ""
	Points []Point
}

// Score is the result of a probe or another evaluation. Value, Low, High and
// Chance may be NaN, which means that the figure is not known.
type Score struct {
	Step, Tokens int64
	Name         string // the task, such as "shift"
	Value        float64
	Low, High    float64 // confidence interval of Value
	Chance       float64 // what guessing scores
	N            int     // prompts scored
	Seed         int64
	Unit         string

	Attempt int       // set by the store
	Time    time.Time // UTC; set by the store
}

// Verdict says whether the interval leaves room for guessing: "above chance" or
// "below chance" only where the whole interval lies there, "" where chance or the
// interval is not known.
func (s Score) Verdict() string {
	switch {
	case math.IsNaN(s.Low) || math.IsNaN(s.High) || math.IsNaN(s.Chance):
		return ""
	case s.Low > s.Chance:
		return "above chance"
	case s.High < s.Chance:
		return "below chance"
	}
	return "not told from chance"
}

// Generation is a text the model wrote, with how it scored. Prompt, Text and
// Reference keep any bytes, valid UTF-8 or not.
type Generation struct {
	Step, Tokens int64
	Index        int // place of the prompt in its set: the same prompt has the same index at every step
	Prompt       string
	Text         string
	Reference    string             // what the corpus or the task says instead; "" if nothing
	Scores       map[string]float64 // values may be NaN or infinite

	Attempt int       // set by the store
	Time    time.Time // UTC; set by the store
}

// Event is something that happened to a run: a phase began, a checkpoint was
// written, tracking was late. Events of replaced steps stay visible.
type Event struct {
	Step    int64
	Kind    string
	Text    string
	Elapsed time.Duration // monotonic, since the attempt began
	Time    time.Time     // UTC
	Attempt int
}

// Artifact is a file that belongs to a run, such as a checkpoint.
type Artifact struct {
	Step   int64
	Kind   string
	Path   string // relative to the store's directory
	SHA256 string // hex
	Bytes  int64

	Attempt int       // set by the store
	Time    time.Time // UTC; set by the store
}

// Table is a small table of text, such as the parameter accounting.
type Table struct {
	Step    int64
	Name    string
	Columns []string
	Rows    [][]string // each as long as Columns; cells keep any bytes

	Attempt int       // set by the store
	Time    time.Time // UTC; set by the store
}
