package httpapi

import (
	"context"
	"maps"
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/ringmaster/ringmaster/httpapi/docs"
)

// pageCache is how long browsers keep the pages, which change with the binary alone.
const pageCache = "public, max-age=600"

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
	compressed := map[string]string{fasthttp.HeaderContentEncoding: "gzip"}
	maps.Copy(compressed, headers)
	return func(_ context.Context, r *request) (reply, error) {
		get, with := p.Body, headers
		if p.Gzip != nil && takesGzip(r) {
			get, with = p.Gzip, compressed
		}
		body, err := get()
		return reply{status: http.StatusOK, raw: body, contentType: p.ContentType, headers: with}, err
	}
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
