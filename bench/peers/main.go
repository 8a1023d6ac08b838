// Command peers times this module's matrix products at given shapes, in the way
// ../onednn times oneDNN's, and joins the lines of both into a table. It is a
// benchmark beside the product: nothing imports it.
//
//	peers NN:2048,256,1280 TN:256,4096,640    a line of JSON per shape
//	peers -table < lines                      both programs' lines as tables
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"harness/amx"
)

func main() {
	table := flag.Bool("table", false, "read both programs' lines from standard input and print them as tables")
	sets := flag.String("sets", "", "kernel sets to time, separated by commas (default: all that this CPU runs, without the scalar ones)")
	flag.Parse()
	var err error
	if *table {
		err = printTables(os.Stdin, os.Stdout)
	} else {
		err = printLines(flag.Args(), *sets)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// line is what both programs print about one shape.
type line struct {
	Peer string `json:"peer"` // "oneDNN 2.6.3", or ours
	shape
	Peaks   map[string]float64 `json:"peaks"`   // rate on registers, by arithmetic
	Results map[string]result  `json:"results"` // by arithmetic (oneDNN) or kernel set (ours)
}

// ours is the Peer of this module's lines.
const ours = "harness"

type result struct {
	Rate float64 `json:"rate"` // GFLOP/s: 2MKN over the fastest call, all work on operands counted
	// PackedRate is the rate with B packed beforehand. Ours only: oneDNN's Rate is
	// that of its fastest way, whichever it is.
	PackedRate float64 `json:"packed_rate,omitempty"`
	Peak       float64 `json:"peak"` // of the arithmetic (oneDNN), of fp32 (ours)
	Way        string  `json:"way,omitempty"`
}

// shape is one product C = op(A).op(B).
type shape struct {
	Form string `json:"form"` // NN, NT (B is stored [N,K]) or TN (A is stored [K,M])
	M    int    `json:"m"`
	K    int    `json:"k"`
	N    int    `json:"n"`
}

var forms = map[string]amx.Trans{"NN": amx.NN, "NT": amx.NT, "TN": amx.TN}

// argument is s as the command line spells it.
func (s shape) argument() string { return fmt.Sprintf("%s:%d,%d,%d", s.Form, s.M, s.K, s.N) }

func parseShape(argument string) (shape, error) {
	form, sizes, _ := strings.Cut(argument, ":")
	s := shape{Form: form}
	var rest string
	n, _ := fmt.Sscanf(sizes+" .", "%d,%d,%d %s", &s.M, &s.K, &s.N, &rest)
	if _, known := forms[form]; !known || n != 4 || rest != "." || min(s.M, s.K, s.N) < 1 {
		return s, fmt.Errorf("%q is not a shape; write NN:M,K,N, NT:M,K,N or TN:M,K,N", argument)
	}
	return s, nil
}

func printLines(arguments []string, names string) error {
	var sets []amx.Set
	for _, s := range amx.Sets() {
		wanted := s.Name != "reference" && s.Name != "portable"
		if names != "" {
			wanted = slices.Contains(strings.Split(names, ","), s.Name)
		}
		if wanted && s.Available() {
			sets = append(sets, s)
		}
	}
	if len(sets) == 0 {
		return fmt.Errorf("no kernel set to time: this CPU or build runs none of those wanted")
	}
	for _, argument := range arguments {
		s, err := parseShape(argument)
		if err != nil {
			return err
		}
		l := line{Peer: ours, shape: s, Peaks: map[string]float64{}, Results: map[string]result{}}
		for _, set := range sets {
			r, err := timeSet(set, s)
			if err != nil {
				return fmt.Errorf("%s at %s: %w", set.Name, argument, err)
			}
			l.Results[set.Name] = r
			l.Peaks["f32"] = max(l.Peaks["f32"], r.Peak)
		}
		if err := json.NewEncoder(os.Stdout).Encode(l); err != nil {
			return err
		}
	}
	return nil
}
