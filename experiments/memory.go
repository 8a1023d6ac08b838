package experiments

import (
	"bufio"
	"fmt"
	"os"

	"github.com/dustin/go-humanize"
)

// checkMemory refuses a model that this machine cannot hold, before anything is
// allocated: the runtime would end with a trace, after growth hours into a run.
func checkMemory(s *Spec) error {
	needs, has := 3*4*s.parameters(), physicalMemory()
	if has == 0 || needs < float64(has) {
		return nil
	}
	after := ""
	if len(s.Grow) > 0 {
		after = " after growth"
	}
	return fmt.Errorf("model and optimizer need %s%s, this machine has %s of memory: make model.d_model, model.d_ff or the mixtures smaller",
		humanize.IBytes(uint64(needs)), after, humanize.IBytes(has))
}

// physicalMemory is in bytes, 0 where the system does not say.
func physicalMemory() uint64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var kilobytes uint64
		if n, _ := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kilobytes); n == 1 {
			return 1024 * kilobytes
		}
	}
	return 0
}
