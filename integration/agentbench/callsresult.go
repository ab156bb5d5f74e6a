package agentbench

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ringmaster/ringmaster/integration/dbcost"
	"github.com/ringmaster/ringmaster/store"
)

// CallsResult is what a load of calls has cost.
type CallsResult struct {
	Rate int           `json:"rate"`
	Took time.Duration `json:"took"` // from the first call to rest
	// Calls by how they went, and how many began each second while they did.
	Calls     int     `json:"calls"`
	PerS      float64 `json:"calls_per_second"`
	Answered  int     `json:"answered"`
	AI        int     `json:"ai"`
	Agent     int     `json:"agent"`
	Abandoned int     `json:"abandoned"`
	// What a call costs is without what goes on at rest. CPUms are each part's milliseconds of CPU; "watching" is what the database did for this
	// tool, and in no other figure.
	CPUms map[string]float64 `json:"cpu_ms_per_call"`
	// AtRest are each part's milliseconds of CPU per second before the first call, and the round trips per second.
	AtRest       map[string]float64 `json:"cpu_ms_per_second_at_rest"`
	TripsAtRest  float64            `json:"round_trips_per_second_at_rest"`
	RoundTrips   float64            `json:"round_trips_per_call"`
	Transactions float64            `json:"transactions_per_call"`
	Rows         float64            `json:"rows_written_per_call"`
	HOT          float64            `json:"hot_share_of_updates"`
	WALBytes     float64            `json:"wal_bytes_per_call"`
	// Quantiles in milliseconds.
	ToInvite    map[string]float64 `json:"originate_to_invite_ms"`
	ToFirstWord map[string]float64 `json:"answer_to_first_word_ms"`
	ToAgent     map[string]float64 `json:"answer_to_agent_ms"`
	History     dbcost.History     `json:"history"`
}

// quantiles in milliseconds; empty of no values.
func quantiles(ms []float64) map[string]float64 {
	out := map[string]float64{}
	if len(ms) == 0 {
		return out
	}
	slices.Sort(ms)
	for name, q := range map[string]int{"p50": 500, "p90": 900, "p99": 990} {
		out[name] = ms[(len(ms)-1)*q/1000]
	}
	out["max"] = ms[len(ms)-1]
	return out
}

