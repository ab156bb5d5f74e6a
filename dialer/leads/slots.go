package leads

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/leadfile"
	"github.com/ringmaster/ringmaster/store/fault"
)

const (
	// MaxUploads is how many uploads of a tenant are read at once, maxWorkbooks how many workbooks of all tenants on this host.
	MaxUploads   = 2
	maxWorkbooks = 4
	// UploadRetry is when a tenant whose uploads are all at work may try again.
	UploadRetry = 10 * time.Second
)

// Uploads bounds what uploads of leads cost this host. It is safe for concurrent use.
type Uploads struct {
	dir       string
	workbooks chan struct{}

	mu      sync.Mutex
	running map[uuid.UUID]int // by tenant
}

// NewUploads keeps workbooks in dir, and removes those that an earlier process has left there; an empty dir is the system's, where
// nothing is removed.
func NewUploads(dir string) (*Uploads, error) {
	u := &Uploads{dir: dir, workbooks: make(chan struct{}, maxWorkbooks), running: make(map[uuid.UUID]int)}
	if dir == "" {
		return u, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of uploads: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, leadfile.TempPattern))
	if err != nil {
		return nil, fmt.Errorf("look for uploads that were left: %w", err)
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove an upload that was left: %w", err)
		}
	}
	return u, nil
}

// begin takes one of the tenant's places until end is called. Error: *fault.Error.
func (u *Uploads) begin(tenant uuid.UUID) (end func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.running[tenant] >= MaxUploads {
		return nil, &fault.Error{
			Kind: fault.Limit, Code: CodeUploads, Detail: fmt.Sprintf("%d uploads of this tenant are being read", MaxUploads), RetryAfter: UploadRetry,
		}
	}
	u.running[tenant]++
	return sync.OnceFunc(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.running[tenant]--; u.running[tenant] == 0 {
			delete(u.running, tenant)
		}
	}), nil
}
