-- People who take calls: their state and its history.
-- +goose Up

-- An agent is a user who has logged in at least once. The row is the one truth of an agent's state; every change goes through
-- its lock, counts version up and leaves a row in agent_status_log.
CREATE TABLE agents (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL,
  status text NOT NULL DEFAULT 'offline' CHECK (status IN ('available', 'on_call', 'wrap_up', 'paused', 'offline')),
  reason text,
  -- The call that the agent is on, from the moment it is theirs: while it still rings, too.
  current_call_id uuid,
  -- The newest call, which a wrap-up is about.
  last_call_id uuid,
  -- The controller whose switch has the agent's phone.
  node text NOT NULL,
  version bigint NOT NULL DEFAULT 0,
  last_status_at timestamptz NOT NULL,
  logged_in_at timestamptz,
  -- Since when an available agent waits: an offered call that came to nothing doesn't set it anew.
  idle_since timestamptz,
  wrap_up_until timestamptz,
  -- Counts logins and logouts: the SIP password is derived from it.
  sip_epoch bigint NOT NULL DEFAULT 0,
  sip_expires_at timestamptz,
  -- A SIP account ends with the sessions of its user: it knows in which epoch of those (users.session_epoch) it was given.
  sip_session_epoch bigint,
  PRIMARY KEY (tenant_id, id),
  FOREIGN KEY (tenant_id, id) REFERENCES users (tenant_id, id) ON DELETE CASCADE,
  CONSTRAINT agents_call_while_on_call CHECK ((status = 'on_call') = (current_call_id IS NOT NULL)),
  CONSTRAINT agents_online_since CHECK ((status = 'offline') = (logged_in_at IS NULL)),
  CONSTRAINT agents_idle_while_available CHECK (status <> 'available' OR idle_since IS NOT NULL),
  CONSTRAINT agents_wrap_up_is_about_a_call CHECK (status <> 'wrap_up' OR last_call_id IS NOT NULL),
  CONSTRAINT agents_time_limit_of_wrap_up CHECK (status = 'wrap_up' OR wrap_up_until IS NULL)
);
CREATE INDEX agents_of_node ON agents (node) WHERE status <> 'offline';
-- No call has two agents.
CREATE UNIQUE INDEX agents_on_call ON agents (tenant_id, current_call_id) WHERE current_call_id IS NOT NULL;
-- Rows change with every call.
ALTER TABLE agents SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
SELECT protect_tenant_rows('agents');

CREATE TABLE agent_status_log (
  tenant_id uuid NOT NULL,
  agent_id uuid NOT NULL,
  version bigint NOT NULL,
  status text NOT NULL,
  reason text,
  cause text NOT NULL CHECK (cause <> ''),
  call_id uuid,
  at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, agent_id, version),
  FOREIGN KEY (tenant_id, agent_id) REFERENCES agents (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX agent_status_log_by_time ON agent_status_log (tenant_id, agent_id, at);
SELECT protect_tenant_rows('agent_status_log');

-- +goose Down
DROP TABLE agent_status_log, agents;
