package agentbench

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is the CPU time that each part has had.
type usage map[string]time.Duration

// ticksPerSecond is the unit of /proc's times (USER_HZ), the same on every Linux that Go runs on.
const ticksPerSecond = 100

// errProc says that a process's times could not be read.
var errProc = errors.New("unreadable process times")

// usage reads the parts' CPU times; the machine's are busy and idle.
func (b *bench) usage() (usage, error) {
	out := usage{}
	for part, pid := range map[string]int{
		"controller": b.stack.ControllerPID(), "switch": b.stack.SwitchPID(), "carrier and phones": b.stack.CarrierPID(), "this tool": os.Getpid(),
	} {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return nil, fmt.Errorf("read the CPU time of the %s: %w", part, err)
		}
		// The name, in parentheses, may hold anything; what follows is counted from the state, the third field.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		const user, system = 11, 12
		if len(fields) <= system {
			return nil, fmt.Errorf("%w: %s", errProc, part)
		}
		u, err1 := strconv.ParseInt(fields[user], 10, 64)
		k, err2 := strconv.ParseInt(fields[system], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errProc, part, err)
		}
		out[part] = time.Duration(u+k) * time.Second / ticksPerSecond
	}
	return out, nil
}

// since gives each part's share of one CPU in the time between.
func (u usage) since(before usage, took time.Duration) map[string]float64 {
	out := map[string]float64{}
	for part, t := range u {
		out[part] = (t - before[part]).Seconds() / took.Seconds()
	}
	return out
}
