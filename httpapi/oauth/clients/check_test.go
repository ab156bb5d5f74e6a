package clients_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/oauth/clients"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

// body makes the fields of a request as they are sent.
func body(t *testing.T, text string) clients.Fields {
	t.Helper()
	var in clients.Fields
	require.NoError(t, input.Members([]byte(text), in.Members()))
	return in
}

// faults gives what is wrong by the members' names.
func faults(t *testing.T, err error) map[string]string {
	t.Helper()
	refusal, ok := fault.As(err, fault.Invalid)
	require.True(t, ok, "%v", err)
	require.Equal(t, fault.CodeInvalid, refusal.Code)
	out := map[string]string{}
	for _, f := range refusal.Fields {
		out[f.Field] = f.Message
	}
	return out
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func spki(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	require.NoError(t, err)
	return block("PUBLIC KEY", der)
}

// ofBits is a public key whose modulus has that length: nobody has the private one.
func ofBits(bits, e int) *rsa.PublicKey {
	n := new(big.Int).Lsh(big.NewInt(1), uint(bits-1)) //nolint:gosec // a positive constant
	return &rsa.PublicKey{N: n.SetBit(n, 0, 1), E: e}
}

func TestRefusedClients(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	const rest = `, "redirect_uris": ["https://app.example/cb"], "allowed_scopes": ["openid"]`
	for _, row := range []struct{ sent, field, says string }{
		{`{}`, "name", "is required"},
		{`{}`, "allowed_scopes", "is required"},
		{`{"name": null}`, "name", "is required"},
		{`{"name": 7}`, "name", "must be a string"},
		{`{"name": ""` + rest + `}`, "name", "must have 1 to 200 characters"},
		{`{"name": "  "` + rest + `}`, "name", "must not be blank"},
		{`{"name": "` + strings.Repeat("ä", 201) + `"` + rest + `}`, "name", "must have 1 to 200 characters"},
		{`{"name": "a\u0000b"` + rest + `}`, "name", "can't contain NUL characters"},
		{`{"name": "a\nb"` + rest + `}`, "name", "must not have control characters"},
		{`{"name": "a\u202eb"` + rest + `}`, "name", "must not have control characters"},
		{`{"name": "x", "allowed_scopes": []}`, "allowed_scopes", "must have 1 to 100 elements"},
		{`{"name": "x", "allowed_scopes": "openid"}`, "allowed_scopes", "must be a list of strings"},
		{`{"name": "x", "allowed_scopes": ["openid", "everything"]}`, "allowed_scopes[1]", "must be one of "},
		{`{"name": "x", "allowed_scopes": ["calls:read "]}`, "allowed_scopes[0]", "must be one of "},
		{`{"name": "x", "allowed_scopes": ["openid"]}`, "redirect_uris", "must have at least one element, unless"},
		{`{"name": "x", "allowed_scopes": ["openid"], "redirect_uris": []}`, "redirect_uris", "must have at least one element, unless"},
		{`{"name": "x", "allowed_scopes": ["openid"], "redirect_uris": "https://a.example"}`, "redirect_uris", "must be a list of strings"},
		{`{"name": "x", "redirect_uris": ["https://a.example` + strings.Repeat(`", "https://a.example`, 20) + `"]}`, "redirect_uris", "at most 20 elements"},
		{`{"name": "x", "redirect_uris": ["https://a.example", "https://a.example"]}`, "redirect_uris[1]", "is given twice"},
		{`{"name": "x"` + rest + `, "jwt_issuer": "https://partner.example"}`, "public_key_pem", "is required with jwt_issuer"},
		{`{"name": "x"` + rest + `, "jwt_issuer": ""}`, "jwt_issuer", "must have 1 to 500 characters"},
		{`{"name": "x"` + rest + `, "jwt_issuer": "` + strings.Repeat("i", 501) + `"}`, "jwt_issuer", "must have 1 to 500 characters"},
		{`{"name": "x"` + rest + `, "public_key_pem": 3}`, "public_key_pem", "must be a string"},
		{`{"name": "x"` + rest + `, "is_active": "yes"}`, "is_active", "must be true or false"},
	} {
		_, _, err := s.Create(t.Context(), uuid.New(), body(t, row.sent))
		require.Contains(t, faults(t, err)[row.field], row.says, row.sent)
	}
	in := body(t, `{"name": "x"`+rest+`}`)
	in.PublicKeyPEM = input.Some(spki(t, ofBits(2048, 65537)))
	_, _, err := s.Create(t.Context(), uuid.New(), in)
	require.Contains(t, faults(t, err)["jwt_issuer"], "is required with public_key_pem")
}

func TestRedirectURIs(t *testing.T) {
	t.Parallel()
	s, b := setup(t)
	for uri, says := range map[string]string{
		"": "1 to 2000", "https://a.example/" + strings.Repeat("x", 1983): "1 to 2000",
		"/callback": "absolute", "app.example/cb": "absolute", "//app.example/cb": "absolute", "https://a.example:port/": "absolute", "https://[::1/": "absolute",
		"https://a.example/%zz": "absolute", "https:app.example": "host", "https:///cb": "host", "https://:443/cb": "host",
		"http://app.example/cb": "http is for", "http://127.0.0.2/cb": "http is for", "http://localhost.evil.example/": "http is for", "http://[::2]/": "http is for",
		"http://0.0.0.0/cb": "http is for", "com.example.app:/callback": "must be an https URI", "javascript:alert(1)": "must be an https URI",
		"data:text/html,x": "must be an https URI", "ftp://a.example/": "must be an https URI", "urn:ietf:wg:oauth:2.0:oob": "must be an https URI",
		"https://user@a.example/": "user name", "https://user:pw@a.example/": "user name", "https://a.example/cb#x": "fragment", "https://a.example/cb#": "fragment",
		"https://*.example/cb": "wildcard", "https://a.example/*": "wildcard", "https://a.example/?x=*": "wildcard",
		"https://a.example:/cb": "port", "https://a.example:0/cb": "port", "https://a.example:65536/cb": "port",
		"https://a.example/a b": "RFC 3986", " https://a.example/": "RFC 3986", "https://a.example/\n": "RFC 3986", "https://a.example\\@evil.example/": "RFC 3986",
		"https://münchen.example/": "RFC 3986", "https://a.example/ü": "RFC 3986", "https://a.example/\x00": "RFC 3986", "https://a.example/<x>": "RFC 3986",
	} {
		in := body(t, `{"name": "x", "allowed_scopes": ["openid"]}`)
		in.RedirectURIs = input.Some([]string{uri})
		_, _, err := s.Create(t.Context(), b.tenant, in)
		require.Contains(t, faults(t, err)["redirect_uris[0]"], says, "%q", uri)
	}
	// They are kept as they are given.
	kept := []string{
		"https://a.example", "https://a.example/", "HTTPS://A.example:443/a/../b?x=1&y=%2F", "https://xn--mnchen-3ya.example/", "https://192.0.2.1:8443/cb",
		"http://localhost:3000/cb", "http://127.0.0.1/cb", "http://[::1]:8080/cb", "https://a.example/" + strings.Repeat("x", 1982),
	}
	in := body(t, `{"name": "x", "allowed_scopes": ["openid"]}`)
	in.RedirectURIs = input.Some(kept)
	row, _, err := s.Create(t.Context(), b.tenant, in)
	require.NoError(t, err)
	require.Equal(t, kept, row.RedirectUris)
}

func TestPublicKeys(t *testing.T) {
	t.Parallel()
	pair, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(pair)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "partner"}, NotAfter: time.Unix(1, 0)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &pair.PublicKey, pair)
	require.NoError(t, err)
	good := spki(t, &pair.PublicKey)
	pkcs1 := block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&pair.PublicKey))
	for name, text := range map[string]string{
		"PKIX": good, "PKCS #1": pkcs1, "certificate": block("CERTIFICATE", certificate), "white space": "\n " + good + "\r\n ",
		"CRLF": strings.ReplaceAll(good, "\n", "\r\n"),
	} {
		key, err := clients.ParsePublicKey(text)
		require.NoError(t, err, name)
		require.True(t, key.Equal(&pair.PublicKey), name)
	}
	_, err = clients.ParsePublicKey(spki(t, ofBits(8192, 65537)))
	require.NoError(t, err)
	for text, says := range map[string]string{
		"": "one RSA public key in PEM", "ssh-rsa AAAAB3NzaC1yc2E": "one RSA public key in PEM", "key: " + good: "one RSA public key in PEM",
		good + good: "one RSA public key in PEM", good + "x": "one RSA public key in PEM", good + "\x00": "one RSA public key in PEM",
		strings.Replace(good, "KEY-----\n", "KEY-----\nA: b\n\n", 1):                        "one RSA public key in PEM",
		block("PUBLIC KEY", []byte("x")):                                                    "one RSA public key in PEM",
		block("PUBLIC KEY", x509.MarshalPKCS1PublicKey(&pair.PublicKey)):                    "one RSA public key in PEM",
		block("CERTIFICATE REQUEST", certificate):                                           "one RSA public key in PEM",
		strings.Repeat(" ", 16<<10) + good:                                                  "at most 16384",
		block("PRIVATE KEY", pkcs8):                                                         "make a new pair",
		block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(pair)):                         "make a new pair",
		good + block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(pair)):                  "make a new pair",
		strings.Replace(block("PRIVATE KEY", pkcs8), "PRIVATE", "ENCRYPTED PRIVATE", 2):     "make a new pair",
		strings.ReplaceAll(block("PRIVATE KEY", pkcs8), "PRIVATE", "OPENSSH PRIVATE") + "x": "make a new pair",
		spki(t, &curve.PublicKey):                                                           "must be an RSA key: ",
		spki(t, ofBits(2047, 65537)):                                                        "2048 to 8192 bits",
		spki(t, ofBits(1024, 65537)):                                                        "2048 to 8192 bits",
		spki(t, ofBits(8193, 65537)):                                                        "2048 to 8192 bits",
		spki(t, ofBits(2048, 1)):                                                            "exponent",
		spki(t, ofBits(2048, 65536)):                                                        "exponent",
		spki(t, &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 2047), E: 65537}):         "odd modulus",
	} {
		_, err := clients.ParsePublicKey(text)
		require.ErrorContains(t, err, says, "%q", text)
	}
}
