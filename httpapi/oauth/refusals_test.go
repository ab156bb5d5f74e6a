package oauth_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/oauth"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// The tables of what is refused: by which code of the standard, and what must not have come of it.

// verifier is the tests' PKCE code verifier, and challenge its S256 challenge.
const verifier = "a-verifier-of-43-characters-or-more-it-must-be.~_"

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return encode(sum[:])
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// member is a text in an answer; empty if it isn't there.
func member(body map[string]any, name string) string {
	text, _ := body[name].(string)
	return text
}

// headerOf is the header of a JWT.
func headerOf(t *testing.T, token string) (header map[string]any) {
	t.Helper()
	first, _, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(first)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &header))
	return header
}

// described are the characters of an error_description (RFC 6749, 4.1.2.1 and 5.2).
var described = regexp.MustCompile(`^[\x20-\x21\x23-\x5B\x5D-\x7E]+$`)

// ledger counts all that is kept of authorizations: what is refused leaves it as it was.
type ledger struct {
	Families, Ended, Codes, CodesUsed, Refresh, RefreshUsed, Grants, Assertions int64
}

func (b *bundle) ledger(t *testing.T) ledger {
	t.Helper()
	var l ledger
	require.NoError(t, b.st.InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), `SELECT (SELECT count(*) FROM oauth_families), (SELECT count(ended_at) FROM oauth_families),
			(SELECT count(*) FROM oauth_codes), (SELECT count(used_at) FROM oauth_codes), (SELECT count(*) FROM oauth_refresh_tokens),
			(SELECT count(used_at) FROM oauth_refresh_tokens), (SELECT count(*) FROM oauth_grants), (SELECT count(*) FROM oauth_assertions)`).Scan(
			&l.Families, &l.Ended, &l.Codes, &l.CodesUsed, &l.Refresh, &l.RefreshUsed, &l.Grants, &l.Assertions)
	}))
	return l
}

// asking is an authorization request of a client that is as it should be.
func (b *bundle) asking(client uuid.UUID, scope string) url.Values {
	return url.Values{
		"client_id": {client.String()}, "redirect_uri": {callback}, "response_type": {"code"}, "scope": {scope}, "state": {"st"}, "nonce": {"n"},
		"code_challenge": {challengeOf(verifier)}, "code_challenge_method": {"S256"},
	}
}

func (b *bundle) authorizeURL(query url.Values) string {
	return b.server.URL + oauth.PathAuthorize + "?" + query.Encode()
}

// code goes through the pages, and gives a code.
func (b *bundle) code(t *testing.T, client uuid.UUID, scope string) string {
	t.Helper()
	got := b.authorize(t, b.authorizeURL(b.asking(client, scope)))
	require.NotEmpty(t, got.Get("code"), got)
	return got.Get("code")
}

// set and its like change a request.
func set(pairs ...string) func(url.Values) {
	return func(q url.Values) {
		for i := 0; i < len(pairs); i += 2 {
			q.Set(pairs[i], pairs[i+1])
		}
	}
}

func without(names ...string) func(url.Values) {
	return func(q url.Values) {
		for _, name := range names {
			q.Del(name)
		}
	}
}

func twice(name string) func(url.Values) {
	return func(q url.Values) { q.Add(name, q.Get(name)) }
}

// request is what a client sends to an endpoint.
type request struct {
	method, path string
	id, secret   string // for the Authorization header; none without an id
	form         url.Values
	header       http.Header
	body         *string // in place of the form
}

func (b *bundle) do(t *testing.T, r request) (int, map[string]any, http.Header) {
	t.Helper()
	body := r.form.Encode()
	if r.body != nil {
		body = *r.body
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, b.server.URL+r.path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	maps.Copy(req.Header, r.header)
	if r.id != "" {
		req.SetBasicAuth(url.QueryEscape(r.id), url.QueryEscape(r.secret))
	}
	res, err := b.server.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	got := map[string]any{}
	if len(raw) > 0 {
		require.NoError(t, json.Unmarshal(raw, &got), string(raw))
	}
	return res.StatusCode, got, res.Header
}

// refuses sends a request that is to be refused: with a code of the standard, and no token.
func (b *bundle) refuses(t *testing.T, r request, status int, code string) {
	t.Helper()
	got, body, header := b.do(t, r)
	require.Equal(t, status, got, body)
	require.Equal(t, code, body["error"], body)
	require.Regexp(t, described, body["error_description"])
	for _, name := range []string{"access_token", "refresh_token", "id_token"} {
		require.NotContains(t, body, name)
	}
	require.Equal(t, "no-store", header.Get("Cache-Control"))
	if status == http.StatusUnauthorized {
		require.NotEmpty(t, header.Get("WWW-Authenticate"), "RFC 9110, 11.6.1")
	}
}

// change changes the store, and the way back is taken when the row is over.
func (b *bundle) change(t *testing.T, tenant uuid.UUID, sql, back string, args ...any) {
	t.Helper()
	storetest.Exec(t, b.st, tenant, sql, args...)
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		require.NoError(t, b.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
			_, err := tx.Pgx().Exec(ctx, back, args...)
			return err
		}))
	})
}
