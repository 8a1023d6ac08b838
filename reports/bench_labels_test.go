package reports

import (
	"math"
	"slices"
	"strings"
	"testing"

	"harness/runs"
)

// crowdedBench has two peaks a few per cent apart and a dot where a slope's label would be.
func crowdedBench() runs.Bench {
	b := machineBench()
	for i := range b.Results {
		if m := &b.Results[i]; m.Group == runs.GroupPeak && m.Name == "bf16" {
			m.Value = 216
		}
	}
	b.Results = append(b.Results, gemmOf("avx512", "fp32", "NN", [3]int{1, 256, 1280}, 46, 118), gemmOf("vnni16", "int16", "NN", [3]int{1, 256, 1280}, 24, 236))
	return b
}

func TestLabelsOfThePlotLieOnNothing(t *testing.T) {
	r := newBenchPage(crowdedBench()).Plot
	for _, d := range []RooflineDrawing{r.draw("wide", wideWidth, wideHeight), r.draw("narrow", 370, 340)} {
		f := r.frame(d.Width, d.Height)
		var roofs []string
		for i, text := range d.Texts {
			if !strings.HasPrefix(text.Class, "limit") {
				continue
			}
			if !text.Turned {
				roofs = append(roofs, text.Text)
				for _, other := range d.Texts[i+1:] {
					if strings.HasPrefix(other.Class, "limit") && !other.Turned && math.Abs(text.Y-other.Y) < 11 {
						t.Errorf("%s: %q lies on %q", d.Size, text.Text, other.Text)
					}
				}
				continue
			}
			for _, set := range r.Sets {
				for _, dot := range set.Dots {
					dx, dy := f.x(dot.X)-text.X, f.y(dot.Y)-text.Y
					sin, cos := math.Sincos(text.Turn * math.Pi / 180)
					along, across := dx*cos+dy*sin, dy*cos-dx*sin
					if math.Abs(along) < 3*float64(len(text.Text)) && across > -12 && across < 3 {
						t.Errorf("%s: %q lies on the dot %s", d.Size, text.Text, dot.Text)
					}
				}
			}
		}
		if want := []string{"int8 473", "int16 236, bf16 216", "fp32 118"}; !slices.Equal(roofs, want) {
			t.Errorf("%s: the roofs are %q, want %q", d.Size, roofs, want)
		}
	}
}

func TestFiguresSayWhatTheyAre(t *testing.T) {
	b := machineBench()
	b.Provenance["kernels"], b.Provenance["kernels_choice"] = "vnni16", "vnni16 (measured: vnni16 212, avx512 111 GOP/s)"
	for i := range b.Results {
		switch m := &b.Results[i]; m.Group {
		case runs.GroupDispatch:
			m.Unit = "us"
		case runs.GroupGemm:
			m.Detail["peak"] = "240.0"
		}
	}
	page := renderBench(t, b, Assets{})
	text := textOf(parsePage(t, page))
	for _, want := range []string{"vnni16 measured: vnni16 212, avx512 111 GOP/s", "0.21 µs", "89.8% of 240"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(text, " us ") {
		t.Error("the page says us")
	}
	if b.Provenance["kernels_choice"] = "vnni16"; choiceNote(b.Provenance) != "" {
		t.Error("a set that somebody named has a reason")
	}
	if step := cells(t, renderBench(t, trainBench(), Assets{}), "step", runs.TrainThroughput); step[2] != "median of the steps" {
		t.Errorf("the throughput is %q", step)
	}
}
