// Package prompt brings audio that customers name by URL, or that the operator keeps in a folder, to where the switch can play
// it: a WAV file of 8 kHz, mono, 16 bit, on its disk.
//
// A [Cache] fetches a URL once for all that ask for it at the same time, converts it (WAV at any rate, PCM or G.711, or MP3), and
// keeps the result under the hash of its samples, so that the same audio under many URLs is one file. Read cache.go (what is
// kept, and for how long), fetch.go (HTTP, with its limits) and convert.go (formats).
package prompt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media/fairshare"
	"github.com/ringmaster/ringmaster/media/netguard"
)

// Config says where prompts come from and where they go.
type Config struct {
	// Dir takes the converted files. The switch must be able to read it.
	Dir string
	// Local holds the operator's own files, which the scheme "prompt:" names by their path in it; empty for none.
	Local string
	// Guard says which addresses customers may name.
	Guard netguard.Policy
	// MaxBytes bounds the files in Dir; 512 MiB by default. MaxOwned bounds those of one owner; a quarter of that by default.
	MaxBytes, MaxOwned int64
	// MaxSource bounds one file as it is fetched, 16 MiB by default, and MaxLength what it plays, 10 minutes by default.
	MaxSource int64
	MaxLength time.Duration
	// Timeout bounds one fetch; 10 s by default.
	Timeout time.Duration
	// Fresh is how long a URL is not asked for again, 5 minutes by default. Keep is how long a file stays after its last
	// use, however full the folder is; 1 hour by default.
	Fresh, Keep time.Duration
	Now         func() time.Time
	// CPU is shared with whatever else computes in the process; conversions take turns there. Slots for two jobs.
	CPU        *fairshare.Slots
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// The defaults of a Config.
const (
	defaultMaxBytes  = 512 << 20
	defaultShares    = 4
	defaultMaxSource = 16 << 20
	defaultMaxLength = 10 * time.Minute
	defaultTimeout   = 10 * time.Second
	defaultFresh     = 5 * time.Minute
	defaultKeep      = time.Hour
)

// Errors of [Cache.Path]; a *FetchError wraps the first that applies.
var (
	// ErrAddress refuses a URL that is neither http(s) nor a local prompt.
	ErrAddress = errors.New("address can't be used")
	// ErrTooLarge refuses audio above MaxSource or MaxLength.
	ErrTooLarge = errors.New("audio is too large")
	// ErrFormat refuses what is neither WAV nor MP3.
	ErrFormat = errors.New("audio is neither WAV nor MP3")
	// ErrFull says that the folder, or the share of the owner, is full of files in use.
	ErrFull = errors.New("prompt folder is full")
	// ErrClosed says that the cache has been closed.
	ErrClosed = errors.New("prompt cache is closed")
)

// StatusError is an answer other than 200.
type StatusError struct{ Status int }

func (e *StatusError) Error() string { return fmt.Sprintf("server answered %d", e.Status) }

// FetchError says which step failed. It does not hold the URL, which may carry a secret.
type FetchError struct {
	Step string // address, fetch, convert or store
	Err  error
}

// Error implements error. It is logged, and what has failed may quote the answer's header.
func (e *FetchError) Error() string { return fmt.Sprintf("prompt: %s: %.300s", e.Step, e.Err.Error()) }

// Unwrap gives the cause.
func (e *FetchError) Unwrap() error { return e.Err }

// Reason is what whoever gave the URL may be told: it names no address, and nothing of a server that the guard hides. Empty for a failure of ours.
func (e *FetchError) Reason() string {
	status, answered := errors.AsType[*StatusError](e.Err)
	timeout, timed := errors.AsType[net.Error](e.Err)
	_, nameless := errors.AsType[*net.DNSError](e.Err)
	switch {
	case answered:
		return fmt.Sprintf("its server answered %d", status.Status)
	case errors.Is(e.Err, ErrAddress), errors.Is(e.Err, netguard.ErrForbidden):
		return "its address can't be used"
	case errors.Is(e.Err, ErrTooLarge):
		return "it is too large, or plays too long"
	case errors.Is(e.Err, ErrFormat):
		return "it is neither WAV nor MP3"
	case nameless:
		return "its server's name isn't known"
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return "its server refused the connection"
	case timed && timeout.Timeout(), errors.Is(e.Err, context.DeadlineExceeded):
		return "its server didn't answer in time"
	case e.Step == "fetch":
		return "its server could not be read"
	}
	return ""
}
