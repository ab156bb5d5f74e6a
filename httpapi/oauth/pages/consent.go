package pages

import "net/http"

type consentPage struct {
	page
	Name, Email, Role string
	Scopes            []string
}

// ShowConsent answers the consent form (decision = allow or deny) that posts to the address of r. It names the scopes that the user's role
// leaves.
func (p *Pages) ShowConsent(w http.ResponseWriter, r *http.Request, s *Session, client Client, scopes []string) {
	token, err := p.formToken(s.ID, r)
	if err != nil {
		p.failed(r.Context(), w, err)
		return
	}
	client = client.shown()
	view := consentPage{
		page:  page{Title: client.Name + " asks for access", Style: p.style, Token: token, Client: client},
		Email: s.User.Email, Role: s.User.Role, Scopes: inEnglish(scopes, s.User.Role),
	}
	if s.User.DisplayName != nil {
		view.Name = *s.User.DisplayName
	}
	p.send(w, http.StatusOK, "consent.html", view)
}

// Decision reads that form. ok is false when it has answered already: the form isn't one that this session got for this address, or the user
// wants to sign in with another account.
func (p *Pages) Decision(w http.ResponseWriter, r *http.Request, s *Session) (allow, ok bool) {
	form, ok := p.read(w, r)
	if !ok {
		return false, false
	}
	good, err := p.goodToken(form.Get(fieldToken), s.ID, r)
	if err != nil {
		p.failed(r.Context(), w, err)
		return false, false
	}
	if !good {
		p.sendError(w, http.StatusForbidden, "This page has expired",
			"It stood open for too long, or belongs to another request or to another account. Nothing was decided.", again(r))
		return false, false
	}
	if form.Get(fieldAccount) != "" {
		p.SignOut(w, r)
		w.Header().Set("Location", string(again(r)))
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusSeeOther)
		return false, false
	}
	switch form.Get(fieldDecision) {
	case "allow":
		return true, true
	case "deny":
		return false, true
	}
	p.sendError(w, http.StatusBadRequest, "That doesn't work", "The form says neither allow nor deny. Nothing was decided.", again(r))
	return false, false
}
