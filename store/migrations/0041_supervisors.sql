-- Supervisors: who listens to which call, and which calls have asked for one.
-- +goose Up

-- A session is a supervisor's phone at a call, or at an agent's calls one after the other. Its row is written before the phone rings, so that a
-- supervisor has one session whichever controllers are asked; begun_at is when the phone was at the call, or waited for the first one. What
-- happened in it is in the audit.
CREATE TABLE supervisor_sessions (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL,
  supervisor_id uuid NOT NULL,
  -- The call that is listened to: the last one, for a session that follows an agent and waits for the next.
  call_id uuid,
  -- The agent who is followed from call to call.
  agent_id uuid,
  mode text NOT NULL CHECK (mode IN ('listen', 'whisper', 'barge')),
  -- The controller that has the phone.
  node text NOT NULL,
  started_at timestamptz NOT NULL,
  begun_at timestamptz,
  ended_at timestamptz,
  end_reason text CHECK (end_reason <> ''),
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT supervisor_sessions_have_a_call_or_an_agent CHECK (call_id IS NOT NULL OR agent_id IS NOT NULL),
  CONSTRAINT supervisor_sessions_ended_has_reason CHECK ((ended_at IS NULL) = (end_reason IS NULL))
);
CREATE UNIQUE INDEX supervisor_sessions_one_each ON supervisor_sessions (tenant_id, supervisor_id) WHERE ended_at IS NULL;
CREATE INDEX supervisor_sessions_of_node ON supervisor_sessions (node) WHERE ended_at IS NULL;
SELECT protect_tenant_rows('supervisor_sessions');

-- A voice agent's request for a supervisor. claim_id is the session that takes it: it keeps others from claiming it while the supervisor's
-- phone rings, and is taken back when the phone doesn't answer. No foreign keys: sessions are forgotten by themselves.
CREATE TABLE escalations (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  -- A UUIDv7, so that escalations lie in order.
  id uuid NOT NULL,
  call_id uuid NOT NULL,
  voice_agent_id uuid NOT NULL,
  reason text NOT NULL,
  urgency text NOT NULL CHECK (urgency <> ''),
  escalated_at timestamptz NOT NULL,
  claim_id uuid,
  claimed_by uuid,
  claimed_at timestamptz,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT escalations_claimed_by_somebody CHECK ((claimed_by IS NULL) = (claimed_at IS NULL)),
  CONSTRAINT escalations_claimed_by_a_session CHECK (claimed_by IS NULL OR claim_id IS NOT NULL)
);
CREATE INDEX escalations_by_call ON escalations (tenant_id, call_id);
SELECT protect_tenant_rows('escalations');

-- +goose Down
DROP TABLE escalations, supervisor_sessions;
