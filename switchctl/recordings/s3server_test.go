package recordings

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
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
		s3Refuse(w, http.StatusForbidden, code)
		return
	}
	body, err := s3Body(r)
	if err != nil {
		s3Refuse(w, http.StatusBadRequest, "IncompleteBody")
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
		s3Refuse(w, http.StatusInternalServerError, "InternalError")
		return
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if bucket != testBucket {
		s3Refuse(w, http.StatusNotFound, "NoSuchBucket")
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
			s3Refuse(w, http.StatusNotFound, "NoSuchUpload")
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
		s.read(w, r, kind, key)
	default:
		s3Refuse(w, http.StatusNotImplemented, "NotImplemented")
	}
}

func (s *s3Server) read(w http.ResponseWriter, r *http.Request, kind, key string) {
	o, ok := s.objects[key]
	if !ok {
		s3Refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	h := w.Header()
	h.Set("Content-Type", o.kind)
	h.Set("ETag", etag(o.body))
	if kind == "get" && r.Header.Get("Range") != "" {
		http.ServeContent(w, r, key, time.Now(), bytes.NewReader(o.body))
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(o.body)))
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

func s3Refuse(w http.ResponseWriter, status int, code string) {
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

// refused checks the signature, by making it anew of what was signed, as AWS's Signature Version 4 says; by hand, so that the client's own
// code does not vouch for itself. Its answer is an error code of S3's.
func (s *s3Server) refused(r *http.Request) string {
	q := r.URL.Query()
	at, signed, given, payload := q.Get("X-Amz-Date"), q.Get("X-Amz-SignedHeaders"), q.Get("X-Amz-Signature"), "UNSIGNED-PAYLOAD"
	credential := q.Get("X-Amz-Credential")
	presigned := q.Has("X-Amz-Signature")
	if !presigned {
		at, payload = r.Header.Get("X-Amz-Date"), r.Header.Get("X-Amz-Content-Sha256")
		auth, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
		for member := range strings.SplitSeq(auth, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(member), "=")
			switch name {
			case "Credential":
				credential = value
			case "SignedHeaders":
				signed = value
			case "Signature":
				given = value
			}
		}
		if !ok {
			return "AccessDenied"
		}
	}
	when, err := time.Parse("20060102T150405Z", at)
	scope := at[:min(8, len(at))] + "/" + testRegion + "/s3/aws4_request"
	if err != nil || credential != testAccessKey+"/"+scope {
		return "AuthorizationHeaderMalformed"
	}
	if given != s3Signature(r, at, scope, signed, payload) {
		return "SignatureDoesNotMatch"
	}
	if !presigned {
		return ""
	}
	seconds, err := strconv.Atoi(q.Get("X-Amz-Expires"))
	if err != nil || seconds > 7*24*3600 {
		return "AuthorizationQueryParametersError"
	}
	if time.Now().After(when.Add(time.Duration(seconds) * time.Second)) {
		return "AccessDenied"
	}
	return ""
}

func s3Signature(r *http.Request, at, scope, signed, payload string) string {
	q := r.URL.Query()
	q.Del("X-Amz-Signature")
	var canonical strings.Builder
	canonical.WriteString(r.Method + "\n" + r.URL.EscapedPath() + "\n" + strings.ReplaceAll(q.Encode(), "+", "%20") + "\n")
	for name := range strings.SplitSeq(signed, ";") {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = strconv.FormatInt(r.ContentLength, 10)
		}
		canonical.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	canonical.WriteString("\n" + signed + "\n" + payload)
	hash := sha256.Sum256([]byte(canonical.String()))
	key := []byte("AWS4" + testSecretKey)
	for _, text := range append(strings.Split(scope, "/"), "AWS4-HMAC-SHA256\n"+at+"\n"+scope+"\n"+hex.EncodeToString(hash[:])) {
		m := hmac.New(sha256.New, key)
		_, _ = io.WriteString(m, text)
		key = m.Sum(nil)
	}
	return hex.EncodeToString(key)
}
