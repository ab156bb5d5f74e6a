package storetest

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// testSigningKey signs nothing but tests' tokens: PKCS #8.
const testSigningKey = `
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCrgwBY/qOHxouVYFiewksC6q7EBHNjhliI2JHmr4hAZTQyjwyo+Inu+GPfBCDCNb3waEcg
hsEqH0XBYg2Yx10cdG0iUrGwoCHWJOevBkxZ1xTtDj+MGtVr/RiM4b0l+KrwurmaQC0zTiPnNZUkad3osQwdCFBM7xVflJa+mnwpBnePM1rdaqhh3XXhNL8w
kbA0UmwbRuc6Zksv4s+kbUC03bnMBpQPPnUWv2O0338DkZ4SO1BHhkpX8BYA4TNw+GqcVVUBPTV0v2nEdtKdbddE1l8n5OQh6utmWYPGCE50HOb6hHzwZnll
a0zC0LaBzh1mSUR+FUJWZloeu4HPGIonAgMBAAECggEADsADoQodMQl/naDqKvuIpr9dUlkTpCtWPkadBAFA++peoW5+ANYgsd8r/G6gppmNzgWzZqlQJkah
CCJeCvwySZOVtlr1ElYv/5IWJSfeG+fZOKqxOmP5/ZrudPp0LhzQDq3wVY/pYAn7VBOra0555o+7YlybRoW7owgZwsCkc7g8apd0Oz3TrlpZu1F34osE2j6U
1tsUestD7GzW453Y7iOHB/lAcws8Ey4jQ3JHJXzZnaPPAivIcNLjXfJfwbDjrYjkMbg9x/IK8xxeUb33M+KQvCJHlNItR9ztmtYmp5klAz+lq0VBqQB08z58
qepDoBEI5fwV1IGsxt5POuIHUQKBgQDUU9vDxC2ndYil8TX6g0giHeREkqfMrhXyVGq4jPb19J95BGSqqmq+aX3FCUqmy7aevHG69hK9ETiWSXVx5vzEY563
DjsEnrlc7eb5HRGCA+KU8CpN9ttbXInQA7KY6bZTu7WYTkEN2Dwuckg4XwDiwIO6zOg8fscxf77hBEsg2QKBgQDOyfpgev1yB9iASN/WLnfUbqm3HaaASXwA
B00+hfk0tFJ5xzX5E+t9jhjgH0VCQkQa8A2YEAAlf6/HHb9Oo9DyOjawN4mjxOPOxwXORLXcFAFlpIm3wbtuCy7BZ7RTSfeKD8SPIM9E80si1XpRCs3+r7Kn
TjR4nJHv/j04jVYi/wKBgGelE7bJMZv35J9UUowZv4Ff5AiRKjXgmLf0+y9hKEBBjALv4Q/qJjcSmaEv+u/WqytrQ30HF3iRSnUaIKlcHvDizBwBZ0/HBybU
vpXF2cEEknsvjQcHxGYhkugmlezM0QKos2lIcbsHXcEyagySW4VUgjkSQx8cp7GC8TM3/FBpAoGARHuPd7RDiygeAx4fQwdQmAGuIv6mzYWIk1nXswUbauDt
D3dx4HNAYexVQKQag77+Xw1w8xMZeVG4HPE1Eg4efJna0rER3DKwXyJ6Qb1vnNrjO44qLbjzIZaCfXqitZKhcA+YwO3Utrj8ASVBxOUXI2l8ePvlVKxFiH1i
OQBVrnECgYEAlPqbwXjsJTueOC0uqLejDWbW8RijCTk3oxn6w3w4UvP4fr01aP+JxKhC7+lGTEBhQ4JVrg1JO4S8YebHkmZLbwmKAgfNOe0bYrAvgKPRpDKv
k+XXC4zLVrPu0c+8C5pQ/g3atE87rNJ/8G3ZG/1IijH39wE3SIvJIUmeKV8Zbpk=
`

// SigningKey gives a database that has none a key that signs OAuth's tokens since an hour ago. To make one takes most of a second.
func SigningKey(tb testing.TB, st *store.Store) {
	tb.Helper()
	der, err := base64.StdEncoding.DecodeString(testSigningKey)
	require.NoError(tb, err)
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	require.NoError(tb, err)
	private, ok := parsed.(*rsa.PrivateKey)
	require.True(tb, ok)
	row := db.AddOAuthKeyParams{ID: NewID(tb), CreatedAt: time.Now().Add(-time.Hour), SignsAt: time.Now().Add(-time.Hour)}
	row.PublicDer, err = x509.MarshalPKIXPublicKey(&private.PublicKey)
	require.NoError(tb, err)
	row.PrivateSealed, err = st.Seal(store.OAuthKey(row.ID), der)
	require.NoError(tb, err)
	require.NoError(tb, st.InSystem(tb.Context(), func(tx *store.Tx) error {
		if err := tx.Q.LockOAuthKeys(tb.Context()); err != nil {
			return err
		}
		rows, err := tx.Q.ListOAuthKeys(tb.Context())
		if err != nil || len(rows) > 0 {
			return err
		}
		return tx.Q.AddOAuthKey(tb.Context(), row)
	}))
}