// callsResult reads what the run left.
func (r *callsRun) callsResult(ctx context.Context, idle, before, after callsReading) (*CallsResult, error) {
	out := &CallsResult{Rate: r.o.Rate, Took: after.at.Sub(before.at), CPUms: map[string]float64{}, AtRest: map[string]float64{}, History: r.o.History}
	reports, err := r.reports(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.readRows(ctx, out, func(number string, dialed time.Time, ai bool) (invite, word *float64) {
		report, ok := reports[lastTen(number)]
		if !ok || report.InvitedAt == nil {
			return nil, nil
		}
		ms := report.InvitedAt.Sub(dialed).Seconds() * 1000
		if ai {
			word = report.FirstAudioMS
		}
		return &ms, word
	}); err != nil {
		return nil, err
	}
	calls, watched := max(1, float64(out.Calls)), before.at.Sub(idle.at).Seconds()
	out.PerS = float64(out.Calls) / r.o.Duration.Seconds()
	// perCall is a growth less what there is of it at rest in the same time.
	perCall := func(grown, restGrown float64) float64 { return (grown - restGrown/watched*out.Took.Seconds()) / calls }
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	for part := range after.parts {
		rest := ms(before.parts[part] - idle.parts[part])
		out.CPUms[part], out.AtRest[part] = perCall(ms(after.parts[part]-before.parts[part]), rest), rest/watched
	}
	used, rest := after.database.Since(before.database), before.database.Since(idle.database)
	out.CPUms["postgresql"], out.AtRest["postgresql"] = perCall(ms(used.CPU), ms(rest.CPU)), ms(rest.CPU)/watched
	out.CPUms["watching"] = ms(used.Watching) / calls
	trips := float64(before.trips - idle.trips)
	out.RoundTrips, out.TripsAtRest = perCall(float64(after.trips-before.trips), trips), trips/watched
	out.Transactions, out.Rows = perCall(float64(used.Transactions), float64(rest.Transactions)), perCall(float64(used.Rows), float64(rest.Rows))
	out.WALBytes, out.HOT = perCall(float64(used.WAL), float64(rest.WAL)), float64(used.HOT)/max(1, float64(used.Updates))
	return out, nil
}

// readRows counts the calls and collects their times.
func (r *callsRun) readRows(ctx context.Context, out *CallsResult, seen func(number string, dialed time.Time, ai bool) (invite, word *float64)) error {
	var invites, words, agents []float64
	err := r.store.InTenant(ctx, r.tenant.ID, func(tx *store.Tx) error {
		invites, words, agents = nil, nil, nil
		out.Calls, out.Answered, out.AI, out.Agent, out.Abandoned = 0, 0, 0, 0, 0
		rows, err := tx.Pgx().Query(ctx, `SELECT c.to_number, c.dial_time, c.answer_time, CASE WHEN c.agent_id IS NOT NULL THEN c.agent_connect_time END, c.abandoned,
			EXISTS (SELECT 1 FROM ai_sessions s WHERE s.tenant_id = c.tenant_id AND s.call_id = c.id) FROM calls c
			WHERE c.tenant_id = $1 AND c.campaign_id = ANY($2) AND c.dial_time >= $3`, r.tenant.ID, r.campaigns, r.began)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var number string
			var dialed time.Time
			var answered, connected *time.Time
			var abandoned, ai bool
			if err := rows.Scan(&number, &dialed, &answered, &connected, &abandoned, &ai); err != nil {
				return err
			}
			out.Calls++
			if answered != nil {
				out.Answered++
			}
			if abandoned {
				out.Abandoned++
			}
			if ai {
				out.AI++
			}
			if connected != nil && answered != nil {
				out.Agent++
				agents = append(agents, connected.Sub(*answered).Seconds()*1000)
			}
			invite, word := seen(number, dialed, ai)
			if invite != nil {
				invites = append(invites, *invite)
			}
			if word != nil {
				words = append(words, *word)
			}
		}
		return rows.Err()
	})
	if err != nil {
		return fmt.Errorf("read what came of the calls: %w", err)
	}
	out.ToInvite, out.ToFirstWord, out.ToAgent = quantiles(invites), quantiles(words), quantiles(agents)
	return nil
}

// Print writes the result for people.
func (r *CallsResult) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) }
	p("calls\t%d in %s, %.1f a second", r.Calls, r.Took.Round(time.Second), r.PerS)
	p("  answered\t%d: %d by a voice AI, %d by an agent, %d abandoned", r.Answered, r.AI, r.Agent, r.Abandoned)
	if r.History.Calls > 0 || r.History.Leads > 0 {
		p("history\t%d calls in %d months, %d leads", r.History.Calls, r.History.Months, r.History.Leads)
	}
	p("CPU per call\t(and per second at rest)")
	for _, part := range slices.Sorted(maps.Keys(r.CPUms)) {
		p("  %s\t%.2f ms\t(%.1f)", part, r.CPUms[part], r.AtRest[part])
	}
	p("round trips per call\t%.1f\t(%.1f)", r.RoundTrips, r.TripsAtRest)
	p("transactions per call\t%.1f", r.Transactions)
	p("rows written per call\t%.1f, %.1f%% of the updates HOT", r.Rows, 100*r.HOT)
	p("WAL per call\t%.1f kB", r.WALBytes/1000)
	for _, row := range []struct {
		name   string
		values map[string]float64
	}{{"originate to INVITE", r.ToInvite}, {"answer to first word", r.ToFirstWord}, {"answer to agent", r.ToAgent}} {
		if len(row.values) > 0 {
			p("%s\tp50 %.0f ms, p90 %.0f, p99 %.0f, max %.0f", row.name, row.values["p50"], row.values["p90"], row.values["p99"], row.values["max"])
		}
	}
	return t.Flush()
}
