package oauth_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/ringmaster/ringmaster/httpapi/oauth"
)

func TestCodeFlow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := b.signedIn(t, "openid", "profile", "email", "offline_access", "campaigns:read")
	require.Equal(t, "Bearer", token.TokenType)
	require.NotEmpty(t, token.RefreshToken)
	claims, err := b.tokens.Verify(token.AccessToken)
	require.NoError(t, err)
	require.Equal(t, b.user.ID, claims.User)
	require.Equal(t, b.home, claims.Tenant)
	require.ElementsMatch(t, []string{"openid", "profile", "email", "offline_access", "campaigns:read"}, claims.Scopes)
	raw, _ := token.Extra("id_token").(string)
	var ofID jwt.RegisteredClaims
	id, _, err := jwt.NewParser().ParseUnverified(raw, &ofID)
	require.NoError(t, err)
	require.Equal(t, "JWT", id.Header["typ"])
	require.Equal(t, jwt.ClaimStrings{b.client.String()}, ofID.Audience)

	// Who was asked isn't asked again.
	cfg, verifier := b.config("openid"), oauth2.GenerateVerifier()
	p := b.get(t, cfg.AuthCodeURL("x", oauth2.S256ChallengeOption(verifier)))
	require.NotEmpty(t, b.answer(t, p).Get("code"))

	b.clock.Advance(2 * time.Second)
	status, got := b.post(t, oauth.PathToken, "grant_type", "refresh_token", "refresh_token", token.RefreshToken)
	require.Equal(t, http.StatusOK, status, got)
	next, _ := got["refresh_token"].(string)
	require.NotEqual(t, token.RefreshToken, next)
	require.NotEmpty(t, got["id_token"])

	b.clock.Advance(2 * time.Second)
	status, got = b.post(t, oauth.PathToken, "grant_type", "refresh_token", "refresh_token", token.RefreshToken)
	require.Equal(t, http.StatusBadRequest, status)
	require.Equal(t, "invalid_grant", got["error"])
	status, got = b.post(t, oauth.PathToken, "grant_type", "refresh_token", "refresh_token", next)
	require.Equal(t, http.StatusBadRequest, status, "with a reuse the family ends")
	require.Equal(t, "invalid_grant", got["error"])
	_, err = b.tokens.Verify(token.AccessToken)
	require.Error(t, err)
}

func TestCodeTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg, verifier := b.config("openid", "offline_access"), oauth2.GenerateVerifier()
	code := b.authorize(t, cfg.AuthCodeURL("x", oauth2.S256ChallengeOption(verifier))).Get("code")
	token, err := cfg.Exchange(b.ctx(t), code, oauth2.VerifierOption(verifier))
	require.NoError(t, err)
	_, err = cfg.Exchange(b.ctx(t), code, oauth2.VerifierOption(verifier))
	require.ErrorContains(t, err, "invalid_grant")
	_, err = b.tokens.Verify(token.AccessToken)
	require.Error(t, err)
	status, _ := b.post(t, oauth.PathToken, "grant_type", "refresh_token", "refresh_token", token.RefreshToken)
	require.Equal(t, http.StatusBadRequest, status)
}

// Of many who use a refresh token at once exactly one gets the next, and the family goes on.
func TestRefreshAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := b.signedIn(t, "offline_access", "campaigns:read")
	const together = 1000
	var given, refused atomic.Int64
	var next atomic.Value
	var wg sync.WaitGroup
	gate := make(chan struct{}, 32)
	for range together {
		wg.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			status, got := b.post(t, oauth.PathToken, "grant_type", "refresh_token", "refresh_token", token.RefreshToken)
			switch {
			case status == http.StatusOK:
				given.Add(1)
				next.Store(got["refresh_token"])
			case got["error"] == "invalid_grant":
				refused.Add(1)
			default:
				t.Errorf("%d %v", status, got)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, given.Load())
	require.EqualValues(t, together-1, refused.Load())
	last, _ := next.Load().(string)
	status, got := b.post(t, oauth.PathToken, "grant_type", "refresh_token", "refresh_token", last)
	require.Equal(t, http.StatusOK, status, got)
}
