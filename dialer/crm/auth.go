package crm

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// Kinds of auth.
const (
	authNone   = "none"
	authBearer = "bearer"
	authBasic  = "basic"
	authOAuth2 = "oauth2_client_credentials"
)

// Auth is how requests to a CRM are authenticated.
type Auth struct {
	Type string `json:"type"`
	// Token is a bearer's.
	Token string `json:"token,omitempty"`
	// Username and Password are basic's.
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	// The rest is OAuth 2.0's (RFC 6749, 4.4). Scope is a list with spaces between; Audience is for servers that ask for it.
	TokenURL     string `json:"token_url,omitempty"`
	ClientID     string `json:"client_id,omitempty"`
	ClientSecret string `json:"client_secret,omitempty"`
	Scope        string `json:"scope,omitempty"`
	Audience     string `json:"audience,omitempty"`
}

// tokenEarly is how long before its end a token is replaced.
const tokenEarly = time.Minute

// maxTokens bounds the tokens that are kept, and maxToken each of them, in bytes.
const (
	maxTokens = 1000
	maxToken  = 16 << 10
)

// tokens keeps the access tokens of integrations. It is safe for concurrent use.
type tokens struct {
	client *client
	mu     sync.Mutex
	kept   map[uuid.UUID]*keptToken
}

type keptToken struct {
	mu    sync.Mutex // held while a token is fetched: others wait for that one
	of    Auth
	token *oauth2.Token

	used time.Time // of the keeper's lock
}

// authorize adds what proves who we are. fresh is for whom the token of before was refused: it gets another one.
func (t *tokens) authorize(ctx context.Context, integration uuid.UUID, a Auth, h http.Header, fresh bool) error {
	switch a.Type {
	case authBearer:
		h.Set("Authorization", "Bearer "+a.Token)
	case authBasic:
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(a.Username+":"+a.Password)))
	case authOAuth2:
		ctx, internal := t.client.guard.Watch(ctx)
		token, err := t.token(ctx, integration, a, fresh, h.Get("Authorization"))
		if err != nil {
			err = describe(err)
			if refused, ok := errors.AsType[*RefusedError](err); ok && internal() {
				refused.Reason = ""
			}
			return fmt.Errorf("no access token: %w", err)
		}
		token.SetAuthHeader(&http.Request{Header: h})
	}
	return nil
}

// token gives a token that is good for a while; refused is the header whose token was not.
func (t *tokens) token(ctx context.Context, integration uuid.UUID, a Auth, fresh bool, refused string) (*oauth2.Token, error) {
	t.mu.Lock()
	k := t.kept[integration]
	if k == nil || k.of != a {
		delete(t.kept, integration)
		if len(t.kept) >= maxTokens { // which is fetched again when it is needed
			oldest := slices.MinFunc(slices.Collect(maps.Keys(t.kept)), func(a, b uuid.UUID) int { return t.kept[a].used.Compare(t.kept[b].used) })
			delete(t.kept, oldest)
		}
		k = &keptToken{of: a}
		t.kept[integration] = k
	}
	k.used = t.client.now()
	t.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if have := k.token; have != nil && (have.Expiry.IsZero() || t.client.now().Add(tokenEarly).Before(have.Expiry)) &&
		(!fresh || have.Type()+" "+have.AccessToken != refused) {
		return have, nil
	}
	k.token = nil
	cfg := clientcredentials.Config{ClientID: a.ClientID, ClientSecret: a.ClientSecret, TokenURL: a.TokenURL, Scopes: strings.Fields(a.Scope)}
	if a.Audience != "" {
		cfg.EndpointParams = map[string][]string{"audience": {a.Audience}}
	}
	token, err := cfg.Token(context.WithValue(ctx, oauth2.HTTPClient, t.client.http))
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(token.AccessToken, "\r\n") || len(token.AccessToken) > maxToken {
		return nil, errors.New("the token can't stand in a header")
	}
	k.token = token
	return token, nil
}

// send makes a request as the integration. One whose access token is refused is made again with another token, once.
func (t *tokens) send(ctx context.Context, integration uuid.UUID, a Auth, r request) exchange {
	r.header = r.header.Clone()
	if err := t.authorize(ctx, integration, a, r.header, false); err != nil {
		return exchange{request: r, err: err}
	}
	out := t.client.do(ctx, r)
	if out.code != http.StatusUnauthorized || a.Type != authOAuth2 {
		return out
	}
	if err := t.authorize(ctx, integration, a, r.header, true); err != nil {
		return exchange{request: r, err: err}
	}
	return t.client.do(ctx, r)
}

// forget drops the token of an integration.
func (t *tokens) forget(integration uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.kept, integration)
}
