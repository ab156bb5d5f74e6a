-- Webhook subscriptions, the outbox of events, and their deliveries.
-- +goose Up

CREATE TABLE webhook_subscriptions (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL,
  url text NOT NULL CHECK (url LIKE 'http://%' OR url LIKE 'https://%'),
  event_types text[] NOT NULL CHECK (cardinality(event_types) > 0),
  campaign_id uuid,
  secret_sealed bytea NOT NULL,
  is_active boolean NOT NULL DEFAULT true,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id)
);
SELECT protect_tenant_rows('webhook_subscriptions');

-- An event commits with the state change that it tells of. seq gives the order in which events of one transaction were
-- emitted; a sequence and not an identity column, which partitioned tables support only from PostgreSQL 17 on.
CREATE SEQUENCE events_seq;
CREATE TABLE events (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL,
  seq bigint NOT NULL DEFAULT nextval('events_seq'),
  type text NOT NULL CHECK (type <> ''),
  call_id uuid,
  campaign_id uuid,
  data jsonb NOT NULL CHECK (jsonb_typeof(data) = 'object'),
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);
ALTER SEQUENCE events_seq OWNED BY events.seq;
CREATE INDEX events_by_call ON events (tenant_id, call_id, seq) WHERE call_id IS NOT NULL;
SELECT protect_tenant_rows('events');

-- Events of a call whose call.answered waits for a verdict. They move to the outbox behind it, in the order of seq. Rows live
-- for seconds; a call's close leaves none.
CREATE TABLE held_events (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL,
  seq bigint NOT NULL DEFAULT nextval('events_seq'),
  type text NOT NULL CHECK (type <> ''),
  call_id uuid NOT NULL,
  campaign_id uuid,
  data jsonb NOT NULL CHECK (jsonb_typeof(data) = 'object'),
  created_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX held_events_by_call ON held_events (tenant_id, call_id, seq);
ALTER TABLE held_events SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
SELECT protect_tenant_rows('held_events');

CREATE TABLE webhook_deliveries (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL,
  subscription_id uuid NOT NULL,
  event_id uuid NOT NULL,
  event_type text NOT NULL,
  status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'dead_lettered')),
  attempts jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(attempts) = 'array'),
  next_attempt_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);
CREATE INDEX webhook_deliveries_by_event ON webhook_deliveries (tenant_id, event_id);
CREATE INDEX webhook_deliveries_by_subscription ON webhook_deliveries (tenant_id, subscription_id, id);
CREATE INDEX webhook_deliveries_by_status ON webhook_deliveries (tenant_id, status, id) WHERE status <> 'delivered';
SELECT protect_tenant_rows('webhook_deliveries');

-- +goose Down
DROP TABLE webhook_deliveries, held_events, events, webhook_subscriptions;
