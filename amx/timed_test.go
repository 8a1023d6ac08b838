package amx

import (
	"testing"
	"time"
)

// TestTimedIsTransparent: every operation gives the same bits through the clock,
// and is booked under its own name.
func TestTimedIsTransparent(t *testing.T) {
	k, err := Select("portable")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	timed, profile := Timed(k, func() time.Duration { return time.Since(start) })
	ops := append(append(rowOperations(7, 61, 3), gemmForms(33, 70, 300, 1)...), mixerOperations(20, 90, 1)...)
	for _, op := range ops {
		profile.Reset()
		want, got := runOperation(k, op, 3, nil), runOperation(timed, op, 3, nil)
		for i := range want {
			for e := range want[i].shape.rows * want[i].shape.width {
				if want[i].at(e) != got[i].at(e) {
					t.Fatalf("%s, operand %d: element %d is %v, timed %v", op.name, i, e, want[i].at(e), got[i].at(e))
				}
			}
		}
		work := profile.Work()
		if len(work) == 0 || !contains(op.name, work[len(work)-1].Op) {
			t.Fatalf("%s is booked as %+v", op.name, work)
		}
		for _, w := range work {
			if w.Calls != 1 || w.Bytes <= 0 || w.Span <= 0 || w.Op != "Pack" && w.FLOP <= 0 {
				t.Errorf("%s: %+v", op.name, w)
			}
		}
	}
}

// contains: the operation's name starts with the field's, a packed Gemm's too.
func contains(name, op string) bool {
	if op == "GemmPacked" {
		op = "Gemm"
	}
	return len(name) >= len(op) && name[:len(op)] == op
}

func TestProfileByHand(t *testing.T) {
	now := time.Duration(0)
	timed, profile := Timed(Reference(), func() time.Duration { now += time.Microsecond; return now })
	a, b, c := make([]float32, 6), make([]float32, 12), make([]float32, 8)
	timed.Gemm(NN, 2, 4, 3, a, 3, b, 4, nil, c, 4)
	timed.Gemm(NN, 2, 4, 3, a, 3, b, 4, c, c, 4)
	timed.Gemm(NT, 2, 4, 3, a, 3, b, 3, nil, c, 4)
	work := profile.Work()
	// 2*2*4*3 operations; 6 + 12 floats read and 8 written, the second time read too.
	want := Work{Op: "Gemm", Trans: NN, M: 2, N: 4, K: 3, Calls: 2, Time: 2 * time.Microsecond, FLOP: 96, Bytes: 4 * (26 + 34), Span: 4 * 26}
	if len(work) != 2 || work[0] != want || work[1].Trans != NT {
		t.Errorf("got %+v, want %+v and an NT", work, want)
	}
	p, g := make([]float32, 10), make([]float32, 10)
	timed.AdamW(p, g, make([]float32, 10), make([]float32, 10), AdamWStep{})
	timed.AdamW(p, g, make([]float32, 10), make([]float32, 10), AdamWStep{})
	if w := profile.Work()[2]; w.Span != 2*4*40 || w.Bytes != 2*4*70 {
		t.Errorf("two updates of 10 parameters: %+v", w)
	}
	profile.Reset()
	if left := profile.Work(); len(left) != 0 {
		t.Errorf("after Reset: %+v", left)
	}
	if n := testing.AllocsPerRun(10, func() { timed.Gemm(NN, 2, 4, 3, a, 3, b, 4, nil, c, 4) }); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
}
