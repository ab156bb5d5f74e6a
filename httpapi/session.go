package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

const (
	maxEmail    = 320
	maxPassword = 1024
)

type loginInput struct {
	Email    input.Opt[string]
	Password input.Opt[string]
}

// UnmarshalJSON takes the body of a sign-in.
func (in *loginInput) UnmarshalJSON(b []byte) error {
	return input.Members(b, map[string]json.Unmarshaler{"email": &in.Email, "password": &in.Password})
}

func (in loginInput) validate() error {
	var found []fault.Field
	for _, f := range []struct {
		name string
		opt  input.Opt[string]
		most int
	}{{"email", in.Email, maxEmail}, {"password", in.Password, maxPassword}} {
		switch {
		case !f.opt.Set:
			found = append(found, fault.Field{Field: f.name, Message: "is required"})
		case !f.opt.Has():
			found = append(found, fault.Field{Field: f.name, Message: "must be a string"})
		case f.opt.Value == "" || len(f.opt.Value) > f.most:
			found = append(found, fault.Field{Field: f.name, Message: fmt.Sprintf("must have 1 to %d characters", f.most)})
		}
	}
	if len(found) > 0 {
		return fault.Fields(found...)
	}
	return nil
}

type sessionView struct {
	AccessToken string   `json:"access_token"`
	TokenType   string   `json:"token_type"`
	ExpiresIn   int      `json:"expires_in"`
	User        userView `json:"user"`
}

// login signs a user in. An unknown address, a wrong password and a user who is switched off are answered alike, after the
// same work.
func (h sessionHandlers) login(ctx context.Context, r *request) (reply, error) {
	var in loginInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	if err := in.validate(); err != nil {
		return reply{}, err
	}
	user, err := h.signIn.Check(ctx, auth.Attempt{
		RequestID: r.id, Email: in.Email.Value, Password: in.Password.Value, Client: r.client, Session: true,
	})
	if errors.Is(err, auth.ErrWrongPassword) {
		return reply{}, newError(http.StatusUnauthorized, auth.CodeInvalid, "The e-mail address or the password is wrong.")
	}
	if err != nil {
		return reply{}, err
	}
	token, err := h.signer.Sign(user)
	if err != nil {
		return reply{}, err
	}
	return ok(sessionView{
		AccessToken: token, TokenType: "bearer", ExpiresIn: int(auth.SessionLifetime / time.Second),
		User: viewUser(user),
	}), nil
}

// logout ends all sessions of the user who asks, on every host.
func (h sessionHandlers) logout(ctx context.Context, r *request) (reply, error) {
	return noContent(), h.accounts.EndSessions(ctx, r.who.TenantID, r.who.ID)
}

type ownPasswordInput struct {
	Current, New input.Opt[string]
}

// Members gives the members of the body by their names.
func (in *ownPasswordInput) Members() map[string]json.Unmarshaler {
	return map[string]json.Unmarshaler{"current_password": &in.Current, "new_password": &in.New}
}

// setPassword changes the password of the user who asks, and ends all their sessions.
func (h sessionHandlers) setPassword(ctx context.Context, r *request) (reply, error) {
	var in ownPasswordInput
	if err := r.decodeInto(&in); err != nil {
		return reply{}, err
	}
	f := new(input.Form)
	current, _ := input.Required(f, "current_password", in.Current)
	f.Text("current_password", current, 1, maxPassword)
	fresh, _ := input.Required(f, "new_password", in.New)
	account.CheckPassword(f, "new_password", fresh)
	if err := f.Err(); err != nil {
		return reply{}, err
	}
	user, err := h.accounts.User(ctx, r.who.TenantID, r.who.ID)
	if err != nil {
		return reply{}, err
	}
	// A stolen session must not find the password out, so that guesses here count like those of a sign-in.
	_, err = h.signIn.Check(ctx, auth.Attempt{RequestID: r.id, Email: user.Email, Password: current, Client: r.client})
	if errors.Is(err, auth.ErrWrongPassword) {
		return reply{}, fault.InField("current_password", "is wrong")
	}
	if err != nil {
		return reply{}, err
	}
	_, err = h.accounts.EditUser(ctx, user.TenantID, user.ID, account.UserEdit{Password: input.Some(fresh)})
	return noContent(), err
}
