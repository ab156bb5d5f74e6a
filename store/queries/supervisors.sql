-- Supervisors: their sessions, and the calls that have asked for one.

-- EscalationInsert writes a voice agent's request for a supervisor, once.
-- name: EscalationInsert :one
INSERT INTO escalations (tenant_id, id, call_id, voice_agent_id, reason, urgency, escalated_at)
VALUES (@tenant_id, @id, @call_id, @voice_agent_id, @reason, @urgency, @escalated_at::timestamptz)
ON CONFLICT (tenant_id, id) DO NOTHING
RETURNING *;
