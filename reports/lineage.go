package reports

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"harness/runs"
)

// Lineage is how a run's experts descend from one another: generations from the start
// through every growth step. It is the same in every mixture of the model.
type Lineage struct {
	Growths     []Growth // one fewer than there are generations
	Generations [][]Expert
	Order       []int          // of the last generation, such that children stand below their parents
	Loads       []ExpertLoads  // of the last generation, by layer; none where they are not known
	LoadStep    int64          // of Loads
	columns     map[[2]int]int // first column of an expert, by generation and index
}

// Growth is one growth step.
type Growth struct {
	Step, Tokens   int64
	Method, Jitter string
	Before, After  int
}

// Expert is one expert of a generation.
type Expert struct {
	Parent int // index in the generation before; -1 for one of the first generation, or that was added
	Width  int // experts of the last generation that descend from it, itself if it is one of them
}

// ExpertLoads are the loads of a mixture's experts, in multiples of an equal share.
type ExpertLoads struct {
	Layer string
	Of    []float64
}

// newLineage reads the tables that the growth steps left and the newest loads. It is nil
// where they say nothing about experts, or contradict each other: the tables are shown
// in any case.
func newLineage(tables []runs.Table, tokensAt func(step int64) int64) *Lineage {
	l := &Lineage{}
	for _, t := range tables { // by step
		if t.Name != lineageTable {
			continue
		}
		for _, row := range t.Rows {
			if !l.grow(t, row, tokensAt) {
				return nil
			}
		}
	}
	l.load(tables)
	if len(l.Generations) == 0 {
		if len(l.Loads) == 0 {
			return nil
		}
		l.begin(len(l.Loads[0].Of))
	}
	last := len(l.Generations[len(l.Generations)-1])
	// Loads from before a growth say nothing of the experts after it.
	l.Loads = slices.DeleteFunc(l.Loads, func(e ExpertLoads) bool { return len(e.Of) != last })
	l.arrange()
	return l
}

func (l *Lineage) begin(experts int) {
	generation := make([]Expert, experts)
	for i := range generation {
		generation[i].Parent = -1
	}
	l.Generations = append(l.Generations, generation)
}

// maxExperts bounds what a table may claim.
const maxExperts = 4096

// grow adds a generation; ok is false where the row makes no sense.
func (l *Lineage) grow(t runs.Table, row []string, tokensAt func(step int64) int64) (ok bool) {
	cell := func(name string) string {
		if i := slices.Index(t.Columns, name); i >= 0 && i < len(row) {
			return row[i]
		}
		return ""
	}
	g := Growth{Step: t.Step, Tokens: tokensAt(t.Step), Method: cell("method"), Jitter: cell("jitter")}
	for name, into := range map[string]*int{"experts before": &g.Before, "experts after": &g.After} {
		n, err := strconv.Atoi(strings.ReplaceAll(cell(name), ",", ""))
		if err != nil || n < 1 || n > maxExperts {
			return false
		}
		*into = n
	}
	if len(l.Generations) == 0 {
		l.begin(g.Before)
	}
	parents := strings.Fields(cell("parents"))
	old := g.After - len(parents) // experts that a growth does not list are still what they were
	if g.Before != len(l.Generations[len(l.Generations)-1]) || old != 0 && old != g.Before {
		return false
	}
	generation := make([]Expert, g.After)
	for i := range generation {
		if i < old {
			generation[i].Parent = i
			continue
		}
		parent, err := strconv.Atoi(parents[i-old])
		switch {
		case parents[i-old] == "-":
			parent = -1
		case err != nil || parent < 0 || parent >= g.Before:
			return false
		}
		generation[i].Parent = parent
	}
	l.Growths, l.Generations = append(l.Growths, g), append(l.Generations, generation)
	return true
}

// load takes the newest table of loads.
func (l *Lineage) load(tables []runs.Table) {
	for _, t := range tables { // by step
		layer, expert, load := slices.Index(t.Columns, "layer"), slices.Index(t.Columns, "expert"), slices.Index(t.Columns, "load")
		if t.Name != loadTable || layer < 0 || expert < 0 || load < 0 {
			continue
		}
		l.Loads, l.LoadStep = nil, t.Step
		for _, row := range t.Rows {
			if len(row) <= max(layer, expert, load) {
				continue
			}
			v, isNumber := cellNumber(row[load])
			n, err := strconv.Atoi(row[expert])
			if !isNumber || err != nil {
				continue
			}
			i := slices.IndexFunc(l.Loads, func(e ExpertLoads) bool { return e.Layer == row[layer] })
			if i < 0 {
				i = len(l.Loads)
				l.Loads = append(l.Loads, ExpertLoads{Layer: row[layer]})
			}
			if n == len(l.Loads[i].Of) { // in order, none left out
				l.Loads[i].Of = append(l.Loads[i].Of, v)
			}
		}
	}
	slices.SortStableFunc(l.Loads, func(a, b ExpertLoads) int { return compareNames(a.Layer, b.Layer) })
}

// arrange gives every expert its columns: those of its descendants side by side, in the
// order of their ancestors and then of their own numbers.
func (l *Lineage) arrange() {
	last := len(l.Generations) - 1
	places := make([][]int, len(l.Generations)) // of every expert in its generation's order
	for g, generation := range l.Generations {
		order := make([]int, len(generation))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			before := func(i int) int {
				if p := generation[i].Parent; p >= 0 {
					return places[g-1][p]
				}
				return maxExperts // what was added stands behind all others
			}
			return cmp.Compare(before(a), before(b))
		})
		places[g] = make([]int, len(generation))
		for place, i := range order {
			places[g][i] = place
		}
		l.Order = order
	}
	l.columns = map[[2]int]int{}
	for column, i := range l.Order {
		for g := last; i >= 0; g-- {
			e := &l.Generations[g][i]
			if e.Width == 0 {
				l.columns[[2]int{g, i}] = column
			}
			e.Width++
			i = e.Parent
		}
	}
}

// Ancestors names an expert of the last generation by the line it descends in, the
// oldest first: "2 → 5 → 11".
func (l *Lineage) Ancestors(expert int) string {
	var line []string
	for g := len(l.Generations) - 1; expert >= 0; g-- {
		line = append(line, strconv.Itoa(expert))
		expert = l.Generations[g][expert].Parent
	}
	slices.Reverse(line)
	return strings.Join(line, " → ")
}

// layerName names a mixture by its layer.
func layerName(layer string) string {
	if _, err := strconv.Atoi(layer); err == nil {
		return "layer " + layer
	}
	return layer
}

// expertsAfter is how many experts a growth at a step led to, "" where no table says.
func expertsAfter(tables []runs.Table, step int64) string {
	for _, t := range tables {
		i := slices.Index(t.Columns, "experts after")
		if t.Name == lineageTable && t.Step == step && i >= 0 && len(t.Rows) > 0 && i < len(t.Rows[0]) {
			return t.Rows[0][i]
		}
	}
	return ""
}
