package store

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

// The contexts of what is sealed: what the value is, and whose.

// TrunkPassword is the context of a trunk's password.
func TrunkPassword(trunkID uuid.UUID) string { return "trunk:" + trunkID.String() }

// AuthToken is the context of a voice agent's bearer token.
func AuthToken(voiceAgentID uuid.UUID) string {
	return "auth token of voice agent " + voiceAgentID.String()
}

// SigningSecret is the context of a webhook subscription's secrets, the present one and the one before.
func SigningSecret(subscriptionID uuid.UUID) string {
	return "signing secret of subscription " + subscriptionID.String()
}

// IntegrationConfig is the context of what a tenant says of an integration.
func IntegrationConfig(integrationID uuid.UUID) string {
	return "configuration of integration " + integrationID.String()
}

// FlowSecrets is the context of the credentials of a flow's version.
func FlowSecrets(id uuid.UUID) string { return "credentials of a flow's requests " + id.String() }

// OAuthKey is the context of a key that signs OAuth's tokens.
func OAuthKey(id uuid.UUID) string { return "OAuth signing key " + id.String() }

// sealedRow and resealBatch have the fields of what the generated queries give and take.
type (
	sealedRow struct {
		ID     uuid.UUID
		Sealed []byte
	}
	// resealBatch replaces values, each if it is still what it was.
	resealBatch struct {
		TenantID uuid.UUID
		Ids      []uuid.UUID //nolint:revive // as generated
		Was      [][]byte
		Sealed   [][]byte
	}
)

// sealedColumn is a column of sealed values, for a rotation. Every column of sealed values must be in sealedColumns.
type sealedColumn struct {
	table, column string
	// installation marks values that are no tenant's: they are read and written with the nil tenant.
	installation bool
	// context is the context of a row's value; nil where numbers are sealed under the tenant's data key.
	context func(id uuid.UUID) string
	read    func(ctx context.Context, q *db.Queries, tenant, after uuid.UUID, page int32) ([]sealedRow, error)
	write   func(context.Context, *db.Queries, resealBatch) (int64, error)
}

func sealedColumns() []sealedColumn {
	type q = db.Queries
	return []sealedColumn{
		columnOf("trunks", "password_sealed", TrunkPassword, (*q).SealedTrunks, (*q).ResealTrunks),
		columnOf("voice_agents", "auth_token_sealed", AuthToken, (*q).SealedVoiceAgents, (*q).ResealVoiceAgents),
		columnOf("webhook_subscriptions", "secret_sealed", SigningSecret, (*q).SealedWebhooks, (*q).ResealWebhooks),
		columnOf("integrations", "config_sealed", IntegrationConfig, (*q).SealedIntegrations, (*q).ResealIntegrations),
		columnOf("flow_secrets", "secrets_sealed", FlowSecrets, (*q).SealedFlows, (*q).ResealFlows),
		columnOf("webhook_subscriptions", "previous_secret_sealed", SigningSecret, (*q).SealedOldWebhooks, (*q).ResealOldWebhooks),
		columnOf("leads", "phone_sealed", nil, (*q).SealedLeads, (*q).ResealLeads),
		columnOf("calls", "peer_sealed", nil, (*q).SealedCalls, (*q).ResealCalls),
		oauthKeys(),
	}
}

// oauthKeys is the column of the keys that sign OAuth's tokens.
func oauthKeys() sealedColumn {
	return sealedColumn{
		table: "oauth_signing_keys", column: "private_sealed", installation: true, context: OAuthKey,
		read: func(ctx context.Context, q *db.Queries, _, after uuid.UUID, page int32) ([]sealedRow, error) {
			rows, err := q.SealedOAuthKeys(ctx, after, page)
			out := make([]sealedRow, len(rows))
			for i, r := range rows {
				out[i] = sealedRow(r)
			}
			return out, err
		},
		write: func(ctx context.Context, q *db.Queries, b resealBatch) (int64, error) {
			return q.ResealOAuthKeys(ctx, b.Ids, b.Was, b.Sealed)
		},
	}
}

// columnOf gives a column by its queries, each of which has types of its own.
func columnOf[R ~struct {
	ID     uuid.UUID
	Sealed []byte
}, B ~struct {
	TenantID uuid.UUID
	Ids      []uuid.UUID //nolint:revive // as generated
	Was      [][]byte
	Sealed   [][]byte
}](
	table, column string, contextOf func(id uuid.UUID) string,
	read func(q *db.Queries, ctx context.Context, tenant, after uuid.UUID, page int32) ([]R, error),
	write func(q *db.Queries, ctx context.Context, batch B) (int64, error),
) sealedColumn {
	return sealedColumn{
		table: table, column: column, context: contextOf,
		read: func(ctx context.Context, q *db.Queries, tenant, after uuid.UUID, page int32) ([]sealedRow, error) {
			rows, err := read(q, ctx, tenant, after, page)
			out := make([]sealedRow, len(rows))
			for i, r := range rows {
				out[i] = sealedRow(r)
			}
			return out, err
		},
		write: func(ctx context.Context, q *db.Queries, b resealBatch) (int64, error) { return write(q, ctx, B(b)) },
	}
}
