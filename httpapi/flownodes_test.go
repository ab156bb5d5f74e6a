package httpapi_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
)

// flowNode is a node as it is written.
type flowNode struct {
	ID   string            `json:"id"`
	Type string            `json:"type"`
	Data map[string]any    `json:"data,omitempty"`
	Next map[string]string `json:"next,omitempty"`
}

// accepted tells whether a flow that holds the node beside what its next names would be saved.
func (n flowNode) accepted(t *testing.T) bool {
	t.Helper()
	nodes := []flowNode{n}
	if n.Type != string(flow.TypeStart) {
		nodes = append(nodes, flowNode{ID: "begin", Type: string(flow.TypeStart), Next: map[string]string{"default": n.ID}})
	}
	for _, id := range slices.Compact(slices.Sorted(maps.Values(n.Next))) {
		nodes = append(nodes, flowNode{ID: id, Type: string(flow.TypeHangup)})
	}
	raw, err := json.Marshal(nodes)
	require.NoError(t, err)
	_, err = flow.Parse(raw)
	return err == nil
}

// with is the node with a member of its data changed; nil takes it away.
func (n flowNode) with(member string, value any) flowNode {
	n.Data = maps.Clone(n.Data)
	n.Data[member] = value
	if value == nil {
		delete(n.Data, member)
	}
	return n
}

// The document describes each kind of node: what it says of the examples in the package's guide, and of these with a member
// missing, of the wrong type or out of its bounds, is what saving a flow says.
func TestFlowNodesAreAsDocumented(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../dialer/flow/doc.go")
	require.NoError(t, err)
	joined := regexp.MustCompile(`\n//\s+`).ReplaceAllString(string(guide), " ")
	seen := map[string]bool{}
	for _, at := range regexp.MustCompile(`\{"id": `).FindAllStringIndex(joined, -1) {
		var node flowNode
		require.NoError(t, json.NewDecoder(strings.NewReader(joined[at[0]:])).Decode(&node))
		seen[node.Type] = true
		check := func(node flowNode, what string) {
			raw, err := json.Marshal(node)
			require.NoError(t, err)
			documented := apitest.CheckSchema("FlowNode", raw)
			assert.Equal(t, node.accepted(t), documented == nil, "%s: %s", what, raw)
		}
		check(node, "as in the guide")
		for member := range node.Data {
			for _, value := range []any{nil, true, "", -5000, 1e9, []int{1}, map[string]int{"a": 1}} {
				if member == "body" && value != nil {
					continue // any JSON is a body
				}
				check(node.with(member, value), member)
			}
		}
	}
	require.Len(t, seen, 12)
}
