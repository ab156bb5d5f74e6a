// Package oauth is the authorization server for partners' applications: OAuth 2.0 (RFC 6749, 6750, 7009, 7523, 7636, 7662, 9207) and OpenID Connect Core 1.0
// and Discovery 1.0, over ory/fosite. [Provider] serves the endpoints; where its handlers look things up is [storage].
//
// One authorization is a family: its code, and every token that came of it (table oauth_families). It ends as a whole: when its code or one of its refresh
// tokens is used again, when a refresh token is revoked, when the user withdraws the grant, and with its client. Access tokens are JWTs that nothing is kept of
// (package access); their jti begins with their family's id, so that they end with it.
//
// Read provider.go first; then authorize.go with package pages for what a user sees, token.go, assertion.go (JWT bearer) and manage.go (introspection,
// revocation, userinfo, discovery) for what a client calls; storage.go and strategy.go are what fosite asks us for.
package oauth
