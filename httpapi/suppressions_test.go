package httpapi_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// optOut has a callee opt out whose number the tenant had on its list, and gives the entry.
func optOut(t *testing.T, b *bundle, phone string) string {
	t.Helper()
	var entry object
	b.api.JSON(t, http.MethodPost, "/api/v1/suppressions", object{"phone": phone}, http.StatusCreated, &entry)
	require.Equal(t, false, entry["opted_out"])
	storetest.Exec(t, b.st, b.tenant, "UPDATE suppressions SET opted_out = true WHERE id = $1", entry.text(t, "id"))
	return entry.text(t, "id")
}

// A number on the tenant's own list ends its leads, is refused when it comes in again, and is shown as a mask; in strict mode
// it is forgotten.
func TestSuppressions(t *testing.T) {
	t.Parallel()
	const list = "/api/v1/suppressions"
	for _, mode := range []string{"standard", "strict"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET privacy_mode = $1", mode)
			leads := campaigns + "/" + newCampaign(t, b, nil).text(t, "id") + "/leads"
			var lead object
			b.api.JSON(t, http.MethodPost, leads, object{"phone": "9812345601"}, http.StatusCreated, &lead)
			var added, again, page object
			b.api.JSON(t, http.MethodPost, list, object{"phone": "+91 98123 45601", "reason": "asked by letter"}, http.StatusCreated, &added)
			require.Equal(t, "••••5601", added["phone"])
			require.Equal(t, "asked by letter", added["reason"])
			b.api.JSON(t, http.MethodPost, list, object{"phone": "09812345601"}, http.StatusCreated, &again)
			require.Equal(t, added, again)
			b.api.JSON(t, http.MethodGet, "/api/v1/leads/"+lead.text(t, "id"), nil, http.StatusOK, &lead)
			require.Equal(t, "opted_out", lead["status"])
			if mode == "strict" {
				require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE phone IS NOT NULL OR phone_sealed IS NOT NULL"))
			}
			leads = campaigns + "/" + newCampaign(t, b, nil).text(t, "id") + "/leads"
			b.api.JSON(t, http.MethodPost, leads, object{"phone": "9812345601"}, http.StatusCreated, &lead)
			require.Equal(t, "opted_out", lead["status"], "in every campaign")

			b.api.JSON(t, http.MethodPost, list, object{"phone": "9812345602"}, http.StatusCreated, nil)
			b.api.JSON(t, http.MethodGet, list+"?page_size=1", nil, http.StatusOK, &page)
			require.InDelta(t, 2, page["total"], 0)
			require.Len(t, page["items"], 1)
			latest := page.text(t, "next_cursor")
			b.api.JSON(t, http.MethodGet, list+"?page_size=2&cursor="+latest, nil, http.StatusOK, &page)
			require.Equal(t, []any{map[string]any(added)}, page["items"], "behind the latest")
			require.Nil(t, page["next_cursor"])
			refused(t, b.api, http.MethodGet, list+"?page=2&cursor="+latest, nil, http.StatusUnprocessableEntity, "validation_error")
			b.api.JSON(t, http.MethodGet, list+"?phone=9812345601", nil, http.StatusOK, &page)
			require.Equal(t, []any{map[string]any(added)}, page["items"])
			b.foreign.JSON(t, http.MethodGet, list, nil, http.StatusOK, &page)
			require.Empty(t, page["items"])

			out := list + "/" + optOut(t, b, "9812345604")
			refused(t, b.api, http.MethodDelete, out, nil, http.StatusConflict, "opted_out")
			one := list + "/" + added.text(t, "id")
			b.foreign.JSON(t, http.MethodDelete, one, nil, http.StatusNotFound, nil)
			b.scoped(t, "leads:read").JSON(t, http.MethodDelete, one, nil, http.StatusForbidden, nil)
			b.api.JSON(t, http.MethodDelete, one, nil, http.StatusNoContent, nil)
			b.api.JSON(t, http.MethodDelete, one, nil, http.StatusNotFound, nil)
			leads = campaigns + "/" + newCampaign(t, b, nil).text(t, "id") + "/leads"
			b.api.JSON(t, http.MethodPost, leads, object{"phone": "9812345601"}, http.StatusCreated, &lead)
			require.Equal(t, "new", lead["status"])
			for _, bad := range []object{{}, {"phone": "123"}, {"phone": "+14155550100"}, {"phone": "9812345603", "reason": ""}} {
				refused(t, b.api, http.MethodPost, list, bad, http.StatusUnprocessableEntity, "validation_error")
			}
			refused(t, b.api, http.MethodGet, list+"?phone=x", nil, http.StatusUnprocessableEntity, "validation_error")
			b.scoped(t, "leads:write").JSON(t, http.MethodGet, list, nil, http.StatusForbidden, nil)
		})
	}
}

