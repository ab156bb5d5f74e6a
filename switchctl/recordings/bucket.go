package recordings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// ErrBucket says that a bucket's address can't be used.
var ErrBucket = errors.New("bucket of recordings")

// Bucket is where recordings are kept: a folder, or a bucket of S3 or of a store that speaks its protocol.
type Bucket interface {
	// Put stores size bytes under a key, all of them or nothing. What it has acknowledged is on stable storage.
	Put(ctx context.Context, key string, content io.ReadSeeker, size int64) error
	// Open gives what a span has of an object. An object that isn't there gives fs.ErrNotExist.
	Open(ctx context.Context, key string, at Span) (io.ReadCloser, error)
	// Delete deletes an object. One that isn't there gives fs.ErrNotExist.
	Delete(ctx context.Context, key string) error
	// Presign gives a URL that needs no credentials; empty where the bucket has none.
	Presign(ctx context.Context, key string, lifetime time.Duration) (string, error)
	Close() error
}

// Span is a part of an object: Length bytes from Offset on, or all from there where Length is 0.
type Span struct{ Offset, Length int64 }

// CheckBucketURL says what is wrong with a bucket's address, without opening it.
func CheckBucketURL(address string) error {
	_, err := parseBucketURL(address)
	return err
}

// OpenBucket opens file:///DIR, which is created when it does not exist, or s3://NAME?region=…
//
// The query of an S3 bucket takes region, and for a store other than AWS endpoint=https://HOST and use_path_style=true;
// request_checksum_calculation=when_required is for stores that don't support checksums in trailers. profile names one of AWS's files;
// ssetype and kmskeyid ask for encryption in the store. Credentials come from AWS's own variables, files or roles. A presigned URL
// lasts no longer than the credentials it was made with: those of a role end before the seven days of a recording's URL.
func OpenBucket(address string) (Bucket, error) {
	at, err := parseBucketURL(address)
	if err != nil {
		return nil, fmt.Errorf("open the %w", err)
	}
	var b Bucket
	if at.bucket != "" {
		b, err = openS3(at)
	} else {
		b, err = openFolder(at.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open the bucket of recordings: %w", err)
	}
	return b, nil
}

// bucketURL is a bucket's address: a folder's, or that of an S3 bucket.
type bucketURL struct {
	dir string

	bucket, region string
	endpoint       *url.URL // nil for AWS
	pathStyle      bool
	trailers       bool // checksums go in trailers
	profile        string
	encryption     string // AES256, aws:kms, or empty
	kmsKey         string
}

func parseBucketURL(address string) (bucketURL, error) {
	u, err := url.Parse(address)
	if err != nil { // whose text has the address, and with it a secret that somebody has put there
		return bucketURL{}, fmt.Errorf("%w: the address is no URL", ErrBucket)
	}
	switch u.Scheme {
	case "file":
		dir := filepath.Clean(filepath.FromSlash(u.Path))
		if u.Host != "" || !filepath.IsAbs(dir) || dir == filepath.Dir(dir) || u.RawQuery != "" {
			return bucketURL{}, fmt.Errorf("%w: a folder must be file:///DIR, not the root folder, without options", ErrBucket)
		}
		return bucketURL{dir: dir}, nil
	case "s3":
		if u.Host == "" || u.User != nil || u.Path != "" && u.Path != "/" {
			return bucketURL{}, fmt.Errorf("%w: an S3 bucket is given as s3://NAME, with credentials in the environment", ErrBucket)
		}
		at := bucketURL{bucket: u.Host, trailers: true}
		for name, values := range u.Query() {
			if len(values) > 1 {
				return bucketURL{}, fmt.Errorf("%w: option %q is given %d times", ErrBucket, name, len(values))
			}
			if err := at.option(name, values[0]); err != nil {
				return bucketURL{}, fmt.Errorf("%w: %w", ErrBucket, err)
			}
		}
		if at.kmsKey != "" && at.encryption != "aws:kms" {
			return bucketURL{}, fmt.Errorf("%w: kmskeyid needs ssetype=aws:kms", ErrBucket)
		}
		return at, nil
	}
	return bucketURL{}, fmt.Errorf("%w: scheme %q is neither file nor s3", ErrBucket, u.Scheme)
}

func (b *bucketURL) option(name, value string) (err error) {
	oneOf := func(a, b string) error {
		if value != a && value != b {
			return fmt.Errorf("%s %q is neither %s nor %s", name, value, a, b)
		}
		return nil
	}
	switch name {
	case "region":
		b.region = value
	case "endpoint":
		b.endpoint, err = url.Parse(value)
		if err != nil || b.endpoint.User != nil || b.endpoint.Host == "" || b.endpoint.Path != "" && b.endpoint.Path != "/" ||
			b.endpoint.Scheme != "http" && b.endpoint.Scheme != "https" {
			return errors.New("endpoint is not http(s)://HOST")
		}
	case "use_path_style":
		if b.pathStyle, err = strconv.ParseBool(value); err != nil {
			return fmt.Errorf("use_path_style %q is neither true nor false", value)
		}
	case "request_checksum_calculation":
		b.trailers = value != "when_required"
		return oneOf("when_supported", "when_required")
	case "profile":
		b.profile = value
	case "ssetype":
		b.encryption = value
		return oneOf("AES256", "aws:kms")
	case "kmskeyid":
		b.kmsKey = value
	default:
		return fmt.Errorf("option %q is unknown", name)
	}
	return nil
}

// folder keeps recordings as files.
type folder string

func openFolder(dir string) (Bucket, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	return folder(dir), nil
}

func (f folder) path(key string) string { return filepath.Join(string(f), filepath.FromSlash(key)) }

// Put implements Bucket. What is read back may come from memory alone, and a host that loses its power then loses the only copy there is.
// So the file and the folders that lead to it are synced, once per recording, before the local copy goes.
func (f folder) Put(ctx context.Context, key string, content io.ReadSeeker, size int64) error {
	path := f.path(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	temporary := unfinished(path)
	w, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	n, err := io.Copy(w, content)
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes of %d: %w", n, size, io.ErrUnexpectedEOF)
	}
	if err = errors.Join(err, ctx.Err()); err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(temporary))
	}
	for dir := filepath.Dir(path); len(dir) >= len(filepath.Clean(string(f))); dir = filepath.Dir(dir) {
		if err := syncDir(dir); err != nil {
			return fmt.Errorf("sync the upload: %w", err)
		}
	}
	return nil
}

// unfinished is where an object is until it is whole: beside it, since a rename does not cross file systems, and under one name, so that
// what a killed process leaves is written over by the next attempt, or deleted with the object.
func unfinished(path string) string { return path + ".tmp" }

// syncDir brings the names in a folder to stable storage.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Open implements Bucket.
func (f folder) Open(_ context.Context, key string, at Span) (io.ReadCloser, error) {
	file, err := os.Open(f.path(key))
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(at.Offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if at.Length == 0 {
		return file, nil
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(file, at.Length), file}, nil
}

// Delete implements Bucket.
func (f folder) Delete(_ context.Context, key string) error {
	path := f.path(key)
	if err := removeIfThere(unfinished(path)); err != nil {
		return err
	}
	return os.Remove(path)
}

// Presign implements Bucket: a folder has no URLs.
func (f folder) Presign(context.Context, string, time.Duration) (string, error) { return "", nil }

// Close implements Bucket.
func (f folder) Close() error { return nil }
