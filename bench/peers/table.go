package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// printTables joins the lines of both programs: of every shape's result the
// fastest of all rounds, the product of alternating runs.
func printTables(in io.Reader, out io.Writer) error {
	lines, err := fastestLines(in)
	if err != nil {
		return err
	}
	const legend = "GFLOP/s (of the fp32 peak measured in the same process); x: over oneDNN's fp32"
	printTable(out, "All work on operands counted in ours. "+legend, lines, func(r result) float64 { return r.Rate })
	printTable(out, "B packed beforehand in ours too. "+legend, lines, func(r result) float64 { return r.PackedRate })
	return nil
}

// joined is one shape's line per peer, in the order in which shapes and peers first came.
type joined struct {
	shapes []shape
	peers  []string
	lines  map[shape]map[string]*line
}

func fastestLines(in io.Reader) (joined, error) {
	j := joined{lines: map[shape]map[string]*line{}}
	seen := map[string]bool{}
	for d := json.NewDecoder(in); ; {
		var l line
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return j, nil
		} else if err != nil {
			return j, fmt.Errorf("read lines: %w", err)
		}
		if !seen[l.Peer] {
			seen[l.Peer] = true
			j.peers = append(j.peers, l.Peer)
		}
		if j.lines[l.shape] == nil {
			j.lines[l.shape] = map[string]*line{}
			j.shapes = append(j.shapes, l.shape)
		}
		before := j.lines[l.shape][l.Peer]
		if before == nil {
			j.lines[l.shape][l.Peer] = &l
			continue
		}
		for name, r := range l.Results {
			best := before.Results[name]
			if r.Rate > best.Rate {
				best.Rate, best.Way = r.Rate, r.Way
			}
			best.PackedRate = max(best.PackedRate, r.PackedRate)
			best.Peak = max(best.Peak, r.Peak)
			before.Results[name] = best
		}
		before.Peaks["f32"] = max(before.Peaks["f32"], l.Peaks["f32"])
	}
}

// columns are the arithmetics of oneDNN and the kernel sets of ours, in the order
// of the table.
func columns() []struct{ key, title string } {
	return []struct{ key, title string }{
		{"f32", "oneDNN f32"}, {"bf16", "oneDNN bf16"}, {"u8s8", "oneDNN u8s8"},
		{"avx512", "avx512"}, {"vnni16", "vnni16"}, {"avx512bf16", "avx512bf16"}, {"amx", "amx"}, {"avx2", "avx2"},
	}
}

func printTable(out io.Writer, title string, j joined, rateOfOurs func(result) float64) {
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleLight)
	header := table.Row{"(M,K,N)"}
	for _, c := range columns() {
		header = append(header, c.title)
	}
	t.AppendHeader(header)
	for _, s := range j.shapes {
		row := table.Row{fmt.Sprintf("%s %d,%d,%d", s.Form, s.M, s.K, s.N)}
		base := 0.0
		for peer, l := range j.lines[s] {
			if peer != ours {
				base = l.Results["f32"].Rate
			}
		}
		for _, c := range columns() {
			cell := ""
			for peer, l := range j.lines[s] {
				r, has := l.Results[c.key]
				if !has {
					continue
				}
				rate := r.Rate
				if peer == ours {
					rate = rateOfOurs(r)
				}
				cell = fmt.Sprintf("%.1f (%.2f)", rate, rate/l.Peaks["f32"])
				if peer == ours && base > 0 {
					cell += fmt.Sprintf(" %.2fx", rate/base)
				}
			}
			row = append(row, cell)
		}
		t.AppendRow(row)
	}
	t.SuppressEmptyColumns()
	fmt.Fprintln(out, title+" ("+strings.Join(j.peers, ", ")+")")
	t.Render()
}
