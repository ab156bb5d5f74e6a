package access

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// What is not to be let in. Each row changes one thing of a token that is good.
func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock(time.Now().Truncate(time.Second))
	h := newHost(t, storetest.NewURL(t), clock.Now).run(t)
	kid, private, err := h.Signing()
	require.NoError(t, err)
	other, err := rsa.GenerateKey(rand.Reader, keyBits)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	require.NoError(t, err)
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})

	family := uuid.New()
	good := func() (map[string]any, jwt.MapClaims) {
		return map[string]any{"typ": "at+jwt", "alg": "RS256", "kid": kid}, jwt.MapClaims{
			"iss": testIssuer, "aud": testIssuer + "/api", "sub": uuid.NewString(), "tenant_id": uuid.NewString(), "client_id": uuid.NewString(),
			"scope": "calls:read", "jti": JTI(family), "iat": clock.Now().Unix(), "exp": clock.Now().Add(time.Hour).Unix(),
		}
	}
	make := func(method jwt.SigningMethod, key any, change func(head map[string]any, claims jwt.MapClaims)) string {
		head, claims := good()
		if change != nil {
			change(head, claims)
		}
		signed, err := (&jwt.Token{Header: head, Claims: claims, Method: method}).SignedString(key)
		require.NoError(t, err)
		return signed
	}
	claim := func(name string, value any) string {
		return make(jwt.SigningMethodRS256, private, func(_ map[string]any, c jwt.MapClaims) {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		})
	}
	header := func(name string, value any) string {
		return make(jwt.SigningMethodRS256, private, func(h map[string]any, _ jwt.MapClaims) {
			if h[name] = value; value == nil {
				delete(h, name)
			}
		})
	}
	plain := make(jwt.SigningMethodRS256, private, nil)
	_, err = h.Verify(plain)
	require.NoError(t, err, "what the rows are changed from is good")
	for name, token := range map[string]string{
		"iat within the leeway":      claim("iat", clock.Now().Add(leeway).Unix()),
		"nbf within the leeway":      claim("nbf", clock.Now().Add(leeway).Unix()),
		"one of several audiences":   claim("aud", []string{"https://other.example", testIssuer + "/api"}),
		"the media type in full":     header("typ", "application/at+jwt"),
		"the type in capitals":       header("typ", "AT+JWT"),
		"no scopes":                  claim("scope", ""),
		"a header that says nothing": header("x5u", "https://evil.example/key"),
	} {
		_, err := h.Verify(token)
		require.NoError(t, err, name)
	}
	parts := strings.Split(plain, ".")
	encode := base64.RawURLEncoding.EncodeToString
	asNone := func(alg string) string {
		return encode([]byte(`{"typ":"at+jwt","alg":"`+alg+`","kid":"`+kid+`"}`)) + "." + parts[1] + "."
	}
	hs256 := func(key []byte) string {
		return make(jwt.SigningMethodHS256, key, func(h map[string]any, _ jwt.MapClaims) { h["alg"] = "HS256" })
	}
	revoked, end := uuid.New(), uuid.New()
	revokedID := JTI(revoked)
	h.revoke(t, revokedID, clock.Now().Add(time.Hour))
	h.revoke(t, end.String(), clock.Now().Add(time.Hour))

	for _, row := range []struct{ name, token, code string }{
		{"nothing", "", codeInvalid},
		{"no JWT", "a.b.c", codeInvalid},
		{"two parts", parts[0] + "." + parts[1], codeInvalid},
		{"four parts", plain + ".x", codeInvalid},
		{"a JWE's five parts", plain + ".x.y", codeInvalid},
		{"alg none, unsigned", asNone("none"), codeInvalid},
		{"alg NONE", asNone("NONE"), codeInvalid},
		{"alg none with the signature", asNone("none") + parts[2], codeInvalid},
		{"HS256 with the public key's PEM as secret", hs256(publicPEM), codeInvalid},
		{"HS256 with the public key's DER as secret", hs256(der), codeInvalid},
		{"HS256 with the modulus as secret", hs256(private.N.Bytes()), codeInvalid},
		{"RS384", make(jwt.SigningMethodRS384, private, func(h map[string]any, _ jwt.MapClaims) { h["alg"] = "RS384" }), codeInvalid},
		{"PS256", make(jwt.SigningMethodPS256, private, func(h map[string]any, _ jwt.MapClaims) { h["alg"] = "PS256" }), codeInvalid},
		{"an ID token", header("typ", "JWT"), codeInvalid},
		{"no type", header("typ", nil), codeInvalid},
		{"a type that is no text", header("typ", 7), codeInvalid},
		{"a logout token", header("typ", "logout+jwt"), codeInvalid},
		{"extensions that are critical", header("crit", []string{"exp"}), codeInvalid},
		{"an empty crit", header("crit", []string{}), codeInvalid},
		{"an unknown kid", header("kid", uuid.NewString()), codeInvalid},
		{"no kid", header("kid", nil), codeInvalid},
		{"a kid that is no text", header("kid", 1), codeInvalid},
		{"a kid that is a path", header("kid", "../../dev/null"), codeInvalid},
		{"a key of its own in the header", make(jwt.SigningMethodRS256, other, func(h map[string]any, _ jwt.MapClaims) {
			h["jwk"] = map[string]any{"kty": "RSA", "n": encode(other.N.Bytes()), "e": "AQAB"}
		}), codeInvalid},
		{"another key", make(jwt.SigningMethodRS256, other, nil), codeInvalid},
		{"no signature", parts[0] + "." + parts[1] + ".", codeInvalid},
		{"another's signature", parts[0] + "." + strings.Split(claim("scope", "calls:write"), ".")[1] + "." + parts[2], codeInvalid},
		{"a signature with padding", plain + "==", codeInvalid},
		{"another issuer", claim("iss", "https://other.example"), codeInvalid},
		{"the issuer with a slash", claim("iss", testIssuer+"/"), codeInvalid},
		{"no issuer", claim("iss", nil), codeInvalid},
		{"another audience", claim("aud", "https://other.example/api"), codeInvalid},
		{"a client's audience", claim("aud", uuid.NewString()), codeInvalid},
		{"no audience", claim("aud", nil), codeInvalid},
		{"expired", claim("exp", clock.Now().Unix()), codeExpired},
		{"no end", claim("exp", nil), codeInvalid},
		{"an end that is no number", claim("exp", "never"), codeInvalid},
		{"made in the future", claim("iat", clock.Now().Add(leeway+time.Second).Unix()), codeInvalid},
		{"no iat", claim("iat", nil), codeInvalid},
		{"good in the future", claim("nbf", clock.Now().Add(leeway+time.Second).Unix()), codeInvalid},
		{"a user that is none", claim("sub", "admin"), codeInvalid},
		{"no tenant", claim("tenant_id", nil), codeInvalid},
		{"no client", claim("client_id", nil), codeInvalid},
		{"no jti", claim("jti", nil), codeInvalid},
		{"a jti of no family", claim("jti", "x."+uuid.NewString()), codeInvalid},
		{"a jti of the family alone", claim("jti", family.String()), codeInvalid},
		{"a family written in capitals", claim("jti", strings.ToUpper(end.String())+".x"), codeInvalid},
		{"a revoked token", claim("jti", revokedID), codeInvalid},
		{"a token of a family that has ended", claim("jti", JTI(end)), codeInvalid},
		{"more than 4 KiB", claim("scope", strings.Repeat("calls:read ", 400)), codeInvalid},
	} {
		kind, code := h.refused(t, row.token)
		require.Equal(t, fault.Unauthorized, kind, row.name)
		require.Equal(t, row.code, code, row.name)
	}
	require.Equal(t, 2, h.outcomes(outcomeRevoked))
}

