package runs

import (
	"reflect"
	"testing"
)

func TestAResumeReplacesWhatItWritesAgainAtItsFirstStep(t *testing.T) {
	s := open(t, t.TempDir())
	run := create(t, s, "resumed at the end")
	write := func(from, step int64, text string, whole bool) {
		rec := begin(t, s, run.ID, from)
		value := float64(len(text))
		rec.Table(Table{Step: step, Name: "parameters", Columns: []string{text}})
		rec.Metric("validation/loss", step, step, value)
		rec.Metric("validation/loss", step, step, value+0.5) // many values at one step stay
		rec.Score(Score{Step: step, Name: "shift", Value: value})
		rec.Generation(Generation{Step: step, Index: 0, Text: text})
		rec.Artifact(Artifact{Step: step, Kind: "checkpoint", Path: "a", SHA256: text})
		if whole { // what the later attempts do not write again
			rec.Table(Table{Step: step, Name: "corpus", Columns: []string{text}})
			rec.Metric("train/loss", step, step, value)
			rec.Score(Score{Step: step, Name: "copy", Value: value})
			rec.Score(Score{Step: step, Name: "shift at another step", Value: value})
			rec.Generation(Generation{Step: step, Index: 1, Text: text})
			rec.Artifact(Artifact{Step: step, Kind: "checkpoint", Path: "b", SHA256: text})
			rec.Artifact(Artifact{Step: step, Kind: "best", Path: "a", SHA256: text})
		}
		finish(t, rec, Interrupted)
	}
	for _, step := range []int64{0, 9} {
		write(0, step, "old", true)
		write(step, step, "newer", false)
		write(step, step, "the newest", false)

		got := map[string][]int{}
		tell := func(of int64, what string, attempt int) {
			if of == step {
				got[what] = append(got[what], attempt)
			}
		}
		for _, one := range must[[]Series](t)(s.Series(t.Context(), run.ID)) {
			for _, p := range one.Points {
				tell(p.Step, one.Name, p.Attempt)
			}
		}
		for _, v := range must[[]Score](t)(s.Scores(t.Context(), run.ID)) {
			tell(v.Step, "score "+v.Name, v.Attempt)
		}
		for _, g := range must[[]Generation](t)(s.Generations(t.Context(), run.ID)) {
			tell(g.Step, map[int]string{0: "prompt 0", 1: "prompt 1"}[g.Index], g.Attempt)
		}
		for _, f := range must[[]Artifact](t)(s.Artifacts(t.Context(), run.ID)) {
			tell(f.Step, f.Kind+" "+f.Path, f.Attempt)
		}
		for _, v := range must[[]Table](t)(s.Tables(t.Context(), run.ID)) {
			tell(v.Step, "table "+v.Name, v.Attempt)
		}
		first := must[Run](t)(s.Find(t.Context(), run.ID)).Attempts
		old, newest := len(first)-2, len(first)
		want := map[string][]int{
			"validation/loss": {newest, newest}, "train/loss": {old},
			"score shift": {newest}, "score copy": {old}, "score shift at another step": {old},
			"prompt 0": {newest}, "prompt 1": {old},
			"checkpoint a": {newest}, "checkpoint b": {old}, "best a": {old},
			"table parameters": {newest}, "table corpus": {old},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("step %d: in view of attempts\n%v, want\n%v", step, got, want)
		}
		var stored int
		if err := s.db.QueryRow(`SELECT count(*) FROM scores WHERE step = ?`, step).Scan(&stored); err != nil || stored != 5 {
			t.Errorf("%d scores stored (%v), want all 5", stored, err)
		}
	}
}

func TestLastIsTheEndOfEverySeries(t *testing.T) {
	s := open(t, t.TempDir())
	other := begin(t, s, create(t, s, "another run").ID, 0)
	other.Metric("loss", 1000, 1000, 1000)
	finish(t, other, Finished)
	run := create(t, s, "resumed")
	if last := must[map[string]Point](t)(s.Last(t.Context(), run.ID)); len(last) != 0 {
		t.Errorf("of a run without attempts: %v", last)
	}
	write := func(from, to int64, names ...string) {
		rec := begin(t, s, run.ID, from)
		for step := from; step <= to; step++ {
			for i, name := range names {
				rec.Metric(name, step, 10*step, float64(i)+float64(step)/100)
				rec.Metric(name, step, 10*step, float64(i)+float64(step)/200)
			}
		}
		if from == 0 {
			rec.Metric("of the replaced tail alone", to, 0, 1)
		}
		rec.Metric("out of order", to, 0, 1)
		rec.Metric("out of order", to-1, 0, 2)
		finish(t, rec, Interrupted)
	}
	write(0, 20, "loss", "", "損失", "a\x00b", "\xff", "early")
	write(10, 15, "loss", "late", "損失")
	write(12, 12, "loss")
	write(12, 11, "loss") // nothing but points below where it started from

	want := map[string]Point{}
	for _, one := range must[[]Series](t)(s.Series(t.Context(), run.ID)) {
		want[one.Name] = one.Points[len(one.Points)-1]
	}
	got := must[map[string]Point](t)(s.Last(t.Context(), run.ID))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("last points\n%+v, want\n%+v", got, want)
	}
	if len(want) != 8 || want["loss"].Attempt != 3 || want["late"].Step != 12 || want["early"].Attempt != 1 {
		t.Errorf("the series end in %+v", want)
	}
}
