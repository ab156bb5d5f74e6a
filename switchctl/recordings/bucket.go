package recordings

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/blob/s3blob"
)

const (
	// s3HeaderTimeout is how long an object store may think about a request that it has got whole.
	s3HeaderTimeout = time.Minute
	// s3PartBytes and s3Parts bound what one upload holds in memory: a part is read before it is sent.
	s3PartBytes = 8 << 20
	s3Parts     = 2
)

// ErrBucket says that a bucket's address can't be used.
var ErrBucket = errors.New("bucket of recordings")

// Bucket is where recordings are kept.
type Bucket struct {
	*blob.Bucket
	// settle brings an object to stable storage, for a bucket whose acknowledged writes are not yet there.
	settle func(key string) error
}

// NewBucket makes a bucket of a driver whose acknowledged writes are on stable storage.
func NewBucket(b *blob.Bucket) *Bucket {
	return &Bucket{Bucket: b, settle: func(string) error { return nil }}
}

// CheckBucketURL says what is wrong with a bucket's address, without opening it.
func CheckBucketURL(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBucket, err)
	}
	switch u.Scheme {
	case fileblob.Scheme:
		if u.Host != "" || !filepath.IsAbs(filepath.FromSlash(u.Path)) {
			return fmt.Errorf("%w: a folder is given as file:///DIR", ErrBucket)
		}
		return nil
	case s3blob.Scheme:
		if u.Host == "" || u.User != nil || u.Path != "" && u.Path != "/" {
			return fmt.Errorf("%w: an S3 bucket is given as s3://NAME, with credentials in the environment", ErrBucket)
		}
		if e := u.Query().Get("endpoint"); e != "" {
			if to, err := url.Parse(e); err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
				return fmt.Errorf("%w: endpoint %q is not http(s)://HOST", ErrBucket, e)
			}
		}
		return nil
	}
	return fmt.Errorf("%w: scheme %q is neither file nor s3", ErrBucket, u.Scheme)
}

// OpenBucket opens file:///DIR, which is created when it does not exist, s3://NAME?region=…, or mem:// (for tests).
//
// The query of an S3 bucket takes what gocloud.dev/blob/s3blob does, above all region, and for a store other than AWS
// endpoint=https://HOST and use_path_style=true; request_checksum_calculation=when_required is for stores that don't know the
// checksums of newer SDKs. Credentials come from AWS's own variables, files or roles. A presigned URL lasts no longer than the
// credentials it was made with: those of a role end before the seven days of a recording's URL.
func OpenBucket(ctx context.Context, address string) (*Bucket, error) {
	if address == memblob.Scheme+"://" {
		return NewBucket(memblob.OpenBucket(nil)), nil
	}
	if err := CheckBucketURL(address); err != nil {
		return nil, fmt.Errorf("open the %w", err)
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("open the bucket of recordings: %w", err)
	}
	var b *Bucket
	if u.Scheme == s3blob.Scheme {
		b, err = openS3(ctx, u)
	} else {
		b, err = openFolder(filepath.FromSlash(u.Path))
	}
	if err != nil {
		return nil, fmt.Errorf("open the bucket of recordings: %w", err)
	}
	return b, nil
}

func openFolder(dir string) (*Bucket, error) {
	// Temporary files beside the objects: a rename does not cross file systems.
	bucket, err := fileblob.OpenBucket(dir, &fileblob.Options{
		CreateDir: true, DirFileMode: 0o750, NoTempDir: true, Metadata: fileblob.MetadataDontWrite,
	})
	if err != nil {
		return nil, err
	}
	// What is read back may come from memory alone, and a host that loses its power then loses the only copy there is. So
	// the file and the folders that lead to it are synced, once per recording, before the local copy goes.
	settle := func(key string) error {
		path := filepath.Join(dir, filepath.FromSlash(key))
		for ; len(path) >= len(filepath.Clean(dir)); path = filepath.Dir(path) {
			if err := syncPath(path); err != nil {
				return err
			}
		}
		return nil
	}
	return &Bucket{Bucket: bucket, settle: settle}, nil
}

// syncPath brings a file or a folder to stable storage.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// openS3 opens an S3 bucket with a client that does not wait for a silent store for ever.
func openS3(ctx context.Context, u *url.URL) (*Bucket, error) {
	opener := s3blob.URLOpener{}
	plain, err := opener.OpenBucketURL(ctx, u)
	if err != nil {
		return nil, err
	}
	var client *s3.Client
	if !plain.As(&client) {
		return nil, errors.Join(errors.New("the driver has no S3 client"), plain.Close())
	}
	options := client.Options()
	if options.Region == "" {
		return nil, errors.Join(fmt.Errorf("%w: no region is configured: add region=… to the address", ErrBucket), plain.Close())
	}
	// Stores without checksums in their answers are no news at every read: each object is verified by its SHA-256.
	options.DisableLogOutputChecksumValidationSkipped = true
	options.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout = s3HeaderTimeout
	})
	bucket, err := s3blob.OpenBucket(ctx, s3.New(options), u.Host, &opener.Options)
	if err := errors.Join(err, plain.Close()); err != nil {
		return nil, err
	}
	return NewBucket(bucket), nil
}
