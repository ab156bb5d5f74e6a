package recordings

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	testBucket = "calls"
	testRegion = "ap-south-1"
)

// s3Server is an object store with S3's wire protocol, as far as uploads of one and of many parts, reads and presigned URLs
// need it: paths with the bucket in front, signatures of version 4, bodies in signed chunks. It fails as a test says.
type s3Server struct {
	http *httptest.Server
	gate chan struct{} // requests that hang wait for it

	mu      sync.Mutex
	objects map[string]s3Object
	parts   map[string]map[int][]byte // of unfinished uploads
	aborted int
	seen    []string       // method and kind of each request
	fail    map[string]int // how many requests of a kind get a 500
	hang    string         // requests of that kind are not answered
	keep    func([]byte) []byte
	give    func([]byte) []byte // what a read gives of an object; the length stays the object's
}

type s3Object struct {
	body []byte
	kind string
}

func newS3(t *testing.T) *s3Server {
	t.Helper()
	s := &s3Server{
		gate: make(chan struct{}), objects: map[string]s3Object{}, parts: map[string]map[int][]byte{}, fail: map[string]int{},
	}
	s.http = httptest.NewServer(s)
	t.Cleanup(func() {
		s.set(func() { s.hang = "" })
		close(s.gate)
		s.http.Close()
	})
	return s
}

func (s *s3Server) address(extra string) string {
	return "s3://" + testBucket + "?region=" + testRegion + "&use_path_style=true&endpoint=" + url.QueryEscape(s.http.URL) + extra
}

func (s *s3Server) set(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

func (s *s3Server) count(kind string) (n int) {
	s.set(func() {
		for _, k := range s.seen {
			if k == kind {
				n++
			}
		}
	})
	return n
}

func (s *s3Server) object(key string) (o s3Object, ok bool) {
	s.set(func() { o, ok = s.objects[key] })
	return o, ok
}

// kindOf names a request.
func kindOf(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodPost && q.Has("uploads"):
		return "create"
	case r.Method == http.MethodPost && q.Has("uploadId"):
		return "complete"
	case r.Method == http.MethodPut && q.Has("partNumber"):
		return "part"
	case r.Method == http.MethodDelete && q.Has("uploadId"):
		return "abort"
	}
	return strings.ToLower(r.Method)
}

