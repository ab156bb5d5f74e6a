package ledger

import (
	"context"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// Insights are what a voice agent says of its conversation; nil leaves what there is.
type Insights struct{ Summary, Sentiment, NextAction *string }

// KeepInsights writes them to the call, also after its end.
func (l *Ledger) KeepInsights(ctx context.Context, call db.Call, in Insights) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		err := tx.Q.CallSetInsights(ctx, db.CallSetInsightsParams{
			TenantID: call.TenantID, ID: call.ID, AiSummary: in.Summary, AiSentiment: in.Sentiment, AiNextAction: in.NextAction,
		})
		if err != nil {
			return err
		}
		return tx.CallChanged(ctx, call.TenantID, call.ID)
	})
}
