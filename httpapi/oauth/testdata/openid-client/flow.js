// A partner's application on openid-client: everything that the authorization server offers, once. It writes the address that its user is to open, reads
// the one that they were sent back to, and writes what it got.
import assert from 'node:assert/strict'
import { createInterface } from 'node:readline/promises'
import { SignJWT, createRemoteJWKSet, importPKCS8, jwtVerify } from 'jose'
import * as oidc from 'openid-client'

const { ISSUER, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI, PRIVATE_KEY, JWT_ISSUER, SUBJECT, TENANT, AUTH } = process.env
const insecure = { execute: [oidc.allowInsecureRequests] } // of the loopback
const auth = AUTH === 'post' ? oidc.ClientSecretPost(CLIENT_SECRET) : oidc.ClientSecretBasic(CLIENT_SECRET)
const config = await oidc.discovery(new URL(ISSUER), CLIENT_ID, undefined, auth, insecure)
oidc.enableNonRepudiationChecks(config) // the ID token's signature is verified as well

const pkceCodeVerifier = oidc.randomPKCECodeVerifier()
const expectedState = oidc.randomState()
const expectedNonce = oidc.randomNonce()
console.log(oidc.buildAuthorizationUrl(config, {
  redirect_uri: REDIRECT_URI, scope: 'openid profile email offline_access campaigns:read', state: expectedState, nonce: expectedNonce,
  code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: 'S256',
}).href)
const lines = createInterface({ input: process.stdin })
const back = (await lines[Symbol.asyncIterator]().next()).value
lines.close()

const first = await oidc.authorizationCodeGrant(config, new URL(back), { pkceCodeVerifier, expectedState, expectedNonce, idTokenExpected: true })
assert.equal(first.claims().sub, SUBJECT)
const { payload } = await jwtVerify(first.access_token, createRemoteJWKSet(new URL(config.serverMetadata().jwks_uri)), { issuer: ISSUER, typ: 'at+jwt' })
assert.equal(payload.tenant_id, TENANT)

const next = await oidc.refreshTokenGrant(config, first.refresh_token)
assert.notEqual(next.refresh_token, first.refresh_token)
assert.equal(next.claims().sub, SUBJECT)

const who = await oidc.fetchUserInfo(config, next.access_token, SUBJECT)
const live = await oidc.tokenIntrospection(config, next.access_token)
assert.equal(live.active, true)
assert.equal(live.sub, SUBJECT)

await oidc.tokenRevocation(config, next.refresh_token)
assert.equal((await oidc.tokenIntrospection(config, next.access_token)).active, false)
await assert.rejects(oidc.fetchUserInfo(config, next.access_token, SUBJECT), (e) => e.status === 401 || e.cause?.some?.((c) => c.parameters.error === 'invalid_token'))
await assert.rejects(oidc.refreshTokenGrant(config, next.refresh_token), { error: 'invalid_grant', status: 400 })

const acting = await oidc.genericGrantRequest(config, 'urn:ietf:params:oauth:grant-type:jwt-bearer', {
  scope: 'openid campaigns:read',
  assertion: await new SignJWT({ tenant_id: TENANT }).setProtectedHeader({ alg: 'RS256' }).setIssuer(JWT_ISSUER).setSubject(SUBJECT).setAudience(CLIENT_ID)
    .setIssuedAt().setExpirationTime('4m').setJti(oidc.randomState()).sign(await importPKCS8(PRIVATE_KEY, 'RS256')),
})
assert.equal(acting.refresh_token, undefined)
assert.equal((await oidc.fetchUserInfo(config, acting.access_token, SUBJECT)).sub, SUBJECT)
console.log(JSON.stringify({ email: who.email, name: who.name, scope: acting.scope, token_type: first.token_type }))
