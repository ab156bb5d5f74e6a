package recordings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media/fairshare"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// Config is what a Library needs.
type Config struct {
	Store *store.Store
	// Bucket keeps the recordings; the Library does not close it.
	Bucket Bucket
	// Signer makes the URLs, unless the bucket's service presigns its own.
	Signer *Signer
	// Encoding is what every recording is kept in; PCM when empty.
	Encoding wav.Encoding
	// SpoolDir is where the files are until they are uploaded, for [Library.Adopt] and the metric of its free space; none when empty.
	SpoolDir string
	// CPU is shared with whatever else computes in the process; joins take turns there. Slots for two jobs.
	CPU *fairshare.Slots
	// Logger discards when nil.
	Logger *slog.Logger
	// Registerer takes the metrics; none when nil.
	Registerer prometheus.Registerer
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Library processes recordings and hands them out. It is safe for concurrent use.
type Library struct {
	store   *store.Store
	bucket  Bucket
	signer  *Signer
	log     *slog.Logger
	cpu     *fairshare.Slots
	now     func() time.Time
	spool   string
	metrics *metrics
	// encoding is what every recording is kept in.
	encoding wav.Encoding
	// notStrays are calls whose files were no strays, and when that was seen. It belongs to Adopt.
	notStrays map[uuid.UUID]time.Time
	// suspect is held over a recording that may be what ends the controller.
	suspect sync.Mutex
	// due is Start's.
	due *due
	// transferBase is what a transfer may take besides its bytes.
	transferBase time.Duration
}

// New makes a Library.
func New(cfg Config) (*Library, error) {
	if cfg.Store == nil || cfg.Bucket == nil || cfg.Signer == nil {
		return nil, errors.New("make the library of recordings: it needs a store, a bucket and a signer")
	}
	if cfg.CPU == nil {
		cfg.CPU = fairshare.NewSlots(2)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Encoding == "" {
		cfg.Encoding = wav.PCM
	}
	if !slices.Contains(wav.Encodings(), cfg.Encoding) {
		return nil, fmt.Errorf("make the library of recordings: its encoding %q is unknown", cfg.Encoding)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	m, err := newMetrics(cfg.Registerer, cfg.SpoolDir)
	if err != nil {
		return nil, fmt.Errorf("make the library of recordings: %w", err)
	}
	return &Library{
		store: cfg.Store, bucket: cfg.Bucket, signer: cfg.Signer, log: cfg.Logger, cpu: cfg.CPU, now: cfg.Now, spool: cfg.SpoolDir, metrics: m,
		encoding: cfg.Encoding, transferBase: transferBase,
	}, nil
}

// Signer gives the signer that the Library was made with.
func (l *Library) Signer() *Signer { return l.signer }

// Find gives a call's recording in whatever status. A call without one gives store.ErrNotFound.
func (l *Library) Find(ctx context.Context, tenantID, callID uuid.UUID) (Recording, error) {
	row, err := l.row(ctx, tenantID, callID)
	if err != nil {
		return Recording{}, fmt.Errorf("find recording: %w", err)
	}
	return fromRow(row.Recording), nil
}

func (l *Library) row(ctx context.Context, tenantID, callID uuid.UUID) (db.GetRecordingOfCallRow, error) {
	var row db.GetRecordingOfCallRow
	err := l.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.GetRecordingOfCall(ctx, tenantID, callID)
		return err
	})
	return row, err
}

// SignedURL gives a URL that needs no credentials, and when it expires.
func (l *Library) SignedURL(ctx context.Context, r Recording, lifetime time.Duration) (string, time.Time, error) {
	if err := r.Err(); err != nil {
		return "", time.Time{}, fmt.Errorf("sign recording URL: %w", err)
	}
	return l.sign(ctx, r.TenantID, r.CallID, r.Key, lifetime)
}

func (l *Library) sign(ctx context.Context, tenantID, callID uuid.UUID, key string, lifetime time.Duration) (string, time.Time, error) {
	expires := l.now().Add(lifetime).UTC().Truncate(time.Second)
	presigned, err := l.bucket.Presign(ctx, key, lifetime)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign recording URL: %w", err)
	}
	if presigned != "" {
		return presigned, expires, nil
	}
	return l.signer.Sign(Link{CallID: callID, TenantID: tenantID, Expires: expires}), expires, nil
}

// Redirect gives a URL of the object store for a finished recording, good for lifetime; empty where the store signs none and the audio is
// streamed through us.
func (l *Library) Redirect(ctx context.Context, r Recording, lifetime time.Duration) (string, error) {
	presigned, err := l.bucket.Presign(ctx, r.Key, lifetime)
	if err != nil {
		return "", fmt.Errorf("sign recording URL: %w", err)
	}
	return presigned, nil
}

// Open gives a span of a finished recording's audio. An object that is gone gives store.ErrNotFound.
func (l *Library) Open(ctx context.Context, r Recording, at Span) (io.ReadCloser, error) {
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	audio, err := l.bucket.Open(ctx, r.Key, at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open recording: its object is gone: %w", store.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	return audio, nil
}

// Method is how a recording was handed out.
type Method string

// The methods of access.
const (
	MethodSignedURL Method = "signed_url"
	MethodStream    Method = "stream"
)

// accessorWebhook stands for the subscriptions that a signed URL was sent to.
const accessorWebhook = "webhook"

// Access is one hand-out of a recording.
type Access struct {
	TenantID    uuid.UUID
	CallID      uuid.UUID
	RecordingID uuid.UUID
	Accessor    string // who: the key, the user, the holder of a signed URL
	Method      Method
	RemoteAddr  string
}

// LogAccess writes the audit row of a hand-out. Write it before the audio goes out: what can't be audited is not given.
func (l *Library) LogAccess(ctx context.Context, a Access) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("log access to recording: %w", err)
	}
	var remote *string
	if a.RemoteAddr != "" {
		remote = &a.RemoteAddr
	}
	err = l.store.InTenant(ctx, a.TenantID, func(tx *store.Tx) error {
		return tx.Q.InsertRecordingAccess(ctx, db.InsertRecordingAccessParams{
			TenantID: a.TenantID, ID: id, CallID: a.CallID, RecordingID: a.RecordingID,
			Accessor: a.Accessor, Method: string(a.Method), At: l.now(), RemoteAddr: remote,
		})
	})
	if err != nil {
		return fmt.Errorf("log access to recording: %w", err)
	}
	return nil
}
