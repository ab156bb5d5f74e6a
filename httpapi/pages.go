package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/ringmaster/ringmaster/httpapi/docs"
)

// pageCache has browsers keep the pages and ask each time whether they hold: after an upgrade a page of before would go with a style sheet of after.
const pageCache = "public, no-cache"

// pageOperations serve the pages of package docs.
func pageOperations() []operation {
	pages := docs.Pages()
	ops := make([]operation, 0, len(pages))
	for _, p := range pages {
		ops = append(ops, operation{method: http.MethodGet, path: p.Path, access: accessOpen, page: true, handle: servePage(p)})
	}
	return ops
}

func servePage(p docs.Page) handlerFunc {
	headers := map[string]string{
		fasthttp.HeaderContentSecurityPolicy: docs.Policy, fasthttp.HeaderXContentTypeOptions: "nosniff",
		fasthttp.HeaderReferrerPolicy: "no-referrer", fasthttp.HeaderCacheControl: pageCache, fasthttp.HeaderVary: fasthttp.HeaderAcceptEncoding,
	}
	whole := tagged(p.Body, headers)
	compressed := whole
	if p.Gzip != nil {
		headers = maps.Clone(headers)
		headers[fasthttp.HeaderContentEncoding] = "gzip"
		compressed = tagged(p.Gzip, headers)
	}
	return func(_ context.Context, r *request) (reply, error) {
		get := whole
		if takesGzip(r) {
			get = compressed
		}
		out, err := get()
		if err == nil && listsTag(string(r.rc.Request.Header.Peek(fasthttp.HeaderIfNoneMatch)), out.headers[fasthttp.HeaderETag]) {
			return reply{status: http.StatusNotModified, headers: out.headers}, nil
		}
		out.contentType = p.ContentType
		return out, err
	}
}

// tagged makes the answer with a page's bytes and their entity tag, once.
func tagged(get func() ([]byte, error), headers map[string]string) func() (reply, error) {
	return sync.OnceValues(func() (reply, error) {
		body, err := get()
		if err != nil {
			return reply{}, err
		}
		sum := sha256.Sum256(body)
		with := maps.Clone(headers)
		with[fasthttp.HeaderETag] = `"` + hex.EncodeToString(sum[:8]) + `"`
		return reply{status: http.StatusOK, raw: body, headers: with}, nil
	})
}

// takesGzip reads Accept-Encoding as browsers write it; who writes it otherwise gets the page as it is.
func takesGzip(r *request) bool {
	for coding := range strings.SplitSeq(string(r.rc.Request.Header.Peek(fasthttp.HeaderAcceptEncoding)), ",") {
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			return true
		}
	}
	return false
}
