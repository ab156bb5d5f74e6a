// Package pages asks the user whom a partner application wants to act for: who they are (the sign-in page), and whether they let it (the
// consent page). It knows the browser and no protocol: which client asks, for which scopes, and where the answer goes is its caller's to find
// out and to validate, package oauth.
//
// How to read it: pages.go (what there is to configure, how a page is sent and under which headers), signin.go, consent.go, session.go (the
// cookie of a signed-in browser), form.go (how a form is read, and whose form it is), scopes.go (the scopes in plain English).
//
// # What a caller does
//
// A page posts to the address that it is at, so that all of one authorization happens at one address:
//
//	GET,  no [Pages.Session]              ShowSignIn
//	GET,  with one                        ShowConsent, or the redirect when the user granted it before
//	POST, [Pages.IsSignIn]                SignIn; with a session, a redirect (303) to the same address
//	POST, with a session                  Decision, and the redirect that follows from it
//	POST, with none                       SignIn: it says that the session has ended
//
// Read the authorization request from the URL's query alone, never from a form that was posted: the form holds the password, and its token is
// bound to the query. The client's address and the request's id come by [WithClient].
// Where a new sign-in is asked for (prompt=login), [Session.For] says whether this is one for the request at hand.
//
// # Pages
//
// They are HTML with one style sheet within, no script, nothing from elsewhere; the Content-Security-Policy names the style sheet by its hash
// and allows nothing else. Every name that somebody else chose stands in a bdi element, so that its writing direction doesn't reach the rest.
// A page that says what went wrong has the sentence in an element of role alert that the fields are described by, puts the cursor where it is
// to be put right, and begins its title with "Error:", for a reader says the title first.
//
// # Sessions
//
// The cookie __Host-ringmaster_oauth holds a JWT (HS256) under a key of its own that follows from those of the API's sessions: neither is good
// as the other. It is good for 12 hours, and ends before with the user's session_epoch (signed out everywhere, password, address or role
// changed), with the user's being switched off, and with the tenant's suspension. Each sign-in has a new id. Signing out here removes the
// cookie from this browser and leaves the user's other sessions alone: it is what "Use another account" does, maybe in the middle of a call.
// A plain http issuer, which is on loopback, has cookies without the prefix and without Secure.
//
// # Forms
//
// A form's token is the HMAC of what it is for: the browser (a random cookie before the sign-in, the session's id after it), the address with
// its query, and the time, good for an hour. So neither a form of another site nor one of another browser or of another
// authorization is taken. A post that the browser says comes from another site (Sec-Fetch-Site, or else Origin) is refused before.
//
// A wrong password is answered with the form and 400, not 401, which would have to name a scheme of HTTP authentication. Address and password
// go through [auth.SignIn], which throttles and audits them as those of the API.
package pages
