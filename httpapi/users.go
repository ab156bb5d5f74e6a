package httpapi

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
)

const userNoun = "user"

// itemList is a list that is given whole.
type itemList[T any] struct {
	Items []T `json:"items"`
	Total int `json:"total"`
}

// listed shows rows.
func listed[R, V any](rows []R, view func(R) V) itemList[V] {
	out := itemList[V]{Items: make([]V, len(rows)), Total: len(rows)}
	for i, row := range rows {
		out.Items[i] = view(row)
	}
	return out
}

// members is the body of a request whose members are known by name.
type members interface {
	Members() map[string]json.Unmarshaler
}

// decodeInto reads the body into an input that names its members.
func (r *request) decodeInto(in members) error { return r.decode(&byMembers{in}) }

type byMembers struct{ in members }

// UnmarshalJSON takes the members by their exact names.
func (b *byMembers) UnmarshalJSON(raw []byte) error { return input.Members(raw, b.in.Members()) }

// onOne does what needs the id in the path alone, and shows the result.
func onOne[R, V any](
	ctx context.Context, r *request, noun string, do func(ctx context.Context, tenant, id uuid.UUID) (R, error), view func(R) V,
) (reply, error) {
	id, err := r.pathID("id", noun)
	if err != nil {
		return reply{}, err
	}
	row, err := do(ctx, r.who.TenantID, id)
	if err != nil {
		return reply{}, named(err, noun)
	}
	return ok(view(row)), nil
}

type userView struct {
	ID          uuid.UUID `json:"id"`
	TenantID    uuid.UUID `json:"tenant_id"`
	Email       string    `json:"email"`
	DisplayName *string   `json:"display_name"`
	Role        string    `json:"role"`
	Extension   *string   `json:"extension"`
	PhoneMode   string    `json:"phone_mode"`
	IsActive    bool      `json:"is_active"`
	Tags        []string  `json:"tags"`
	Permissions []string  `json:"permissions"`
}

func viewUser(u db.User) userView {
	return userView{
		ID: u.ID, TenantID: u.TenantID, Email: u.Email, DisplayName: u.DisplayName, Role: u.Role, Extension: u.Extension,
		PhoneMode: u.PhoneMode, IsActive: u.IsActive, Tags: orEmpty(u.Tags), Permissions: orEmpty(u.Permissions),
	}
}

func (h userHandlers) list(ctx context.Context, r *request) (reply, error) {
	users, err := h.accounts.Users(ctx, r.who.TenantID)
	return ok(listed(users, viewUser)), err
}

func (h userHandlers) create(ctx context.Context, r *request) (reply, error) {
	var in account.UserEdit
	if err := r.decodeInto(&in); err != nil {
		return reply{}, err
	}
	user, err := h.accounts.AddUser(ctx, r.who.TenantID, in)
	return created(viewUser(user)), err
}

func (h userHandlers) get(ctx context.Context, r *request) (reply, error) {
	return onOne(ctx, r, userNoun, h.accounts.User, viewUser)
}

func (h userHandlers) patch(ctx context.Context, r *request) (reply, error) {
	var in account.UserEdit
	if err := r.decodeInto(&in); err != nil {
		return reply{}, err
	}
	return onOne(ctx, r, userNoun, func(ctx context.Context, tenant, id uuid.UUID) (db.User, error) {
		return h.accounts.EditUser(ctx, tenant, id, in)
	}, viewUser)
}
