package recordings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"
)

const (
	// s3HeaderTimeout is how long an object store may think about a request that it has got whole.
	s3HeaderTimeout = time.Minute
	// s3PartBytes is the size from which an upload goes in parts, s3Parts how many of them are sent at once.
	s3PartBytes = 8 << 20
	s3Parts     = 2
	// s3Attempts are how often the client itself tries a request, with pauses of up to a second. What lasts longer is the job's to retry.
	s3Attempts = 3
	// roleTimeout limits a request to the service that gives the host's or the container's role.
	roleTimeout = 10 * time.Second
)

// s3Bucket keeps recordings in S3, or in a store that speaks its protocol.
type s3Bucket struct {
	client    minio.Core
	transport *http.Transport
	name      string
	sse       encrypt.ServerSide // nil for the bucket's own default
}

func openS3(at bucketURL) (Bucket, error) {
	region := cmp.Or(at.region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	if region == "" {
		return nil, fmt.Errorf("%w: no region is configured: add region=… to the address", ErrBucket)
	}
	host, secure, lookup := "s3.amazonaws.com", true, minio.BucketLookupAuto
	if at.endpoint != nil {
		host, secure, lookup = at.endpoint.Host, at.endpoint.Scheme == "https", minio.BucketLookupDNS
	}
	if at.pathStyle {
		lookup = minio.BucketLookupPath
	}
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	transport.ResponseHeaderTimeout = s3HeaderTimeout
	client, err := minio.NewCore(host, &minio.Options{
		Creds: credentials.New(newProviders(at.profile)), Secure: secure, Transport: transport, Region: region, BucketLookup: lookup,
		TrailingHeaders: at.trailers, MaxRetries: s3Attempts,
	})
	if err != nil {
		return nil, err
	}
	client.SetS3EnableDualstack(false)
	b := &s3Bucket{client: *client, transport: transport, name: at.bucket}
	switch at.encryption {
	case "AES256":
		b.sse = encrypt.NewSSE()
	case "aws:kms":
		b.sse, err = encrypt.NewSSEKMS(at.kmsKey, nil)
	}
	return b, err
}

// Put implements Bucket. Whoever fails half-way leaves nothing behind: an upload in parts is called off.
func (b *s3Bucket) Put(ctx context.Context, key string, content io.ReadSeeker, size int64) error {
	_, err := b.client.Client.PutObject(ctx, b.name, key, content, size, minio.PutObjectOptions{
		ContentType: ContentType, PartSize: s3PartBytes, NumThreads: s3Parts, ServerSideEncryption: b.sse,
	})
	return s3Error(err)
}

// Open implements Bucket.
func (b *s3Bucket) Open(ctx context.Context, key string, at Span) (io.ReadCloser, error) {
	var options minio.GetObjectOptions
	if at != (Span{}) {
		last := int64(0) // to the end
		if at.Length > 0 {
			last = at.Offset + at.Length - 1
		}
		if err := options.SetRange(at.Offset, last); err != nil {
			return nil, err
		}
	}
	body, _, _, err := b.client.GetObject(ctx, b.name, key, options)
	if err != nil {
		return nil, absent(err)
	}
	return body, nil
}

// Delete implements Bucket. S3 deletes what isn't there without a word, so that is asked first.
func (b *s3Bucket) Delete(ctx context.Context, key string) error {
	_, err := b.client.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
	if err == nil {
		err = b.client.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{})
	}
	return absent(err)
}

// Presign implements Bucket.
func (b *s3Bucket) Presign(ctx context.Context, key string, lifetime time.Duration) (string, error) {
	u, err := b.client.PresignedGetObject(ctx, b.name, key, lifetime, nil)
	if err != nil {
		return "", s3Error(err)
	}
	return u.String(), nil
}

// Close implements Bucket.
func (b *s3Bucket) Close() error {
	b.transport.CloseIdleConnections()
	return nil
}

// s3Error gives a store's answer with its code, which its text alone does not tell.
func s3Error(err error) error {
	if answer := (minio.ErrorResponse{}); errors.As(err, &answer) {
		return fmt.Errorf("%s: %w", answer.Code, err)
	}
	return err
}

// absent is s3Error for an object that is asked for: one that isn't there gives fs.ErrNotExist. A bucket that isn't there is another error.
func absent(err error) error {
	if answer := (minio.ErrorResponse{}); errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound && answer.Code != minio.NoSuchBucket {
		return fmt.Errorf("%s: %w: %w", answer.Code, fs.ErrNotExist, err)
	}
	return s3Error(err)
}

// providers are the places where AWS's tools look for credentials, in their order: variables, the token of a pod's role, files, and the
// role of the container or the host. Unlike the client library's own chain it fails where there are none, and says why.
type providers struct {
	all     []credentials.Provider
	current credentials.Provider
}

func newProviders(profile string) *providers {
	files := &credentials.FileAWSCredentials{Profile: profile}
	role := &credentials.IAM{Client: &http.Client{Timeout: roleTimeout}}
	all := []credentials.Provider{&credentials.EnvAWS{}, files, role}
	switch {
	case profile != "":
		all = []credentials.Provider{files}
	case os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "":
		all[1], all[2] = role, files
	}
	return &providers{all: all}
}

// RetrieveWithCredContext implements credentials.Provider.
func (p *providers) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	var failed error
	for _, provider := range p.all {
		value, err := provider.RetrieveWithCredContext(cc)
		if err == nil && value.AccessKeyID != "" && value.SecretAccessKey != "" {
			p.current = provider
			return value, nil
		}
		failed = errors.Join(failed, err)
	}
	return credentials.Value{}, fmt.Errorf("S3 credentials not found in the environment, AWS's files or a role: %w", failed)
}

// Retrieve implements credentials.Provider.
func (p *providers) Retrieve() (credentials.Value, error) { return p.RetrieveWithCredContext(nil) }

// IsExpired implements credentials.Provider.
func (p *providers) IsExpired() bool { return p.current == nil || p.current.IsExpired() }
