package flows

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Credentials of http_request nodes stand in their headers and in their URL. The nodes are kept and shown with masks in their place, the credentials
// are sealed beside them (flow_secrets), and both come together when a call takes the flow.

// secrets are the credentials of a flow's requests, by node.
type secrets map[string]nodeSecrets

type nodeSecrets struct {
	// URL is the whole of one that has some.
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// webRequest is what of an http_request node credentials stand in.
type webRequest struct {
	url     string
	headers map[string]string
}

// eachRequest gives the nodes with their requests changed. What is no readable node stays as it is.
func eachRequest(nodes json.RawMessage, change func(id string, r *webRequest)) (json.RawMessage, error) {
	var list []json.RawMessage
	if json.Unmarshal(nodes, &list) != nil {
		return nodes, nil //nolint:nilerr // refused by flow.Parse
	}
	changed := false
	for i, raw := range list {
		var node, data map[string]json.RawMessage
		var kind, id string
		if json.Unmarshal(raw, &node) != nil || json.Unmarshal(node["type"], &kind) != nil || kind != string(flow.TypeHTTPRequest) ||
			json.Unmarshal(node["id"], &id) != nil || json.Unmarshal(node["data"], &data) != nil || data == nil {
			continue
		}
		var was webRequest
		if json.Unmarshal(orNull(data["url"]), &was.url) != nil || json.Unmarshal(orNull(data["headers"]), &was.headers) != nil {
			continue
		}
		now := webRequest{url: was.url, headers: maps.Clone(was.headers)}
		if change(id, &now); now.url == was.url && maps.Equal(now.headers, was.headers) {
			continue
		}
		changed = true
		for name, value := range map[string]any{"url": now.url, "headers": now.headers} {
			if _, there := data[name]; !there {
				continue
			}
			text, err := json.Marshal(value)
			if err != nil {
				return nil, fmt.Errorf("write a flow's request: %w", err)
			}
			data[name] = text
		}
		var err error
		if node["data"], err = json.Marshal(data); err != nil {
			return nil, fmt.Errorf("write a flow's request: %w", err)
		}
		if list[i], err = json.Marshal(node); err != nil {
			return nil, fmt.Errorf("write a flow's request: %w", err)
		}
	}
	if !changed {
		return nodes, nil
	}
	return json.Marshal(list)
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

// hide takes the credentials out of nodes. Those that are hidden already stay.
func hide(nodes json.RawMessage) (masked json.RawMessage, hidden secrets, err error) {
	hidden = secrets{}
	masked, err = eachRequest(nodes, func(id string, r *webRequest) {
		var s nodeSecrets
		for name, value := range r.headers {
			if !store.SecretName(name) || !store.HoldsSecret(value) {
				continue
			}
			if s.Headers == nil {
				s.Headers = map[string]string{}
			}
			s.Headers[name], r.headers[name] = value, store.MaskSecret(value)
		}
		if shown := store.MaskURL(r.url); shown != r.url {
			s.URL, r.url = r.url, shown
		}
		if s.URL != "" || s.Headers != nil {
			hidden[id] = s
		}
	})
	return masked, hidden, err
}

// reveal puts credentials into the nodes that they were taken out of.
func reveal(masked json.RawMessage, hidden secrets) (json.RawMessage, error) {
	return eachRequest(masked, func(id string, r *webRequest) {
		s := hidden[id]
		for name, value := range r.headers {
			if secret, ok := s.Headers[name]; ok && value == store.MaskSecret(secret) {
				r.headers[name] = secret
			}
		}
		if s.URL != "" && r.url == store.MaskURL(s.URL) {
			r.url = s.URL
		}
	})
}

// keep puts the credentials of before, which are in clear in was, into nodes that show their masks: for the same node and the same address alone, so
// that nobody has a secret sent elsewhere without knowing it.
func keep(given, was json.RawMessage) (nodes json.RawMessage, wrong []flow.Fault, err error) {
	if shown, _, err := hide(was); err != nil || sameJSON(given, shown) {
		return was, nil, err
	}
	before := map[string]webRequest{}
	if _, err := eachRequest(was, func(id string, r *webRequest) { before[id] = *r }); err != nil {
		return nil, nil, err
	}
	nodes, err = eachRequest(given, func(id string, r *webRequest) {
		var kept []string
		fail := func(field, message string) {
			wrong = append(wrong, flow.Fault{Node: id, Field: field, Message: message})
		}
		old := before[id]
		for _, name := range slices.Sorted(maps.Keys(r.headers)) {
			if value := r.headers[name]; strings.Contains(value, store.Mask) {
				secret, ok := old.header(name)
				if !ok || value != store.MaskSecret(secret) {
					fail("data.headers."+name, gone)
					continue
				}
				r.headers[name], kept = secret, append(kept, "data.headers."+name)
			}
		}
		if strings.Contains(r.url, store.Mask) {
			if r.url = store.UnmaskURL(r.url, old.url); strings.Contains(r.url, store.Mask) {
				fail("data.url", gone)
				return
			}
			kept = append(kept, "data.url")
		}
		if at := originOf(r.url); at != "" && at == originOf(old.url) {
			return
		}
		for _, field := range kept {
			fail(field, "must be given again: it was for another address")
		}
	})
	return nodes, wrong, err
}

const gone = "is the mask of a secret that is no longer stored: send the secret"

func (r webRequest) header(name string) (string, bool) {
	for other, value := range r.headers {
		if strings.EqualFold(name, other) {
			return value, true
		}
	}
	return "", false
}

// originOf is where a URL leads: scheme and host. It is empty where variables say so.
func originOf(address string) string {
	scheme, after, ok := strings.Cut(address, "://")
	authority := after
	if end := strings.IndexAny(after, "/?#"); end >= 0 {
		authority = after[:end]
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority = authority[at+1:]
	}
	if !ok || strings.Contains(scheme+authority, "{{") {
		return ""
	}
	u, err := url.Parse(scheme + "://" + authority)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// addSecrets keeps the credentials of a flow's version.
func (f *Service) addSecrets(ctx context.Context, tx *store.Tx, tenant, id uuid.UUID, version int32, hidden secrets) error {
	if len(hidden) == 0 {
		return nil
	}
	plain, err := json.Marshal(hidden)
	if err != nil {
		return fmt.Errorf("write the credentials of a flow: %w", err)
	}
	row := store.NewID()
	sealed, err := f.Store.Seal(store.FlowSecrets(row), plain)
	if err != nil {
		return fmt.Errorf("seal the credentials of a flow: %w", err)
	}
	return tx.Q.FlowSecretsAdd(ctx, db.FlowSecretsAddParams{TenantID: tenant, ID: row, FlowID: id, Version: version, SecretsSealed: sealed})
}

// whole gives the nodes of a flow's version as they are run.
func (f *Service) whole(ctx context.Context, tx *store.Tx, tenant, id uuid.UUID, version int32, nodes json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(nodes, []byte(store.Mask)) {
		return nodes, nil
	}
	row, err := tx.Q.FlowSecrets(ctx, tenant, id, version)
	if errors.Is(err, store.ErrNotFound) {
		return nodes, nil
	}
	if err != nil {
		return nil, err
	}
	plain, err := f.Store.Unseal(store.FlowSecrets(row.ID), row.SecretsSealed)
	if err != nil {
		return nil, fmt.Errorf("open the credentials of flow %s: %w", id, err)
	}
	var hidden secrets
	if err := json.Unmarshal(plain, &hidden); err != nil {
		return nil, fmt.Errorf("read the credentials of flow %s: %w", id, err)
	}
	return reveal(nodes, hidden)
}

// sealBatch bounds the transactions of SealSecrets.
const sealBatch = 100

// SealSecrets seals the credentials of all tenants' flows that were written before any were sealed, and gives how many versions had some.
func (f *Service) SealSecrets(ctx context.Context) (sealed int, err error) {
	after := db.FlowVersionsUnsealedParams{Batch: sealBatch}
	for {
		var last *db.FlowVersion
		n := 0
		err := f.Store.InSystem(ctx, func(tx *store.Tx) error {
			n, last = 0, nil
			rows, err := tx.Q.FlowVersionsUnsealed(ctx, after)
			if err != nil {
				return err
			}
			for _, row := range rows {
				masked, hidden, err := hide(row.Nodes)
				if err != nil {
					return err
				}
				if len(hidden) == 0 {
					continue
				}
				if err := f.addSecrets(ctx, tx, row.TenantID, row.FlowID, row.Version, hidden); err != nil {
					return err
				}
				if err := tx.Q.FlowVersionMask(ctx, db.FlowVersionMaskParams{
					TenantID: row.TenantID, FlowID: row.FlowID, Version: row.Version, Nodes: masked,
				}); err != nil {
					return err
				}
				n++
			}
			if len(rows) == sealBatch {
				last = &rows[len(rows)-1]
			}
			return nil
		})
		if err != nil {
			return sealed, fault.Wrap("seal the credentials of flows", err)
		}
		if sealed += n; last == nil {
			return sealed, nil
		}
		after.TenantID, after.FlowID, after.Version = last.TenantID, last.FlowID, last.Version
	}
}