// ServeHTTP implements http.Handler.
func (s *s3Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := kindOf(r)
	if code := s.refused(r); code != "" {
		s3Error(w, http.StatusForbidden, code)
		return
	}
	body, err := s3Body(r)
	if err != nil {
		s3Error(w, http.StatusBadRequest, "IncompleteBody")
		return
	}
	var broken, hangs bool
	s.set(func() {
		s.seen = append(s.seen, kind)
		hangs = s.hang == kind
		if s.fail[kind] > 0 {
			s.fail[kind]--
			broken = true
		}
	})
	switch {
	case hangs:
		select {
		case <-s.gate:
		case <-r.Context().Done():
		}
		return
	case broken:
		s3Error(w, http.StatusInternalServerError, "InternalError")
		return
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if bucket != testBucket {
		s3Error(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.act(w, r, kind, key, body)
}

// act does what a request asks for. The caller holds mu.
func (s *s3Server) act(w http.ResponseWriter, r *http.Request, kind, key string, body []byte) {
	upload := r.URL.Query().Get("uploadId")
	switch kind {
	case "put":
		w.Header().Set("ETag", s.store(key, body, r.Header.Get("Content-Type")))
	case "create":
		upload = fmt.Sprintf("%s;%d;%s", key, len(s.seen), r.Header.Get("Content-Type"))
		s.parts[upload] = map[int][]byte{}
		s3XML(w, "InitiateMultipartUploadResult", map[string]string{"Bucket": testBucket, "Key": key, "UploadId": upload})
	case "part":
		n, err := strconv.Atoi(r.URL.Query().Get("partNumber"))
		if err != nil || s.parts[upload] == nil {
			s3Error(w, http.StatusNotFound, "NoSuchUpload")
			return
		}
		s.parts[upload][n] = body
		w.Header().Set("ETag", etag(body))
	case "complete":
		var whole []byte
		for _, n := range slices.Sorted(maps.Keys(s.parts[upload])) {
			whole = append(whole, s.parts[upload][n]...)
		}
		delete(s.parts, upload)
		tag := s.store(key, whole, upload[strings.LastIndexByte(upload, ';')+1:])
		s3XML(w, "CompleteMultipartUploadResult", map[string]string{"Bucket": testBucket, "Key": key, "ETag": tag})
	case "abort":
		delete(s.parts, upload)
		s.aborted++
		w.WriteHeader(http.StatusNoContent)
	case "get", "head":
		s.read(w, kind, key)
	default:
		s3Error(w, http.StatusNotImplemented, "NotImplemented")
	}
}

func (s *s3Server) read(w http.ResponseWriter, kind, key string) {
	o, ok := s.objects[key]
	if !ok {
		s3Error(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	h := w.Header()
	h.Set("Content-Type", o.kind)
	h.Set("Content-Length", strconv.Itoa(len(o.body)))
	h.Set("ETag", etag(o.body))
	h.Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	if kind == "head" {
		return
	}
	body := o.body
	if s.give != nil {
		body = s.give(slices.Clone(body))
	}
	_, _ = w.Write(body)
}

func (s *s3Server) store(key string, body []byte, kind string) string {
	if s.keep != nil {
		body = s.keep(slices.Clone(body))
	}
	s.objects[key] = s3Object{body: body, kind: kind}
	return etag(body)
}

func etag(body []byte) string {
	sum := md5.Sum(body)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func s3XML(w http.ResponseWriter, root string, members map[string]string) {
	var b strings.Builder
	b.WriteString(xml.Header + "<" + root + ">")
	for k, v := range members {
		b.WriteString("<" + k + ">")
		_ = xml.EscapeText(&b, []byte(v))
		b.WriteString("</" + k + ">")
	}
	b.WriteString("</" + root + ">")
	w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(w, b.String())
}

func s3Error(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "%s<Error><Code>%s</Code><Message>%s</Message></Error>", xml.Header, code, code)
}

// s3Body reads a request's body, out of chunks when it comes in chunks.
func s3Body(r *http.Request) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return io.ReadAll(r.Body)
	}
	in := bufio.NewReader(r.Body)
	var body bytes.Buffer
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			if _, err := io.Copy(io.Discard, in); err != nil { // the trailer
				return nil, err
			}
			break
		}
		if _, err := io.CopyN(&body, in, n); err != nil {
			return nil, err
		}
		if _, err := in.Discard(2); err != nil {
			return nil, err
		}
	}
	if want := r.Header.Get("X-Amz-Decoded-Content-Length"); want != strconv.Itoa(body.Len()) {
		return nil, fmt.Errorf("%d bytes of %s", body.Len(), want)
	}
	return body.Bytes(), nil
}

// refused checks the signature, by making it anew of what was signed. Its answer is an error code of S3's.
func (s *s3Server) refused(r *http.Request) string {
	creds := aws.Credentials{AccessKeyID: testAccessKey, SecretAccessKey: testSecretKey}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	again, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.String(), http.NoBody)
	if err != nil {
		return "InvalidRequest"
	}
	q := r.URL.Query()
	if q.Has("X-Amz-Signature") {
		return presignedRefusal(r, again, signer, creds)
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	auth := r.Header.Get("Authorization")
	_, signed, ok := strings.Cut(auth, "SignedHeaders=")
	if err != nil || !ok {
		return "AccessDenied"
	}
	signed, _, _ = strings.Cut(signed, ",")
	for name := range strings.SplitSeq(signed, ";") {
		if name == "content-length" {
			again.ContentLength = r.ContentLength
			continue
		}
		if name != "host" {
			again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	if err := signer.SignHTTP(r.Context(), creds, again, r.Header.Get("X-Amz-Content-Sha256"), "s3", testRegion, at); err != nil {
		return "InvalidRequest"
	}
	if again.Header.Get("Authorization") != auth {
		return "SignatureDoesNotMatch"
	}
	return ""
}

func presignedRefusal(r, again *http.Request, signer *v4.Signer, creds aws.Credentials) string {
	q := r.URL.Query()
	at, err := time.Parse("20060102T150405Z", q.Get("X-Amz-Date"))
	if err != nil {
		return "AuthorizationQueryParametersError"
	}
	seconds, err := strconv.Atoi(q.Get("X-Amz-Expires"))
	if err != nil || seconds > 7*24*3600 {
		return "AuthorizationQueryParametersError"
	}
	given := q.Get("X-Amz-Signature")
	for _, name := range []string{"Algorithm", "Credential", "Date", "SignedHeaders", "Signature"} {
		q.Del("X-Amz-" + name)
	}
	again.URL.RawQuery = q.Encode()
	made, _, err := signer.PresignHTTP(r.Context(), creds, again, "UNSIGNED-PAYLOAD", "s3", testRegion, at)
	if err != nil {
		return "InvalidRequest"
	}
	u, err := url.Parse(made)
	if err != nil || u.Query().Get("X-Amz-Signature") != given {
		return "SignatureDoesNotMatch"
	}
	if time.Now().After(at.Add(time.Duration(seconds) * time.Second)) {
		return "AccessDenied"
	}
	return ""
}
