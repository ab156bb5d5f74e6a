package apitest

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas holds bodies of JSON against the document's schemas, which OpenAPI 3.1 has in common with JSON Schema. Each is compiled once:
// openapi3filter would compile it, and all that it refers to, for every body. Safe for concurrent use.
type schemas struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema // by their places in the document
}

// documentURL names the document in messages of errors.
const documentURL = "https://ringmaster.test/openapi.json"

func newSchemas(document []byte) (*schemas, error) {
	s := &schemas{compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	s.compiler.AssertFormat()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err == nil {
		err = s.compiler.AddResource(documentURL, value)
	}
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document's schemas: %w", err)
	}
	return s, nil
}

// check holds a body against the schema at a place of the document, which is a JSON pointer behind "#".
func (s *schemas) check(place string, body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the body is no JSON: %w", err)
	}
	schema, err := s.at(place)
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func (s *schemas) at(place string) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	schema := s.compiled[place]
	if schema != nil {
		return schema, nil
	}
	schema, err := s.compiler.Compile(documentURL + place)
	if err != nil {
		return nil, fmt.Errorf("compile the schema at %s: %w", place, err)
	}
	s.compiled[place] = schema
	return schema, nil
}

// checkRequest holds what was sent, and accepted, against the operation's schema.
func (s *schemas) checkRequest(route *routers.Route, contentType string, body []byte) error {
	ref := route.Operation.RequestBody
	if ref == nil || len(body) == 0 && !ref.Value.Required {
		return nil
	}
	if len(body) == 0 {
		return errors.New("the document requires a body")
	}
	return s.checkContent(place(ref.Ref, route, "requestBody"), ref.Value.Content, contentType, body)
}

// checkResponse holds an answer against the operation's schema for its status.
func (s *schemas) checkResponse(route *routers.Route, status int, contentType string, body []byte) error {
	key := strconv.Itoa(status)
	ref := route.Operation.Responses.Value(key)
	if ref == nil {
		key, ref = "default", route.Operation.Responses.Default()
	}
	if ref == nil {
		return fmt.Errorf("status %d is not documented", status)
	}
	if len(ref.Value.Content) == 0 {
		return nil
	}
	return s.checkContent(place(ref.Ref, route, "responses", key), ref.Value.Content, contentType, body)
}

func (s *schemas) checkContent(at string, content openapi3.Content, contentType string, body []byte) error {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return fmt.Errorf("read the content type %q: %w", contentType, err)
	}
	described := content[media]
	switch {
	case described == nil:
		return fmt.Errorf("content type %s is not documented", media)
	case described.Schema == nil || !isJSON(media):
		return nil
	}
	return s.check(at+pointer("content", media, "schema"), body)
}

func isJSON(media string) bool {
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// place is where a part of an operation stands in the document: where its reference leads, or below its path.
func place(ref string, route *routers.Route, keys ...string) string {
	if ref != "" {
		return ref
	}
	return "#" + pointer(append([]string{"paths", route.Path, strings.ToLower(route.Method)}, keys...)...)
}

// pointer is a JSON pointer as a part of a URL (RFC 6901 section 6).
func pointer(keys ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", "{", "%7B", "}", "%7D", " ", "%20", "+", "%2B")
	var out strings.Builder
	for _, key := range keys {
		out.WriteString("/" + escape.Replace(key))
	}
	return out.String()
}
