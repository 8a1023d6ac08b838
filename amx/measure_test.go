package amx

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRatesAreOfTheBestBurst(t *testing.T) {
	sorted := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 100}
	m := rate(Measurement{}, 36e9, sorted)
	if m.Value != 36 || m.High != 36 || m.Low != 4 || math.Abs(m.Median-36/5.5) > 1e-12 || m.N != 10 {
		t.Errorf("rate: %+v", m)
	}
	if m = microseconds(Measurement{}, sorted); m.Value != 1e6 || m.Low != 1e6 || m.High != 9e6 || m.Median != 5.5e6 || m.Unit != "us" {
		t.Errorf("time: %+v", m)
	}
	for _, one := range [][]float64{{3}, {3, 3}} {
		if m = rate(Measurement{}, 3e9, one); m.Low != 1 || m.Value != 1 || m.Median != 1 {
			t.Errorf("%d bursts: %+v", len(one), m)
		}
	}
}

func TestSamplingFillsBurstsAndHearsOfTheEnd(t *testing.T) {
	calls := 0
	spin := 0.0
	times, err := sampling{least: 30, length: 20 * time.Microsecond}.times(t.Context(), func() {
		for range 1000 {
			spin = spin*0.5 + 1
		}
		calls++
	})
	if err != nil || len(times) != 30 || calls < 31 || !slices.IsSorted(times) {
		t.Errorf("%d bursts of %d calls: %v", len(times), calls, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (sampling{least: 3}).times(ctx, func() {}); !errors.Is(err, context.Canceled) {
		t.Errorf("times: %v", err)
	}
	if _, err := (sampling{least: 3}).timesAfter(ctx, func() {}, func() {}); !errors.Is(err, context.Canceled) {
		t.Errorf("timesAfter: %v", err)
	}
}

// sound checks what every measurement promises, whatever the machine is.
func sound(t *testing.T, group string, all []Measurement) {
	t.Helper()
	seen := map[string]bool{}
	for _, m := range all {
		if m.Group != group || m.Name == "" || m.Unit == "" || m.N < 1 || seen[m.Name] {
			t.Errorf("incomplete or twice: %+v", m)
		}
		seen[m.Name] = true
		for _, v := range []float64{m.Value, m.Low, m.High, m.Median} {
			if !(v > 0) || math.IsInf(v, 0) {
				t.Errorf("%v in %+v", v, m)
			}
		}
		if m.Low > m.Value || m.Value > m.High || m.Low > m.Median || m.Median > m.High {
			t.Errorf("out of order: %+v", m)
		}
	}
}

func TestMeasurements(t *testing.T) {
	ctx, quick := t.Context(), Effort{Quick: true}
	frequency, err := MeasureFrequency(ctx, quick)
	if err != nil {
		t.Fatal(err)
	}
	sound(t, GroupFrequency, frequency)
	peaks, err := MeasurePeaks(ctx, quick)
	if err != nil || len(peaks) == 0 || peaks[0].Name != "fp32" {
		t.Fatalf("%+v: %v", peaks, err)
	}
	sound(t, GroupPeak, peaks)
	bandwidth, err := MeasureBandwidth(ctx, quick, []Cache{{1, "data", 16 * kib, 1, ""}, {2, "unified", 64 * kib, 1, ""}})
	if err != nil || len(bandwidth) < 2 {
		t.Fatalf("%+v: %v", bandwidth, err)
	}
	sound(t, GroupBandwidth, bandwidth)
	sets := []Set{Sets()[len(Sets())-2]} // portable
	dispatch, err := MeasureDispatch(ctx, quick, sets)
	if err != nil || len(dispatch) != 2 || !strings.Contains(dispatch[0].Name, "portable") {
		t.Fatalf("%+v: %v", dispatch, err)
	}
	sound(t, GroupDispatch, dispatch)
	products := []Product{{NN, 3, 5, 7, 11, "a"}, {NT, 3, 5, 7, 0, "b"}, {TN, 3, 5, 7, 11, "c"}}
	var told []int
	gemms, err := MeasureGemm(ctx, quick, sets, products, func(i int) { told = append(told, i) })
	if err != nil || len(gemms) != 3 || !slices.Equal(told, []int{0, 1, 2}) {
		t.Fatalf("%+v, told %v: %v", gemms, told, err)
	}
	sound(t, GroupGemm, gemms)
	for _, key := range []string{"set", "arithmetic", "trans", "m", "k", "n", "of_peak", "packed", "peak", "where"} {
		if gemms[0].Detail[key] == "" {
			t.Errorf("no %s in %v", key, gemms[0].Detail)
		}
	}
	if c, err := MeasureContention(ctx); err != nil || !(c.Share > 0 && c.Share <= 1 && c.Steady > 0 && c.Steady <= 1) {
		t.Errorf("%+v: %v", c, err)
	}
	if slower, err := MeasureDenormals(ctx); err != nil || !(slower > 0) || math.IsInf(slower, 0) {
		t.Errorf("%v: %v", slower, err)
	}
}

func TestMeasuringEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	told := 0
	_, err := MeasureMachine(ctx, Effort{Quick: true}, -1, []Set{Sets()[len(Sets())-2]}, func(done, total int) {
		if told++; done == 3 {
			cancel()
		}
		if done > total || total != len(Products())+4 {
			t.Errorf("%d of %d", done, total)
		}
	})
	if !errors.Is(err, context.Canceled) || told != 4 {
		t.Errorf("after %d steps: %v", told, err)
	}
}

// What a format's instructions reach is one measurement, of the fastest.
func TestFastestInstructionStandsForItsFormat(t *testing.T) {
	m := func(name, instruction string, value float64) Measurement {
		return Measurement{Name: name, Value: value, Detail: map[string]string{"instruction": instruction}}
	}
	got := fastestOfEach([]Measurement{m("fp32", "zmm", 100), m("fp32", "ymm", 110), m("bf16", "zmm", 50), m("bf16", "ymm", 40)})
	if len(got) != 2 || got[0].Value != 110 || got[0].Detail["zmm"] != "100.0" || got[1].Value != 50 || got[1].Detail["ymm"] != "40.0" {
		t.Errorf("%+v", got)
	}
}

func TestBuffersFitTheirLevels(t *testing.T) {
	caches := func(l1, l2, l3 int64, shared int) []Cache {
		return []Cache{{1, "instruction", 7, 1, ""}, {1, "data", l1, 1, ""}, {2, "unified", l2, 1, ""}, {3, "unified", l3, shared, ""}}
	}
	for _, c := range []struct {
		name      string
		caches    []Cache
		available int64
		want      []level
	}{
		{"two cores of a server", caches(32*kib, mib, 32*mib, 2), 0, []level{{"L1", 16 * kib}, {"L2", 512 * kib}, {"L3", 8 * mib}, {"DRAM", 128 * mib}}},
		{"a socket's cache", caches(48*kib, 2*mib, 260*mib, 1), 0, []level{{"L1", 24 * kib}, {"L2", mib}, {"L3", 16 * mib}, {"DRAM", 512 * mib}}},
		{"a small share", caches(32*kib, mib, 32*mib, 64), 0, []level{{"L1", 16 * kib}, {"L2", 512 * kib}, {"L3", 2 * mib}, {"DRAM", 128 * mib}}},
		{"no L3", caches(32*kib, mib, 32*mib, 1)[:3], 0, []level{{"L1", 16 * kib}, {"L2", 512 * kib}, {"DRAM", 64 * mib}}},
		{"nothing known", nil, 0, []level{{"L1", 16 * kib}, {"L2", 512 * kib}, {"DRAM", 64 * mib}}},
		{"little memory", caches(32*kib, mib, 32*mib, 2), 100 * mib, []level{{"L1", 16 * kib}, {"L2", 512 * kib}, {"L3", 8 * mib}}},
	} {
		if got := levels(c.caches, c.available); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
