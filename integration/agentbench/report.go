package agentbench

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ringmaster/ringmaster/integration/dbcost"
	"github.com/ringmaster/ringmaster/store"
)

// Result is what came of a run.
type Result struct {
	Agents   int            `json:"agents"`
	Took     time.Duration  `json:"took"`
	Audits   int            `json:"audits"`
	Faults   []Fault        `json:"faults"`
	Calls    int            `json:"calls"`
	PerS     float64        `json:"calls_per_second"`
	Outcomes map[string]int `json:"outcomes"`
	// Connected counts the calls that reached an agent, Abandoned those that were answered and did not.
	Connected int `json:"connected"`
	Abandoned int `json:"abandoned"`
	// Again counts the calls that were offered more than once, since an agent or a phone was lost.
	Again int `json:"offered_again"`
	// DelayMS are quantiles of the time from the callee's answer to the agent's connection, of calls that were offered once.
	DelayMS map[string]float64 `json:"connect_delay_ms"`
	CPU     map[string]float64 `json:"cpu"`
	// Log counts the agents' changes of state by their cause.
	Log map[string]int `json:"log"`
}

// OK tells whether nothing was ever wrong.
func (r *Result) OK() bool { return len(r.Faults) == 0 }

// result reads what the run left in the database.
func (b *bench) result(ctx context.Context, a *audit, took time.Duration, cpu map[string]float64) (*Result, error) {
	r := &Result{
		Agents: len(b.agents), Took: took, Audits: a.checks, Faults: a.found(), CPU: cpu,
		Outcomes: map[string]int{}, DelayMS: map[string]float64{}, Log: map[string]int{},
	}
	err := b.store.InTenant(ctx, b.tenant.ID, func(tx *store.Tx) error {
		// A call whose agent was lost is connected a second time: its delay is that of the loss.
		var p50, p90, p99, most float64
		err := tx.Pgx().QueryRow(ctx, `SELECT count(*), count(agent_connect_time), count(*) FILTER (WHERE answer_time IS NOT NULL AND agent_connect_time IS NULL),
			count(*) FILTER (WHERE offers > 1),
			coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY d), 0), coalesce(percentile_cont(0.9) WITHIN GROUP (ORDER BY d), 0),
			coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY d), 0), coalesce(max(d), 0)
			FROM (SELECT c.*, l.offers, CASE WHEN l.offers = 1 THEN 1000 * extract(epoch FROM agent_connect_time - answer_time)::float8 END AS d
				FROM calls c CROSS JOIN LATERAL (SELECT count(*) AS offers FROM agent_status_log WHERE tenant_id = $1 AND call_id = c.id AND cause = 'offer') l
				WHERE tenant_id = $1 AND campaign_id = ANY($2)) c`,
			b.tenant.ID, b.campaigns).Scan(&r.Calls, &r.Connected, &r.Abandoned, &r.Again, &p50, &p90, &p99, &most)
		if err != nil {
			return err
		}
		r.DelayMS = map[string]float64{"p50": p50, "p90": p90, "p99": p99, "max": most}
		if err := counts(ctx, tx, r.Outcomes, `SELECT coalesce(hangup_cause, '') || ' ' || coalesce(hangup_disposition, ''), count(*) FROM calls
			WHERE tenant_id = $1 AND campaign_id = ANY($2) GROUP BY 1`, b.tenant.ID, b.campaigns); err != nil {
			return err
		}
		return counts(ctx, tx, r.Log, `SELECT cause, count(*) FROM agent_status_log WHERE tenant_id = $1 GROUP BY 1`, b.tenant.ID)
	})
	if err != nil {
		return nil, fmt.Errorf("read what came of the calls: %w", err)
	}
	r.PerS = float64(r.Calls) / took.Seconds()
	return r, nil
}

func counts(ctx context.Context, tx *store.Tx, into map[string]int, query string, args ...any) error {
	clear(into)
	rows, err := tx.Pgx().Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			return err
		}
		into[name] = n
	}
	return rows.Err()
}

// Print writes the result for people.
func (r *Result) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) }
	p("agents\t%d", r.Agents)
	p("calls\t%d in %s, %.1f a second", r.Calls, r.Took.Round(time.Second), r.PerS)
	p("with an agent\t%d", r.Connected)
	p("answered, no agent\t%d", r.Abandoned)
	p("offered again\t%d", r.Again)
	p("answer to agent\tp50 %.0f ms, p90 %.0f, p99 %.0f, most %.0f", r.DelayMS["p50"], r.DelayMS["p90"], r.DelayMS["p99"], r.DelayMS["max"])
	for _, part := range slices.Sorted(maps.Keys(r.CPU)) {
		p("CPU: %s\t%.2f", part, r.CPU[part])
	}
	for _, group := range []map[string]int{r.Outcomes, r.Log} {
		for _, name := range slices.Sorted(maps.Keys(group)) {
			p("  %s\t%d", name, group[name])
		}
	}
	p("audits\t%d", r.Audits)
	p("wrong states\t%d", len(r.Faults))
	for i, f := range r.Faults {
		if i == 20 {
			p("  …")
			break
		}
		p("  %s\t%s\t%s", f.What, f.Subject, f.For.Round(100*time.Millisecond))
	}
	return t.Flush()
}

// usage is the CPU time that each part has had.
type usage map[string]time.Duration

// usage reads the parts' CPU times; the machine's are busy and idle.
func (b *bench) usage() (usage, error) {
	out := usage{}
	for part, pid := range map[string]int{
		"controller": b.stack.ControllerPID(), "switch": b.stack.SwitchPID(), "carrier and phones": b.stack.CarrierPID(), "this tool": os.Getpid(),
	} {
		used, err := dbcost.CPU(pid)
		if err != nil {
			return nil, fmt.Errorf("read the CPU time of the %s: %w", part, err)
		}
		out[part] = used
	}
	return out, nil
}

// since gives each part's share of one CPU in the time between.
func (u usage) since(before usage, took time.Duration) map[string]float64 {
	out := map[string]float64{}
	for part, t := range u {
		out[part] = (t - before[part]).Seconds() / took.Seconds()
	}
	return out
}
