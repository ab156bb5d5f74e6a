package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
)

// environment of the suite.
const (
	envBinary     = "RINGMASTER_BINARY"     // ringmaster, for the stand-ins; built when unset
	envController = "RINGMASTER_CONTROLLER" // ringmaster with the race detector; built when unset
	envFreeSWITCH = "RINGMASTER_FREESWITCH" // a real switch
)

// suite is what all tests share: the binaries and one stack per kind of switch, started by the first test that needs it.
type suite struct {
	dir, binary, controller, freeswitch string
	log                                 *racelog
	shared                              map[kind]func() (*stack.Stack, error)
	database                            func() (string, error) // a folder of which each stack's database is a copy
	extensions                          *atomic.Int64          // that fresh agents were given
	stores                              *stores
	turns                               *turns
}

// kind is a kind of switch.
type kind string

const (
	simulated  kind = "simulated"
	freeswitch kind = "freeswitch"
)

var theSuite suite //nolint:gochecknoglobals // set once by TestMain, read by the tests

func TestMain(m *testing.M) {
	code, err := runSuite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "end-to-end suite:", err)
		code = 1
	}
	os.Exit(code)
}

func runSuite(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "ringmaster-e2e-")
	if err != nil {
		return 1, fmt.Errorf("make a folder: %w", err)
	}
	// The database's server may run as another user.
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see above
		return 1, fmt.Errorf("open the folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	theSuite = suite{
		dir: dir, freeswitch: os.Getenv(envFreeSWITCH), log: &racelog{}, extensions: &atomic.Int64{},
		stores: &stores{byURL: map[string]*store.Store{}}, turns: &turns{free: atOnce},
	}
	if theSuite.binary, err = binary(dir, envBinary); err != nil {
		return 1, err
	}
	if theSuite.controller, err = binary(dir, envController, "-race"); err != nil {
		return 1, err
	}
	theSuite.database = sync.OnceValues(func() (string, error) {
		database := filepath.Join(dir, "database")
		return database, stack.PrepareDatabase(context.Background(), database)
	})
	var mu sync.Mutex // guards started: two kinds of switch may start at a time
	var started []*stack.Stack
	theSuite.shared = map[kind]func() (*stack.Stack, error){}
	for _, k := range []kind{simulated, freeswitch} {
		theSuite.shared[k] = sync.OnceValues(func() (*stack.Stack, error) {
			s, err := theSuite.start(context.Background(), filepath.Join(dir, string(k)), k, stack.Config{})
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				started = append(started, s)
			}
			return s, err
		})
	}
	if theSuite.freeswitch == "" {
		fmt.Fprintf(os.Stderr, "\n*** NO REAL SWITCH: every test on FreeSWITCH is skipped. Set %s=/path/to/freeswitch. ***\n\n", envFreeSWITCH)
	}
	code = m.Run()
	theSuite.stores.close()
	for _, s := range started {
		err = errors.Join(err, s.Close(context.Background()))
	}
	if races, deadlocks := theSuite.log.races(); races+len(deadlocks) > 0 {
		err = errors.Join(err, fmt.Errorf("the controllers reported %d data races and %d deadlocks of the database:\n%s",
			races, len(deadlocks), strings.Join(deadlocks, "")))
	}
	if err != nil {
		err = fmt.Errorf("%w\nwhat the processes logged:\n%s", err, theSuite.log.text())
	}
	return code, err
}

// binary gives the executable that the environment names, or builds it.
func binary(dir, name string, flags ...string) (string, error) {
	if path := os.Getenv(name); path != "" {
		return path, nil
	}
	path := filepath.Join(dir, strings.ToLower(name))
	args := append([]string{"build", "-trimpath", "-o", path}, flags...)
	out, err := exec.CommandContext(context.Background(), "go", append(args, "github.com/ringmaster/ringmaster/cmd/ringmaster")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build ringmaster: %w\n%s", err, out)
	}
	return path, nil
}

// start runs a stack of its own in dir.
func (s *suite) start(ctx context.Context, dir string, k kind, cfg stack.Config) (*stack.Stack, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the database's server may run as another user
		return nil, fmt.Errorf("make the stack's folder: %w", err)
	}
	database, err := s.database()
	if err != nil {
		return nil, fmt.Errorf("prepare a database: %w", err)
	}
	cfg.Database, cfg.PasswordCost = database, account.LeastPasswordCost()
	if cfg.Controller == "" {
		cfg.Controller = s.controller
	}
	cfg.Binary, cfg.Dir, cfg.InMemory, cfg.Stderr = s.binary, dir, true, s.log
	if k == freeswitch {
		cfg.FreeSWITCH = s.freeswitch
	}
	return stack.Start(ctx, cfg)
}

