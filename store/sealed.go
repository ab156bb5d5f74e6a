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

// SigningSecret is the context of a webhook subscription's secret.
func SigningSecret(subscriptionID uuid.UUID) string {
	return "signing secret of subscription " + subscriptionID.String()
}

type sealedRow struct {
	ID     uuid.UUID
	Sealed []byte
}

// resealBatch replaces values, each if it is still what it was.
type resealBatch struct {
	TenantID uuid.UUID
	Ids      []uuid.UUID //nolint:revive // the generated parameters have the same fields
	Was      [][]byte
	Sealed   [][]byte
}

// sealedColumn is a column of sealed values, for a rotation. Every column of sealed values must be in sealedColumns.
type sealedColumn struct {
	table, column string
	// number tells those that are sealed under the tenant's data key, context the context of the others.
	number  bool
	context func(id uuid.UUID) string
	read    func(ctx context.Context, q *db.Queries, tenant, after uuid.UUID, page int32) ([]sealedRow, error)
	write   func(context.Context, *db.Queries, resealBatch) (int64, error)
}

func sealedColumns() []sealedColumn {
	return []sealedColumn{
		{
			table: "trunks", column: "password_sealed", context: TrunkPassword,
			read: func(ctx context.Context, q *db.Queries, tenant, after uuid.UUID, page int32) ([]sealedRow, error) {
				return sealedRows(q.SealedTrunks(ctx, tenant, after, page))
			},
			write: func(ctx context.Context, q *db.Queries, b resealBatch) (int64, error) {
				return q.ResealTrunks(ctx, db.ResealTrunksParams(b))
			},
		},
		{
			table: "voice_agents", column: "auth_token_sealed", context: AuthToken,
			read: func(ctx context.Context, q *db.Queries, tenant, after uuid.UUID, page int32) ([]sealedRow, error) {
				return sealedRows(q.SealedVoiceAgents(ctx, tenant, after, page))
			},
			write: func(ctx context.Context, q *db.Queries, b resealBatch) (int64, error) {
				return q.ResealVoiceAgents(ctx, db.ResealVoiceAgentsParams(b))
			},
		},
		{
			table: "webhook_subscriptions", column: "secret_sealed", context: SigningSecret,
			read: func(ctx context.Context, q *db.Queries, tenant, after uuid.UUID, page int32) ([]sealedRow, error) {
				return sealedRows(q.SealedWebhooks(ctx, tenant, after, page))
			},
			write: func(ctx context.Context, q *db.Queries, b resealBatch) (int64, error) {
				return q.ResealWebhooks(ctx, db.ResealWebhooksParams(b))
			},
		},
		{
			table: "leads", column: "phone_sealed", number: true,
			read: func(ctx context.Context, q *db.Queries, tenant, after uuid.UUID, page int32) ([]sealedRow, error) {
				return sealedRows(q.SealedLeads(ctx, tenant, after, page))
			},
			write: func(ctx context.Context, q *db.Queries, b resealBatch) (int64, error) {
				return q.ResealLeads(ctx, db.ResealLeadsParams(b))
			},
		},
		{
			table: "calls", column: "peer_sealed", number: true,
			read: func(ctx context.Context, q *db.Queries, tenant, after uuid.UUID, page int32) ([]sealedRow, error) {
				return sealedRows(q.SealedCalls(ctx, tenant, after, page))
			},
			write: func(ctx context.Context, q *db.Queries, b resealBatch) (int64, error) {
				return q.ResealCalls(ctx, db.ResealCallsParams(b))
			},
		},
	}
}

func sealedRows[R ~struct {
	ID     uuid.UUID
	Sealed []byte
}](rows []R, err error) ([]sealedRow, error) {
	out := make([]sealedRow, len(rows))
	for i, r := range rows {
		out[i] = sealedRow(r)
	}
	return out, err
}
