package contend

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Spending is a session whose server's time of the processor can be seen from outside.
type Spending interface {
	// Spent is what it has used so far; false where that is not known.
	Spent() (time.Duration, bool)
}

// Spent implements Spending.
func (s *txcoordSession) Spent() (time.Duration, bool) {
	if r, ok := s.Running.(Spending); ok {
		return r.Spent()
	}
	return 0, false
}

// Spent is the process's time of the processor, where the system has /proc.
func (p *Process) Spent() (time.Duration, bool) {
	if p.cmd == nil {
		return 0, false
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, false
	}
	return spentOf(string(raw))
}

// tick is the unit of /proc, the same on every Linux.
const tick = 10 * time.Millisecond

// spentOf reads the times in user and in kernel mode, the 14th and 15th field. The second
// is the program's name in parentheses, and may hold anything.
func spentOf(stat string) (time.Duration, bool) {
	i := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[i+1:])
	if i < 0 || len(fields) < 13 {
		return 0, false
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	kernel, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err != nil || err2 != nil {
		return 0, false
	}
	return time.Duration(user+kernel) * tick, true
}
