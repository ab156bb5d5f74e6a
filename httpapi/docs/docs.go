// Package docs holds the pages for people who build on the API: the OpenAPI document as a page, the catalogue of error codes, and the protocol of
// voice agents' sockets with the JSON Schemas of their frames. Nothing in them comes from another host; Policy has browsers hold them to that.
package docs

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/swaggest/swgui/v5/static"

	"github.com/ringmaster/ringmaster/httpapi/openapi"
	"github.com/ringmaster/ringmaster/media/frames"
)

// Policy is the Content-Security-Policy of the pages.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page is a page, or what one consists of.
type Page struct {
	Path, ContentType string
	// Gzip gives the page compressed, where it is kept so; nil otherwise. Body and Gzip give the same bytes to everybody: nobody may write to them.
	Gzip func() ([]byte, error)
	Body func() ([]byte, error)
}

//go:embed static
var own embed.FS

const html = "text/html; charset=utf-8"

// Pages gives all of them. Each is made when it is first asked for: most processes are never asked.
func Pages() []Page {
	pages := []Page{}
	for _, f := range []struct{ at, file, contentType string }{
		{"/docs", "index.html", html},
		{"/docs/websocket", "websocket.html", html},
		{"/docs/page.css", "page.css", "text/css; charset=utf-8"},
		{"/docs/start.js", "start.js", "text/javascript; charset=utf-8"},
	} {
		pages = append(pages, Page{Path: f.at, ContentType: f.contentType, Body: func() ([]byte, error) {
			return read(own, path.Join("static", f.file))
		}})
	}
	for _, transport := range frames.Transports() {
		pages = append(pages, Page{Path: "/docs/schemas/" + transport + ".json", ContentType: "application/schema+json", Body: func() ([]byte, error) {
			return frames.Schema(transport)
		}})
	}
	for _, f := range []struct{ file, contentType string }{
		{"swagger-ui.css", "text/css; charset=utf-8"},
		{"swagger-ui-bundle.js", "text/javascript; charset=utf-8"},
	} {
		compressed := func() ([]byte, error) { return read(static.FS, f.file+".gz") }
		pages = append(pages, Page{Path: "/docs/" + f.file, ContentType: f.contentType, Gzip: compressed, Body: sync.OnceValues(func() ([]byte, error) {
			return expand(compressed())
		})})
	}
	return append(pages, Page{Path: "/docs/errors", ContentType: html, Body: sync.OnceValues(renderErrors)})
}

func read(files fs.ReadFileFS, name string) ([]byte, error) {
	body, err := files.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read page %s: %w", name, err)
	}
	return body, nil
}

func expand(compressed []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("expand a page: %w", err)
	}
	return io.ReadAll(r)
}

// withCode makes what stands between backticks code.
func withCode(text string) template.HTML {
	var out strings.Builder
	for i, part := range strings.Split(text, "`") {
		part = template.HTMLEscapeString(part)
		if i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		out.WriteString(part)
	}
	return template.HTML(out.String()) //nolint:gosec // escaped above
}

func renderErrors() ([]byte, error) {
	codes, err := openapi.ErrorCodes()
	if err != nil {
		return nil, err
	}
	page, err := template.New("errors.html").Funcs(template.FuncMap{"text": withCode}).ParseFS(own, "static/errors.html")
	if err != nil {
		return nil, fmt.Errorf("parse the page of errors: %w", err)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, codes); err != nil {
		return nil, fmt.Errorf("write the page of errors: %w", err)
	}
	return out.Bytes(), nil
}
