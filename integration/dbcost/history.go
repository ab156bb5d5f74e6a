package dbcost

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// History is what a database has behind it when a run begins.
type History struct {
	// Calls and Leads are how many there are; the calls lie in so many Months before the last one.
	Calls, Leads int64
	Months       int
}

// errShort says that a table has fewer rows than were to be written.
var errShort = errors.New("history is incomplete")

const (
	// leadsPerCampaign is the size of the finished campaigns that the leads belong to.
	leadsPerCampaign = 100_000
	// fillers is how many connections write.
	fillers = 2
)

// Fill writes a tenant's history as superuser: calls that are over, a partition for each month, and leads of campaigns that are stopped. What
// a table's triggers would count is not counted. It may take a minute for each few millions; progress is told of each step.
func Fill(ctx context.Context, adminURL string, tenant uuid.UUID, h History, progress func(what string, rows int64)) error {
	if h.Leads > 0 {
		if err := fillLeads(ctx, adminURL, tenant, h.Leads); err != nil {
			return err
		}
		progress("leads", h.Leads)
	}
	if h.Calls > 0 {
		if err := fillCalls(ctx, adminURL, tenant, h, progress); err != nil {
			return err
		}
	}
	return withFiller(ctx, adminURL, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "VACUUM (ANALYZE) calls, leads")
		return err
	})
}

// withFiller runs do with a connection whose writes no trigger and no foreign key sees.
func withFiller(ctx context.Context, adminURL string, do func(*pgx.Conn) error) (err error) {
	cfg, err := pgx.ParseConfig(adminURL)
	if err != nil {
		return fmt.Errorf("read the database's address: %w", err)
	}
	maps.Copy(cfg.RuntimeParams, map[string]string{
		"application_name": Application, "session_replication_role": "replica", "maintenance_work_mem": "1GB", "statement_timeout": "0",
	})
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connect to fill the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return do(conn)
}

