package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestFlows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	const root = "/api/flows"
	start := object{"id": "s", "type": "start", "next": object{"default": "h"}, "position": object{"x": 1}}
	hangup := object{"id": "h", "type": "hangup"}
	var f object
	s.supervisor.JSON(t, http.MethodPost, root, object{"name": "Main", "nodes": []any{start, hangup}}, http.StatusCreated, &f)
	require.Equal(t, "Main", f["name"])
	require.InDelta(t, 1, f["version"], 0)
	require.Len(t, f["nodes"], 2)
	path := root + "/" + f.text(t, "id")

	var list object
	s.admin.JSON(t, http.MethodGet, root, nil, http.StatusOK, &list)
	require.InDelta(t, 1, list["total"], 0)
	require.Len(t, list["items"], 1)
	s.foreign.JSON(t, http.MethodGet, root, nil, http.StatusOK, &list)
	require.Empty(t, list["items"])
	for _, method := range []string{http.MethodGet, http.MethodPatch, http.MethodDelete} {
		denied(t, s.foreign, method, path, "{}", http.StatusNotFound)
		denied(t, s.admin, method, root+"/"+storetest.NewID(t).String(), "{}", http.StatusNotFound)
		denied(t, s.admin, method, root+"/nonsense", "{}", http.StatusNotFound)
	}

	require.Equal(t, []string{"body.name", "body.nodes"}, denied(t, s.admin, http.MethodPost, root, object{}, http.StatusUnprocessableEntity))
	require.Equal(t, []string{"body.nodes"}, denied(t, s.admin, http.MethodPatch, path, object{"nodes": []any{}}, http.StatusUnprocessableEntity))
	agent := object{"id": "ai", "type": "connect_voice_agent"}
	begin := object{"id": "s", "type": "start", "next": object{"default": "ai"}}
	require.Equal(t, []string{"body.nodes.ai.data.voice_agent_id"},
		denied(t, s.admin, http.MethodPatch, path, object{"nodes": []any{begin, agent}}, http.StatusUnprocessableEntity))
	agent["data"] = object{"voice_agent_id": storetest.NewID(t).String()}
	require.Equal(t, []string{"body.nodes.ai.data.voice_agent_id"},
		denied(t, s.admin, http.MethodPatch, path, object{"nodes": []any{begin, agent}}, http.StatusUnprocessableEntity),
		"a voice agent that the tenant does not have")
	s.admin.JSON(t, http.MethodPatch, path, object{"name": "Main", "nodes": []any{start, hangup}}, http.StatusOK, &f)
	require.InDelta(t, 1, f["version"], 0, "nothing has changed")
	s.admin.JSON(t, http.MethodPatch, path, object{"name": "Second"}, http.StatusOK, &f)
	require.InDelta(t, 2, f["version"], 0)

	var number object
	s.admin.JSON(t, http.MethodPost, "/api/numbers", object{"e164": "+918000000321", "flow_id": f["id"]}, http.StatusCreated, &number)
	denied(t, s.admin, http.MethodDelete, path, nil, http.StatusConflict)
	require.NotEmpty(t, denied(t, s.foreign, http.MethodPost, "/api/numbers",
		object{"e164": "+918000000322", "flow_id": f["id"]}, http.StatusUnprocessableEntity), "a foreign tenant's flow")
	s.admin.JSON(t, http.MethodPatch, "/api/numbers/"+number.text(t, "id"), object{"flow_id": nil}, http.StatusOK, nil)
	status, _, _ := s.admin.Do(t, http.MethodDelete, path, nil)
	require.Equal(t, http.StatusNoContent, status)
	denied(t, s.admin, http.MethodGet, path, nil, http.StatusNotFound)
}
