package store

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestMonthsOfAStatement(t *testing.T) {
	t.Parallel()
	at := func(s string) uuid.UUID {
		when, err := time.Parse(time.RFC3339, s)
		require.NoError(t, err)
		return IDFloor(when)
	}
	jan, feb := at("2026-01-01T00:00:00Z").String(), at("2026-02-01T00:00:00Z").String()
	last, first := at("2026-01-31T23:59:59Z"), at("2026-02-01T00:00:00Z")
	tenant := uuid.New()
	for name, c := range map[string]struct {
		sql, want string
		args      []any
	}{
		"no mark":        {"UPDATE calls WHERE id = $1", "UPDATE calls WHERE id = $1", []any{last}},
		"the month":      {"WHERE tenant_id = $1 AND id = $2 /* month of id */ AND a", "WHERE tenant_id = $1 AND id = $2 AND id >= '" + jan + "' AND id < '" + feb + "' AND a", []any{tenant, last}},
		"from it on":     {"c.id >= $1 /* months from c.id */", "c.id >= $1 AND c.id >= '" + feb + "'", []any{first}},
		"a cast":         {"c.id = $1::uuid /* month of c.id */ FOR", "c.id = $1::uuid AND c.id >= '" + jan + "' AND c.id < '" + feb + "' FOR", []any{&last}},
		"two of them":    {"a >= $1 /* months from a */ b >= $2 /* months from b */", "a >= $1 AND a >= '" + jan + "' b >= $2 AND b >= '" + feb + "'", []any{last, first}},
		"the tenth":      {"id = $10 /* month of id */", "id = $10 AND id >= '" + jan + "' AND id < '" + feb + "'", []any{1, 2, 3, 4, 5, 6, 7, 8, 9, last}},
		"several":        {"a = ANY($1::uuid[]) /* month of a */;", "a = ANY($1::uuid[]) AND a >= '" + jan + "' AND a < '" + feb + "';", []any{[]uuid.UUID{last, last}}},
		"of two months":  {"a = ANY($1::uuid[]) /* month of a */;", "a = ANY($1::uuid[]);", []any{[]uuid.UUID{last, first}}},
		"of none":        {"a = ANY($1::uuid[]) /* month of a */;", "a = ANY($1::uuid[]);", []any{[]uuid.UUID{}}},
		"NULL":           {"id = $1 /* month of id */ x", "id = $1 x", []any{(*uuid.UUID)(nil)}},
		"no id of ours":  {"id = $1 /* month of id */ x", "id = $1 x", []any{uuid.MustParse("ffffffff-ffff-4fff-8fff-ffffffffffff")}},
		"no such number": {"id = $7 /* month of id */ x", "id = $7 x", []any{last}},
	} {
		require.Equal(t, c.want, inMonths(c.sql, c.args), name)
	}
}