// fillCalls writes the months beside one another.
func fillCalls(ctx context.Context, adminURL string, tenant uuid.UUID, h History, progress func(string, int64)) error {
	months := make(chan int)
	errs := make([]error, fillers)
	filling, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex // guards progress
	var working sync.WaitGroup
	for i := range fillers {
		working.Go(func() {
			errs[i] = withFiller(filling, adminURL, func(conn *pgx.Conn) error {
				for back := range months {
					rows := h.Calls*int64(back+1)/int64(h.Months) - h.Calls*int64(back)/int64(h.Months)
					month := firstOfMonth(time.Now(), -2-back)
					if err := fillMonth(filling, conn, tenant, month, rows); err != nil {
						return fmt.Errorf("fill the calls of %s: %w", month.Format("2006-01"), err)
					}
					mu.Lock()
					progress("calls of "+month.Format("2006-01"), rows)
					mu.Unlock()
				}
				return nil
			})
			if errs[i] != nil {
				stop()
			}
		})
	}
	for back := range h.Months {
		select {
		case months <- back:
		case <-filling.Done():
		}
	}
	close(months)
	working.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

func firstOfMonth(now time.Time, offset int) time.Time {
	now = now.UTC()
	return time.Date(now.Year(), now.Month()+time.Month(offset), 1, 0, 0, 0, 0, time.UTC)
}

// fillMonth writes a table and makes it a partition then: its indexes are built at once. Of the calls three in five failed, as a dialer's do.
func fillMonth(ctx context.Context, conn *pgx.Conn, tenant uuid.UUID, month time.Time, rows int64) error {
	next := firstOfMonth(month, 1)
	table := "calls_" + month.Format("2006_01")
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "CREATE TABLE "+table+" (LIKE calls INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"); err != nil {
			return err
		}
		written, err := tx.Exec(ctx, `INSERT INTO `+table+` (tenant_id, id, campaign_id, lead_id, voice_agent_id, trunk_id, node, fs_uuid, direction, status,
			from_number, to_number, peer_hash, dial_time, ring_time, answer_time, end_time, hangup_cause, hangup_disposition, sip_status, disposition, created_at)
			SELECT $1, (lpad(to_hex(n.ms), 12, '0') || '7' || substr(n.h, 1, 3) || '8' || substr(n.h, 4, 15))::uuid, (n.h || '')::uuid, md5(n.h)::uuid, NULL, NULL, 'old',
				n.h, 'outbound', CASE WHEN n.answered THEN 'completed' ELSE 'failed' END, '+9180000001', '+919' || lpad((n.i % 1000000000)::text, 9, '0'),
				decode(md5('peer' || n.i % 20000000) || md5(n.i % 20000000 || 'peer'), 'hex'), n.at, n.at + interval '1 second',
				CASE WHEN n.answered THEN n.at + interval '6 seconds' END, n.at + interval '20 seconds',
				CASE WHEN n.answered THEN 'NORMAL_CLEARING' ELSE 'USER_BUSY' END, CASE WHEN n.answered THEN 'recv_bye' ELSE 'recv_refuse' END,
				CASE WHEN n.answered THEN 200 ELSE 486 END, CASE WHEN n.i % 5 = 0 THEN 'sold' END, n.at
			FROM (SELECT i, ms, md5(i::text || $2) AS h, i % 5 < 2 AS answered, to_timestamp(ms / 1000.0) AS at
				FROM (SELECT i, (extract(epoch FROM $3::timestamptz) * 1000 + i * $4::float8)::bigint AS ms FROM generate_series(0, $5::bigint - 1) i) s) n`,
			tenant, table, month, float64(next.Sub(month).Milliseconds())/float64(rows+1), rows)
		if err != nil {
			return err
		}
		if written.RowsAffected() != rows {
			return fmt.Errorf("%w: %d of %d calls", errShort, written.RowsAffected(), rows)
		}
		for _, statement := range []string{
			fmt.Sprintf("ALTER TABLE calls ATTACH PARTITION %s FOR VALUES FROM (uuidv7_floor('%s')) TO (uuidv7_floor('%s'))", table,
				month.Format(time.RFC3339), next.Format(time.RFC3339)),
			"SELECT protect_tenant_rows('" + table + "')",
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// fillLeads writes the leads without their indexes, which are built afterwards.
func fillLeads(ctx context.Context, adminURL string, tenant uuid.UUID, leads int64) error {
	return withFiller(ctx, adminURL, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i
			WHERE i.indrelid = 'leads'::regclass AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid)`)
		if err != nil {
			return fmt.Errorf("list the leads' indexes: %w", err)
		}
		type index struct{ Name, Definition string }
		indexes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
		if err != nil {
			return fmt.Errorf("list the leads' indexes: %w", err)
		}
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			for _, i := range indexes {
				if _, err := tx.Exec(ctx, "DROP INDEX "+i.Name); err != nil {
					return fmt.Errorf("drop index %s: %w", i.Name, err)
				}
			}
			if _, err := tx.Exec(ctx, `INSERT INTO campaigns (tenant_id, id, name, status, dial_mode, post_answer_action)
				SELECT $1, md5('history' || c)::uuid, 'history ' || c, 'completed', 'progressive', 'connect_voice_agent' FROM generate_series(0, $2::bigint) c`,
				tenant, (leads-1)/leadsPerCampaign); err != nil {
				return fmt.Errorf("write the campaigns of the history: %w", err)
			}
			// Ids in the order of time, as those of real leads are.
			if _, err := tx.Exec(ctx, `INSERT INTO leads (tenant_id, id, campaign_id, phone, phone_hash, phone_last4, name, dnd_checked, dnd_clean, dnd_checked_at,
				status, attempts, created_at, completed_at)
				SELECT $1, (lpad(to_hex((extract(epoch FROM now() - interval '300 days') * 1000)::bigint + i), 12, '0') || '7' || substr(md5(i::text), 1, 3) || '8'
					|| substr(md5(i::text), 4, 15))::uuid, md5('history' || i / $3)::uuid, '9' || lpad(i::text, 9, '0'),
					decode(md5('lead' || i) || md5(i || 'lead'), 'hex'), right(lpad(i::text, 4, '0'), 4), 'Lead ' || i, true, true, now() - interval '300 days',
					CASE WHEN i % 4 = 0 THEN 'completed' ELSE 'exhausted' END, 1 + i % 3, now() - interval '300 days', now() - interval '200 days'
				FROM generate_series(0, $2::bigint - 1) i`, tenant, leads, int64(leadsPerCampaign)); err != nil {
				return fmt.Errorf("write the leads of the history: %w", err)
			}
			for _, i := range indexes {
				if _, err := tx.Exec(ctx, i.Definition); err != nil {
					return fmt.Errorf("build index %s: %w", i.Name, err)
				}
			}
			return nil
		})
	})
}