// onEachSwitch runs a test on the shared stack of every kind of switch, as a tenant of its own, beside other tests.
func onEachSwitch(t *testing.T, test func(t *testing.T, c *customer)) {
	t.Helper()
	t.Parallel()
	eachSwitch(t, true, shared, test)
}

// onEachSwitchAlone runs one that listens closely, or would disturb others, before those that run beside each other.
func onEachSwitchAlone(t *testing.T, test func(t *testing.T, c *customer)) {
	t.Helper()
	eachSwitch(t, false, shared, test)
}

// withOwnStack runs a test that breaks things, or counts what the controller or the switch counts for all tenants, on a stack of its own
// for every kind of switch, beside other tests.
func withOwnStack(t *testing.T, cfg stack.Config, test func(t *testing.T, c *customer)) {
	t.Helper()
	t.Parallel()
	eachSwitch(t, true, own(cfg), test)
}

// withPlainStack is withOwnStack whose controller has no race detector, which costs four times as much: for a test that follows one call at a
// time. Those with many calls, with kills and with several hosts have it, and the shared stack.
func withPlainStack(t *testing.T, cfg stack.Config, test func(t *testing.T, c *customer)) {
	t.Helper()
	cfg.Controller = theSuite.binary
	t.Parallel()
	eachSwitch(t, true, own(cfg), test)
}

func eachSwitch(t *testing.T, parallel bool, customerOn func(t *testing.T, k kind) *customer, test func(t *testing.T, c *customer)) {
	t.Helper()
	for _, k := range []kind{simulated, freeswitch} {
		t.Run(string(k), func(t *testing.T) {
			skipWithout(t, k)
			if parallel {
				besideOthers(t)
			}
			defer showLog(t)
			test(t, customerOn(t, k))
		})
	}
}

// shared is a new customer on the stack that tests share.
func shared(t *testing.T, k kind) *customer {
	t.Helper()
	s, err := theSuite.shared[k]()
	require.NoError(t, err, theSuite.log.text())
	return newCustomer(t, s)
}

// own starts a stack that ends with the test.
func own(cfg stack.Config) func(t *testing.T, k kind) *customer {
	return func(t *testing.T, k kind) *customer {
		t.Helper()
		dir, err := os.MkdirTemp(theSuite.dir, "own-") //nolint:usetesting // the database's server runs as another user
		require.NoError(t, err)
		s, err := theSuite.start(t.Context(), dir, k, cfg)
		require.NoError(t, err, theSuite.log.text())
		endWith(t, s)
		return seededCustomer(s)
	}
}

// showLog prints what the processes logged when the test has failed.
func showLog(t *testing.T) {
	t.Helper()
	if t.Failed() {
		t.Log("what the processes logged:\n" + theSuite.log.text())
	}
}

// endWith ends a stack with its test, and tells why when that fails.
func endWith(t *testing.T, s *stack.Stack) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Logf("what the processes logged:\n%s", theSuite.log.text())
			require.NoError(t, err)
		}
	})
}

func skipWithout(t *testing.T, k kind) {
	t.Helper()
	if k == freeswitch && theSuite.freeswitch == "" {
		t.Skip("NO REAL SWITCH: set " + envFreeSWITCH + "=/path/to/freeswitch to run this on FreeSWITCH")
	}
}

// patience is the least time that a busy machine is given for what a test waits for.
const patience = 30 * time.Second

// Between two looks of eventually there are between firstPoll and lastPoll: what takes long is asked less often, since each look is work for
// the controller that is tested, and for its database.
const (
	firstPoll = 20 * time.Millisecond
	lastPoll  = 200 * time.Millisecond
)

// eventually polls until ok, for at most limit or patience, in the test's own goroutine: ok may assert.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	limit = max(limit, patience)
	pause := time.NewTimer(firstPoll)
	defer pause.Stop()
	for began, next := time.Now(), firstPoll; ; <-pause.C {
		over := time.Since(began) > limit
		next = min(next+next/4, lastPoll)
		pause.Reset(next)
		switch {
		case ok():
			return
		case over:
			require.FailNow(t, "not within "+limit.String()+": "+what)
		}
	}
}

// racelog keeps the end of what the processes log, and counts the races and the database's deadlocks among it. Safe for concurrent use.
type racelog struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	found int
	dead  []string
}

const racelogBytes = 256 << 10

var _ io.Writer = (*racelog)(nil)

func (l *racelog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found += bytes.Count(b, []byte("WARNING: DATA RACE"))
	for line := range bytes.Lines(b) {
		if bytes.Contains(line, []byte(store.DeadlockMessage)) {
			l.dead = append(l.dead, string(line))
		}
	}
	l.buf.Write(b)
	if n := l.buf.Len() - racelogBytes; n > 0 {
		l.buf.Next(n)
	}
	return len(b), nil
}

func (l *racelog) races() (races int, deadlocks []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.found, l.dead
}

func (l *racelog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