// A bearer's form says which kind it is, whatever it is worth.
func TestIs(t *testing.T) {
	t.Parallel()
	h := newHost(t, storetest.NewURL(t), time.Now)
	encode := base64.RawURLEncoding.EncodeToString
	for header, want := range map[string]bool{
		`{"typ":"at+jwt","alg":"RS256"}`: true, `{"alg":"none","typ":"application/at+jwt"}`: true, `{"typ":"JWT","alg":"HS256"}`: false, `{"alg":"RS256"}`: false,
		`{"typ":7}`: false, `[]`: false, `{"typ":"at+jwt","x":"` + strings.Repeat("x", maxHeader) + `"}`: false,
	} {
		require.Equal(t, want, h.Is(encode([]byte(header))+".e30.x"), header)
	}
	for _, token := range []string{"", ".", "..", "svc_live_abc", "svc_oauth_a.b.c", encode([]byte(`{"typ":"at+jwt"}`)), encode([]byte(`{"typ":"at+jwt"}`)) + ".a.b.c"} {
		require.False(t, h.Is(token), token)
	}
}

func FuzzVerify(f *testing.F) {
	h := newHost(f, storetest.NewURL(f), time.Now).run(f)
	token, _ := h.mint(f)
	f.Add(token)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, in string) {
		h.Is(in)
		if _, err := h.Verify(in); err == nil {
			require.Equal(t, token, in)
		}
	})
}

// BenchmarkVerify is what a request with an access token costs beyond the look-up of its user.
func BenchmarkVerify(b *testing.B) {
	h := newHost(b, storetest.NewURL(b), time.Now).run(b)
	token, _ := h.mint(b)
	b.ReportAllocs()
	for b.Loop() {
		if !h.Is(token) {
			b.Fatal("no access token")
		}
		if _, err := h.Verify(token); err != nil {
			b.Fatal(err)
		}
	}
}
