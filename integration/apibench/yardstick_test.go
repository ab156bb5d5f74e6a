package apibench

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valyala/fasthttp"
)

const (
	// envYardstick makes the tests' executable a yardstick: a server on the database that it names.
	envYardstick = "RINGMASTER_YARDSTICK_DATABASE"
	// yardstickConns are as many as Ringmaster's own pool has.
	yardstickConns = 16
)

const yardstickTables = `
CREATE TABLE yardstick (id uuid PRIMARY KEY, name text NOT NULL, note text, n int NOT NULL, made_at timestamptz NOT NULL);
CREATE TABLE yardstick_leads (tenant_id uuid NOT NULL, id uuid NOT NULL, campaign_id uuid NOT NULL, phone text, phone_sealed bytea,
  phone_hash bytea NOT NULL, phone_last4 text NOT NULL, name text, email text, metadata jsonb, crm_lead_id text, dnd_checked boolean NOT NULL,
  dnd_clean boolean NOT NULL, dnd_checked_at timestamptz, priority int NOT NULL, status text NOT NULL, created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id), UNIQUE (tenant_id, campaign_id, phone_hash), UNIQUE (tenant_id, campaign_id, crm_lead_id));`

type yardstickRow struct {
	ID     uuid.UUID `json:"id"`
	Name   string    `json:"name"`
	Note   *string   `json:"note"`
	N      int       `json:"n"`
	MadeAt time.Time `json:"made_at"`
}

// serveYardstick answers GET /{id} with one row, and POST /bulk/{statements} when it has sent so many statements of 500 leads. It prints its
// address, and serves until its standard input ends.
func serveYardstick(ctx context.Context, url string) error {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("parse the database's URL: %w", err)
	}
	cfg.MaxConns = yardstickConns
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	defer pool.Close()
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &fasthttp.Server{NoDefaultServerHeader: true, Handler: func(rc *fasthttp.RequestCtx) {
		var body []byte
		var err error
		if rest, bulk := strings.CutPrefix(string(rc.Path()), "/bulk/"); bulk {
			err = bulkOf(ctx, pool, rest)
		} else {
			body, err = rowOf(ctx, pool, path.Base(string(rc.Path())))
		}
		if err != nil {
			rc.Error(err.Error(), fasthttp.StatusInternalServerError)
			return
		}
		rc.SetContentType("application/json")
		rc.SetBody(body)
	}}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	_, _ = fmt.Fprintln(os.Stdout, ln.Addr())
	_, _ = os.Stdin.Read(make([]byte, 1))
	err = server.Shutdown()
	if ended := <-served; err == nil {
		err = ended
	}
	return err
}

func rowOf(ctx context.Context, pool *pgxpool.Pool, id string) ([]byte, error) {
	var row yardstickRow
	err := pool.QueryRow(ctx, "SELECT id, name, note, n, made_at FROM yardstick WHERE id = $1", id).
		Scan(&row.ID, &row.Name, &row.Note, &row.N, &row.MadeAt)
	if err != nil {
		return nil, fmt.Errorf("read a row: %w", err)
	}
	return json.Marshal(row)
}

const bulkInsert = `INSERT INTO yardstick_leads (tenant_id, id, campaign_id, phone, phone_hash, phone_last4, name, email, metadata, crm_lead_id,
  dnd_checked, dnd_clean, dnd_checked_at, priority, status)
SELECT $1, r.id, $2, r.phone, r.hash, r.last4, r.name, r.email, r.metadata::jsonb, r.crm, true, true, now(), 0, 'new'
FROM unnest($3::uuid[], $4::text[], $5::bytea[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
  AS r (id, phone, hash, last4, name, email, metadata, crm)
ON CONFLICT DO NOTHING`

// bulkOf inserts leads into a campaign of their own.
func bulkOf(ctx context.Context, pool *pgxpool.Pool, statements string) error {
	var count int
	if _, err := fmt.Sscanf(statements, "%d", &count); err != nil {
		return fmt.Errorf("read the number of statements: %w", err)
	}
	tenant, campaign := uuid.New(), uuid.New()
	for n := range count {
		var ids []uuid.UUID
		var hashes [][]byte
		var phones, last4s, names, emails, metadatas, crms []string
		for i := range bulkSize {
			id, err := uuid.NewV7()
			if err != nil {
				return fmt.Errorf("make an id: %w", err)
			}
			lead := leadOf(n*bulkSize + i)
			hash := uuid.New()
			ids, hashes, phones = append(ids, id), append(hashes, append(hash[:], hash[:]...)), append(phones, lead.Phone)
			last4s, names, emails = append(last4s, lead.Phone[6:]), append(names, lead.Name), append(emails, lead.Email)
			metadata, err := json.Marshal(lead.Metadata)
			if err != nil {
				return fmt.Errorf("encode a lead: %w", err)
			}
			metadatas, crms = append(metadatas, string(metadata)), append(crms, lead.CRMLeadID)
		}
		if _, err := pool.Exec(ctx, bulkInsert, tenant, campaign, ids, phones, hashes, last4s, names, emails, metadatas, crms); err != nil {
			return fmt.Errorf("insert leads: %w", err)
		}
	}
	return nil
}
