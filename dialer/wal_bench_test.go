package dialer

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/figures"
	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// BenchmarkWALOfACall plays calls of a campaign from the gate to their end, six of ten busy, the others a voice agent's with machine detection, a
// recording and a subscription to all events, and folds the figures each 500 calls, as each five seconds at 100 calls a second. It shows the WAL of a
// call without full pages, and how many of the updates of its tables were HOT. Run it with -benchtime 3000x.
func BenchmarkWALOfACall(tb *testing.B) {
	st := storetest.New(tb)
	b := setupOn(tb, st).trunkAndNumber(tb)
	storetest.Exec(tb, st, b.tenant, "UPDATE trunks SET max_channels = 10000")
	ctx := tb.Context()
	agent := storetest.VoiceAgent(tb, st, b.tenant, "ws://127.0.0.1:9/ai")
	campaign := storetest.Campaign(tb, st, b.tenant, &agent)
	storetest.Exec(tb, st, b.tenant, "UPDATE campaigns SET amd = true, caller_id = (SELECT e164 FROM numbers LIMIT 1) WHERE id = $1", campaign)
	storetest.Subscription(tb, st, b.tenant, nil, "call.*", "lead.*", "ai_session.*")
	keys := func() []keyring.Key { return []keyring.Key{{1}} }
	l := ledger.New(st, b.svc.Gate, b.svc.Answers, slog.New(slog.DiscardHandler), keys)
	keeper := figures.Keeper{Store: st, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	voiceAgent, err := st.Read(b.tenant).VoiceAgentGet(ctx, b.tenant, agent)
	require.NoError(tb, err)
	numbers := make([]store.Phone, tb.N)
	ids := make([]uuid.UUID, tb.N)
	for i := range tb.N {
		number := b.freshNumber()
		ids[i] = storetest.Lead(tb, st, b.tenant, campaign, number)
		numbers[i], _ = store.ParsePhone(number)
	}
	status, refuse, class, sure, after, by := int32(486), "recv_refuse", string(amd.ClassHuman), 0.9, int32(800), ledger.AnsweredByHuman
	must := func(err error) {
		if err != nil {
			tb.Helper()
			tb.Fatal(err)
		}
	}
	before := walOf(tb, st)
	tb.ResetTimer()
	for i := range tb.N {
		adm, err := b.svc.Gate.Admit(ctx, admission.Request{
			TenantID: b.tenant, CampaignID: &campaign, LeadID: &ids[i], To: numbers[i], Purpose: admission.PurposeLead, Environment: "live",
		})
		must(err)
		call, now := adm.Terms().Call, time.Now().UTC().Truncate(time.Microsecond)
		if i%10 < 6 {
			must(l.Close(ctx, ledger.Closing{Call: call, Record: ledger.FinalRecord{EndTime: now, Cause: ledger.CauseUserBusy, SIPStatus: &status, Disposition: &refuse}}))
		} else {
			must(l.Ringing(ctx, call, now))
			must(l.Answered(ctx, call, now))
			token, err := callbacktoken.Mint(keys(), b.tenant, call.ID, now, callbacktoken.Life)
			must(err)
			g, err := l.StartSession(ctx, ledger.SessionStart{Call: call, Agent: voiceAgent, ID: uuid.Must(uuid.NewV7()), At: now, Token: token})
			must(err)
			must(l.SessionOpened(ctx, call, g.Session, "/tmp/"+call.ID.String()))
			must(l.AgentConnected(ctx, call, now))
			call.AmdClass, call.AmdConfidence, call.AmdAfterMs, call.AnsweredByAmd = &class, &sure, &after, &by
			must(l.Verdict(ctx, call))
			must(l.Close(ctx, ledger.Closing{Call: call, Record: ledger.FinalRecord{
				RingTime: &now, AnswerTime: &now, EndTime: now.Add(time.Minute), Cause: ledger.CauseNormalClearing,
			}, Quality: []byte(`{"in":{"packets":3000},"out":{"packets":3000}}`)}))
		}
		if i%500 == 499 {
			must(keeper.Fold(ctx))
		}
	}
	must(keeper.Fold(ctx))
	tb.StopTimer()
	tb.ReportMetric(float64(walOf(tb, st)-before)/float64(tb.N), "WAL-B/op")
	for _, table := range []string{"calls", "leads"} {
		var hot float64
		require.Eventually(tb, func() bool {
			var updates int
			must(st.InSystem(ctx, func(tx *store.Tx) error {
				return tx.Pgx().QueryRow(ctx, `SELECT coalesce(sum(n_tup_upd), 0)::int, coalesce(100.0 * sum(n_tup_hot_upd) / nullif(sum(n_tup_upd), 0), 0)::float8
					FROM pg_stat_user_tables WHERE relname LIKE $1::text || '%'`, table).Scan(&updates, &hot)
			}))
			return updates >= tb.N
		}, 20*time.Second, 200*time.Millisecond)
		tb.ReportMetric(hot, table+"-HOT%")
	}
}

func walOf(tb testing.TB, st *store.Store) (bytes int64) {
	tb.Helper()
	require.NoError(tb, st.InSystem(tb.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(tb.Context(), "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&bytes)
	}))
	return bytes
}
