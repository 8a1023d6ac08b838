package runs

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestCreateKeepsWhatItIsGiven(t *testing.T) {
	s := open(t, t.TempDir())
	in := NewRun{Name: "moe: 128 experts", Notes: "why\nnot", Tags: []string{"b", "a", "b"}, Spec: "name: x\n", SpecHash: "abc",
		Seed: 1 << 60, Provenance: map[string]string{"cpu": "fast", "": "odd"}}
	run := must[Run](t)(s.Create(t.Context(), in))
	again := must[Run](t)(s.Find(t.Context(), strings.ToLower(run.ID)))
	if !reflect.DeepEqual(run, again) {
		t.Errorf("created %+v, found %+v", run, again)
	}
	if run.Name != in.Name || run.Notes != in.Notes || run.Spec != in.Spec || run.SpecHash != "abc" || run.Seed != in.Seed ||
		!reflect.DeepEqual(run.Tags, []string{"a", "b"}) || !reflect.DeepEqual(run.Provenance, in.Provenance) || run.State != Pending {
		t.Errorf("run: %+v", run)
	}
	if age := time.Since(run.Created); age < 0 || age > time.Minute || run.Created.Location() != time.UTC {
		t.Errorf("created %v", run.Created)
	}
}

func TestNoNotesAreNULL(t *testing.T) {
	s := open(t, t.TempDir())
	create(t, s, "silent")
	must[Run](t)(s.Create(t.Context(), NewRun{Name: "spoken", Notes: " "}))
	var missing string
	if err := s.db.QueryRow(`SELECT group_concat(name) FROM runs WHERE notes IS NULL`).Scan(&missing); err != nil || missing != "silent" {
		t.Errorf("without notes: %s (%v), want silent alone", missing, err)
	}
}

func TestFind(t *testing.T) {
	s := open(t, t.TempDir())
	if _, err := s.Find(t.Context(), "latest"); !errors.Is(err, ErrNotFound) {
		t.Errorf("latest of an empty store: %v", err)
	}
	// Ids half a minute apart share a prefix shorter than those of one moment.
	moment := time.Now()
	s.now = func() time.Time { moment = moment.Add(40 * time.Second); return moment }
	first := create(t, s, "quickstart")
	second := create(t, s, "quickstart")
	third := create(t, s, "release-dense")
	common := 0
	for first.ID[common] == third.ID[common] {
		common++
	}
	unique := func(r, other Run) string {
		n := 0
		for r.ID[n] == other.ID[n] {
			n++
		}
		return r.ID[:n+1]
	}
	for ref, want := range map[string]Run{
		"latest":                       third,
		first.ID:                       first,
		strings.ToLower(second.ID):     second,
		"quickstart":                   second,
		"release-dense":                third,
		unique(third, second):          third,
		first.ID[:len(first.ID)-10]:    first,
		strings.ToLower(third.ID[:25]): third,
	} {
		if got, err := s.Find(t.Context(), ref); err != nil || got.ID != want.ID {
			t.Errorf("Find(%q) = %s (%v), want %s", ref, got.ID, err, want.ID)
		}
	}
	if _, err := s.Find(t.Context(), first.ID[:common]); !errors.Is(err, ErrAmbiguous) ||
		!strings.Contains(err.Error(), first.ID) || !strings.Contains(err.Error(), third.ID) {
		t.Errorf("a common prefix: %v, want ErrAmbiguous that lists the runs", err)
	}
	for ref, hint := range map[string]string{"quikstart": second.ID, "dense": third.ID, "Release-Dense": third.ID} {
		if _, err := s.Find(t.Context(), ref); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), hint) {
			t.Errorf("Find(%q): %v, want ErrNotFound near %s", ref, err, hint)
		}
	}
	for _, ref := range []string{"", "zzzzzzzzz", "*", "%"} {
		if _, err := s.Find(t.Context(), ref); !errors.Is(err, ErrNotFound) || strings.Contains(err.Error(), "near") {
			t.Errorf("Find(%q): %v, want ErrNotFound without candidates", ref, err)
		}
	}
	if all := must[[]Run](t)(s.Runs(t.Context())); len(all) != 3 || all[0].ID != third.ID || all[2].ID != first.ID {
		t.Errorf("runs are not newest first: %v", all)
	}
}
