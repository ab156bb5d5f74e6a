package acd

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/form"
)

// Accounts derives the SIP accounts of everyone who has an extension: what a login hands out, and what the switch's
// directory is told, are computed from the same row, so that nothing needs to be kept or sent between them.
type Accounts struct {
	store  *store.Store
	key    func() []byte
	domain string
}

// NewAccounts makes the accounts of one SIP domain under a secret key.
func NewAccounts(st *store.Store, key []byte, domain string) *Accounts {
	return &Accounts{store: st, key: func() []byte { return key }, domain: domain}
}

// KeptAccounts makes the accounts of one SIP domain under the database's own key, whichever that is at the time.
func KeptAccounts(st *store.Store, domain string) *Accounts {
	return &Accounts{store: st, key: func() []byte { return st.NewestKey(store.KeySIPAccounts) }, domain: domain}
}

// Account is one SIP account.
type Account struct {
	TenantID, UserID  uuid.UUID
	Extension, Domain string
	DisplayName, Role string
	Password          string
}

// Domain is the SIP domain of all accounts.
func (a *Accounts) Domain() string { return a.domain }

// Password is that of an extension since the login that set its epoch.
func (a *Accounts) Password(extension string, epoch int64) string {
	return SIPPassword(a.key(), extension, a.domain, epoch)
}

// Account finds the account of an extension, logged in or not. An unknown extension, one of a user who was deactivated, and
// another domain give store.ErrNotFound.
func (a *Accounts) Account(ctx context.Context, extension, domain string) (Account, error) {
	// Phones, and those who scan for them, send anything: the database is spared names that no user can have.
	if !strings.EqualFold(domain, a.domain) || !form.IsExtension(extension) {
		return Account{}, store.ErrNotFound
	}
	var row db.FindSIPAccountRow
	err := a.store.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.FindSIPAccount(ctx, extension)
		return err
	})
	if err != nil {
		return Account{}, err
	}
	out := Account{
		TenantID: row.TenantID, UserID: row.ID, Extension: extension, Domain: a.domain, Role: row.Role,
		Password: a.Password(extension, row.SipEpoch),
	}
	if row.DisplayName != nil {
		out.DisplayName = *row.DisplayName
	}
	return out, nil
}

// SIPPassword is the password of an extension in an epoch, 32 characters that need no quoting anywhere. Each login starts
// an epoch, so that an earlier password is worth nothing after it.
func SIPPassword(key []byte, extension, domain string, epoch int64) string {
	mac := hmac.New(sha256.New, key)
	// The length of each part is signed too: no two accounts give the same text.
	for _, part := range []string{extension, strings.ToLower(domain), strconv.FormatInt(epoch, 10)} {
		mac.Write([]byte(strconv.Itoa(len(part)) + ":" + part + ";"))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:24])
}
