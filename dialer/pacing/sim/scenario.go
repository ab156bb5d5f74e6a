package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Mode is who decides how many calls are dialed.
type Mode string

// The modes.
const (
	Progressive Mode = "progressive"
	Predictive  Mode = "predictive"
	Oracle      Mode = "oracle"
)

// ShockKind is something that goes wrong.
type ShockKind string

// The kinds of shocks.
const (
	AnswerRate  ShockKind = "answer-rate" // the answer rate is multiplied by Size
	AgentsLeave ShockKind = "agents"      // a share of Size of the agents logs off, those on a call after it
	Congestion  ShockKind = "congestion"  // a share of Size of the calls fails at once
)

// Shock is one such, from At on and for so long. As text: kind:at:for:size, such as answer-rate:3h:1h:0.5.
type Shock struct {
	Kind ShockKind
	At   time.Duration
	For  time.Duration
	Size float64
}

// ErrShock is the error of a shock that can't be read.
var ErrShock = errors.New("not a shock (answer-rate:3h:1h:0.5, agents:5h:30m:0.5, congestion:2h:10m:0.8)")

// UnmarshalText reads a shock. Errors: ErrShock.
func (s *Shock) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), ":")
	if len(parts) != 4 {
		return fmt.Errorf("%q: %w", text, ErrShock)
	}
	at, err1 := time.ParseDuration(parts[1])
	during, err2 := time.ParseDuration(parts[2])
	size, err3 := strconv.ParseFloat(parts[3], 64)
	out := Shock{Kind: ShockKind(parts[0]), At: at, For: during, Size: size}
	if errors.Join(err1, err2, err3) != nil || !out.valid() {
		return fmt.Errorf("%q: %w", text, ErrShock)
	}
	*s = out
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (s Shock) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%s:%s:%s:%g", s.Kind, s.At, s.For, s.Size), nil
}

func (s Shock) valid() bool {
	if s.At < 0 || s.For < 0 || s.Size < 0 {
		return false
	}
	switch s.Kind {
	case AnswerRate:
		return s.Size <= 10
	case AgentsLeave, Congestion:
		return s.Size <= 1
	default:
		return false
	}
}

func (s Shock) during(at time.Duration) bool { return at >= s.At && at < s.At+s.For }

// Scenario is one day of a campaign.
type Scenario struct {
	Agents        int
	AnswerRate    float64 // share of the dialed numbers where a person answers
	Ring          Dist    // until the answer, of the calls that are answered; never above RingTimeout
	RingTimeout   time.Duration
	Talk, WrapUp  Dist
	Patience      Dist // a person who hears nobody hangs up after so long
	Hours         time.Duration
	MaxWait       time.Duration
	TargetAbandon float64
	// Inbound is how many callers an hour call in, whom the same agents take: who has waited longest comes first, whichever way
	// the call began. Such conversations and the work after them last as long as the campaign's.
	Inbound float64
	// Machines is the share of machines in what is answered. An agent has one like a person, at once, until Verdict says what it is; the agent is
	// ready then, without work after the call. One that no agent has by then is hung up, and isn't abandoned.
	Machines float64
	Verdict  Dist
	Shocks   []Shock
	// RandomShocks adds one shock of each kind at a moment that the seed decides.
	RandomShocks bool
}

// Default is the day of the reference: with these rings and answers one call per ready agent keeps agents busy for 41%, 67% and
// 76% of their time at answer rates and handle times of 25% and 60 s, 25% and 180 s, 50% and 120 s.
func Default() Scenario {
	s := Scenario{
		Agents: 50, AnswerRate: 0.25,
		Ring:        Dist{Shape: Erlang, Mean: 9 * time.Second, Param: 3, Min: 3 * time.Second},
		RingTimeout: 25 * time.Second,
		Patience:    Dist{Shape: Exp, Mean: 10 * time.Second},
		Verdict:     Dist{Shape: Exp, Mean: time.Second, Min: 2 * time.Second},
		Hours:       8 * time.Hour, MaxWait: 2 * time.Second, TargetAbandon: 0.03,
	}
	return s.WithHandle(time.Minute)
}

// WithHandle sets the mean handle time: four fifths of it conversation, exponential, and one fifth after-call work.
func (s Scenario) WithHandle(mean time.Duration) Scenario {
	s.Talk = Dist{Shape: Exp, Mean: mean * 4 / 5}
	s.WrapUp = Dist{Shape: Erlang, Mean: mean / 5, Param: 4}
	return s
}

// Validate checks the bounds of a scenario.
func (s Scenario) Validate() error {
	switch {
	case s.Agents < 1 || s.Agents > 10_000:
		return errors.New("agents must be 1 to 10000")
	case s.AnswerRate <= 0 || s.AnswerRate > 1:
		return errors.New("the answer rate must be above 0 and at most 1")
	case s.RingTimeout < time.Second || s.RingTimeout > 2*time.Minute:
		return errors.New("the ring time-out must be 1 s to 2 min")
	case s.Ring.Min >= s.RingTimeout:
		return errors.New("no call can be answered before the ring time-out")
	case s.Hours < time.Minute || s.Hours > 30*24*time.Hour:
		return errors.New("hours must be 1 minute to 30 days")
	case s.MaxWait < 0 || s.MaxWait > time.Hour:
		return errors.New("the longest wait must be 0 to 1 h")
	case s.TargetAbandon <= 0 || s.TargetAbandon > 0.03:
		return errors.New("the target must be above 0 and at most 0.03")
	case s.Inbound < 0 || s.Inbound > 1e5:
		return errors.New("there must be 0 to 100000 inbound callers an hour")
	case s.Machines < 0 || s.Machines >= 1:
		return errors.New("the share of machines must be 0 or more and below 1")
	case s.Talk.Mean+s.Talk.Min < time.Second:
		return errors.New("conversations must last a second or more on average")
	}
	return nil
}

// shocks are those of one seed.
func (s Scenario) shocks(seed uint64) []Shock {
	out := slices.Clone(s.Shocks)
	if !s.RandomShocks {
		return out
	}
	r := rand.New(rand.NewPCG(seed, streamShocks))
	at := func() time.Duration { return time.Duration(r.Float64() * 0.95 * float64(s.Hours)) }
	return append(out,
		Shock{Kind: AnswerRate, At: at(), For: time.Hour, Size: 0.5},
		Shock{Kind: AgentsLeave, At: at(), For: 30 * time.Minute, Size: 0.5},
		Shock{Kind: Congestion, At: at(), For: 10 * time.Minute, Size: 0.8},
	)
}
