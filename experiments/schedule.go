package experiments

import "math"

// recordsPerRun bounds how often the means of training are recorded.
const recordsPerRun = 2000

// schedule says after which steps something happens. It depends on the spec and
// the budget alone, so that a resumed run does everything at the same steps.
type schedule struct {
	total                                             int64
	recordEvery, validateEvery, probeEvery, saveEvery int64
}

func newSchedule(s *Spec, total int64) schedule {
	record := max(1, total/recordsPerRun)
	// Whole records lie between two evaluations or checkpoints: a resume then
	// records what an undisturbed run does.
	every := func(share float64) int64 {
		return max(1, int64(math.Round(share*float64(total)/float64(record)))) * record
	}
	return schedule{total: total,
		recordEvery:   record,
		validateEvery: every(s.Train.ValidateEvery),
		probeEvery:    every(s.Probes.Every),
		saveEvery:     every(s.Train.CheckpointEvery)}
}

func (s schedule) at(step, every int64) bool { return step%every == 0 || step == s.total }

func (s schedule) record(step int64) bool { return s.at(step, s.recordEvery) }

// validate is due whenever a probe is, so that a score stands beside the
// validation loss of its own step.
func (s schedule) validate(step int64) bool {
	return s.at(step, s.validateEvery) || s.probe(step)
}

func (s schedule) probe(step int64) bool { return s.at(step, s.probeEvery) }

func (s schedule) checkpoint(step int64) bool { return s.at(step, s.saveEvery) }
