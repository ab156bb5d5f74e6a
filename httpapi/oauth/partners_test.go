package oauth_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"github.com/ringmaster/ringmaster/httpapi/oauth"
)

// Clients that others wrote.

const partnerScopes = "openid profile email offline_access campaigns:read"

// Go's own: golang.org/x/oauth2 and github.com/coreos/go-oidc.
func TestGoOIDC(t *testing.T) {
	t.Parallel()
	b := setupAt(t, time.Now)
	ctx := oidc.ClientContext(t.Context(), b.server.Client())
	provider, err := oidc.NewProvider(ctx, b.server.URL)
	require.NoError(t, err)
	cfg := &oauth2.Config{
		ClientID: b.client.String(), ClientSecret: secret, RedirectURL: callback, Scopes: strings.Fields(partnerScopes), Endpoint: provider.Endpoint(),
	}
	pkce, nonce := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	got := b.authorize(t, cfg.AuthCodeURL("a state", oauth2.S256ChallengeOption(pkce), oidc.Nonce(nonce)))
	require.Equal(t, "a state", got.Get("state"))
	token, err := cfg.Exchange(ctx, got.Get("code"), oauth2.VerifierOption(pkce))
	require.NoError(t, err)
	verifier := provider.Verifier(&oidc.Config{ClientID: b.client.String(), SupportedSigningAlgs: []string{oidc.RS256}})
	verified := func(token *oauth2.Token) *oidc.IDToken {
		raw, _ := token.Extra("id_token").(string)
		id, err := verifier.Verify(ctx, raw)
		require.NoError(t, err)
		require.NotEmpty(t, id.AccessTokenHash)
		require.NoError(t, id.VerifyAccessToken(token.AccessToken))
		require.Equal(t, b.user.ID.String(), id.Subject)
		require.Equal(t, []string{b.client.String()}, id.Audience)
		return id
	}
	first := verified(token)
	require.Equal(t, nonce, first.Nonce)

	next, err := cfg.TokenSource(ctx, &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
	require.NoError(t, err)
	require.NotEqual(t, token.RefreshToken, next.RefreshToken)
	again := verified(next)
	var was, is struct {
		AuthTime int64 `json:"auth_time"`
	}
	require.NoError(t, first.Claims(&was))
	require.NoError(t, again.Claims(&is))
	require.Equal(t, was, is, "the time of the sign-in, not of the refresh (OpenID Connect Core 1.0, 12.2)")

	info, err := provider.UserInfo(ctx, cfg.TokenSource(ctx, next))
	require.NoError(t, err)
	require.Equal(t, b.user.ID.String(), info.Subject)
	require.Equal(t, b.user.Email, info.Email)

	var endpoints struct {
		Introspection string `json:"introspection_endpoint"`
		Revocation    string `json:"revocation_endpoint"`
	}
	require.NoError(t, provider.Claims(&endpoints))
	ask := func(address, token string) (int, map[string]any) {
		status, got, _ := b.do(t, b.about(strings.TrimPrefix(address, b.server.URL), token))
		return status, got
	}
	_, said := ask(endpoints.Introspection, next.AccessToken)
	require.Equal(t, true, said["active"])
	require.Equal(t, b.user.ID.String(), said["sub"])
	status, _ := ask(endpoints.Revocation, next.RefreshToken)
	require.Equal(t, http.StatusOK, status)
	_, said = ask(endpoints.Introspection, next.AccessToken)
	require.Equal(t, false, said["active"])
	_, err = provider.UserInfo(ctx, oauth2.StaticTokenSource(next))
	require.Error(t, err)
	_, err = cfg.TokenSource(ctx, &oauth2.Token{RefreshToken: next.RefreshToken}).Token()
	refusal := new(oauth2.RetrieveError)
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, "invalid_grant", refusal.ErrorCode)
}