// Many numbers come onto the list at once: each row has its own result, and ends the leads of its number.
func TestSuppressionsInBulk(t *testing.T) {
	t.Parallel()
	const list, bulk = "/api/v1/suppressions", "/api/v1/suppressions:bulk"
	b := setup(t)
	leads := campaigns + "/" + newCampaign(t, b, nil).text(t, "id") + "/leads"
	var lead, known object
	b.api.JSON(t, http.MethodPost, leads, object{"phone": "9812345601"}, http.StatusCreated, &lead)
	b.api.JSON(t, http.MethodPost, list, object{"phone": "9812345602"}, http.StatusCreated, &known)
	var out struct {
		Total, Valid, Invalid, Duplicates int
		Results                           []object
	}
	b.api.JSON(t, http.MethodPost, bulk, object{"suppressions": []any{
		object{"phone": "+91 98123 45601", "reason": "asked by letter"},
		object{"phone": "9812345602"},
		object{"phone": "nonsense"},
		object{"phone": "09812345601"},
		7,
		object{"phone": "9812345603", "reason": ""},
	}}, http.StatusOK, &out)
	require.Equal(t, []int{6, 1, 3, 2}, []int{out.Total, out.Valid, out.Invalid, out.Duplicates})
	var statuses []string
	for _, row := range out.Results {
		statuses = append(statuses, row.text(t, "status"))
		require.Equal(t, row["status"] == "invalid", row["id"] == nil)
		require.Equal(t, row["status"] == "invalid", row["errors"] != nil)
	}
	require.Equal(t, []string{"added", "duplicate", "invalid", "duplicate", "invalid", "invalid"}, statuses)
	require.Equal(t, "••••5601", out.Results[0]["phone"])
	require.Equal(t, known["id"], out.Results[1]["id"])
	require.Equal(t, out.Results[0]["id"], out.Results[3]["id"])
	b.api.JSON(t, http.MethodGet, "/api/v1/leads/"+lead.text(t, "id"), nil, http.StatusOK, &lead)
	require.Equal(t, "opted_out", lead["status"])
	var page struct {
		Total int
		Items []object
	}
	b.api.JSON(t, http.MethodGet, list+"?phone=9812345601", nil, http.StatusOK, &page)
	require.Equal(t, []string{"asked by letter"}, []string{page.Items[0].text(t, "reason")})
	b.api.JSON(t, http.MethodPost, bulk, object{"suppressions": []any{}}, http.StatusOK, &out)
	require.Zero(t, out.Total)
	rows := make([]object, 501)
	for i := range rows {
		rows[i] = object{"phone": "98123" + strconv.Itoa(10000+i)}
	}
	for _, bad := range []object{{}, {"suppressions": nil}, {"suppressions": "x"}, {"suppressions": rows}} {
		refused(t, b.api, http.MethodPost, bulk, bad, http.StatusUnprocessableEntity, "validation_error")
	}
	b.api.JSON(t, http.MethodPost, bulk, object{"suppressions": rows[:500]}, http.StatusOK, &out)
	require.Equal(t, 500, out.Valid)
	b.scoped(t, "leads:read").JSON(t, http.MethodPost, bulk, object{"suppressions": []any{}}, http.StatusForbidden, nil)
}