// Its assertions have the token URL as their audience, and no jti.
func TestGoJWTBearer(t *testing.T) { //nolint:tparallel // one browser, one row after another
	t.Parallel()
	b := setupAt(t, time.Now)
	key, _ := b.signs(t, b.client)
	b.code(t, b.client, "openid offline_access campaigns:read") // the user is another tenant's, and lets the client act
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	for name, audience := range map[string]string{"the token URL": "", "the client's id": b.client.String()} {
		t.Run(name, func(t *testing.T) {
			cfg := &jwt.Config{
				Email: assertionIssuer, Subject: b.user.ID.String(), PrivateKey: private, TokenURL: b.server.URL + oauth.PathToken, Audience: audience,
				Expires: 4 * time.Minute, PrivateClaims: map[string]any{"tenant_id": b.home.String()},
			}
			token, err := cfg.TokenSource(b.ctx(t)).Token()
			require.NoError(t, err)
			claims, err := b.tokens.Verify(token.AccessToken)
			require.NoError(t, err)
			require.Equal(t, b.user.ID, claims.User)
			require.ElementsMatch(t, []string{"openid", "campaigns:read"}, claims.Scopes)
		})
	}
}

// Node's: openid-client, which is certified as a relying party.
func TestOpenIDClient(t *testing.T) { //nolint:tparallel // one browser, one row after another
	t.Parallel()
	dir := nodeModules(t)
	b := setupAt(t, time.Now)
	const redirect = "https://partner.example/node"
	for _, auth := range []string{"basic", "post"} {
		t.Run("client_secret_"+auth, func(t *testing.T) {
			client := b.addClient(t, []string{redirect}, strings.Fields(partnerScopes))
			key, _ := b.signs(t, client)
			der, err := x509.MarshalPKCS8PrivateKey(key)
			require.NoError(t, err)
			got := b.runNode(t, dir, client, redirect, map[string]string{
				"AUTH": auth, "REDIRECT_URI": redirect, "JWT_ISSUER": assertionIssuer,
				"PRIVATE_KEY": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
			})
			require.Equal(t, map[string]string{"email": b.user.Email, "name": "Uma", "scope": "openid campaigns:read", "token_type": "bearer"}, got)
		})
	}
}

// runNode runs the application, and is its user's browser.
func (b *bundle) runNode(t *testing.T, dir string, client uuid.UUID, redirect string, env map[string]string) (got map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "flow.js")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "ISSUER="+b.server.URL, "CLIENT_ID="+client.String(), "CLIENT_SECRET="+secret,
		"SUBJECT="+b.user.ID.String(), "TENANT="+b.home.String())
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var faults bytes.Buffer
	cmd.Stderr = &faults
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	if lines.Scan() {
		p := b.get(t, lines.Text())
		if strings.Contains(p.body, `name="password"`) {
			p = b.send(t, p, "email", b.user.Email, "password", password)
		}
		p = b.send(t, p, "decision", "allow")
		require.True(t, strings.HasPrefix(p.location, redirect+"?"), p.location)
		_, err = io.WriteString(in, p.location+"\n")
		require.NoError(t, err)
	}
	lines.Scan()
	last := bytes.Clone(lines.Bytes())
	require.NoError(t, cmd.Wait(), faults.String())
	require.NoError(t, json.Unmarshal(last, &got), "%s", last)
	return got
}

// nodeModules gives a folder with the application and what it stands on, which is installed once for each lock file, outside the tree.
func nodeModules(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("*** SKIPPED: %s is not installed, so that openid-client doesn't run ***", name)
		}
	}
	source := filepath.Join("testdata", "openid-client")
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	require.NoError(t, err)
	sum := sha256.Sum256(lock)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	installed := filepath.Join(cache, "ringmaster", "openid-client-"+hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(installed); err != nil {
		install(t, source, installed)
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(source)))
	require.NoError(t, os.Symlink(filepath.Join(installed, "node_modules"), filepath.Join(dir, "node_modules")))
	return dir
}

func install(t *testing.T, source, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
	made, err := os.MkdirTemp(filepath.Dir(to), "openid-client-*.part") //nolint:usetesting // on the same file system, so that it can be renamed
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(made) }()
	require.NoError(t, os.CopyFS(made, os.DirFS(source)))
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir = made
	cmd.Env = append(os.Environ(), "npm_config_update_notifier=false")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("*** SKIPPED: npm can't install openid-client: %v ***\n%s", err, said)
	}
	if err := os.Rename(made, to); err != nil { // another process was faster, or this is a fault
		require.DirExists(t, to, "%v", err)
	}
}
