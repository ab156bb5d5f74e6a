-- Who answered a call, and how it sounded.
-- +goose Up

-- amd is written at admission: the campaign's setting as it was then. answered_by_amd is what call.answered says, null until
-- that event is committed; the verdict itself may differ from it, when it came later than the event could wait.
-- quality holds one object per direction, weighted by its packets when the call had several sessions.
ALTER TABLE calls
  ADD COLUMN amd boolean NOT NULL DEFAULT false,
  ADD COLUMN answered_by_amd text CHECK (answered_by_amd IN ('human', 'machine')),
  ADD COLUMN amd_class text CHECK (amd_class IN ('human', 'machine', 'unknown')),
  ADD COLUMN amd_confidence double precision CHECK (amd_confidence BETWEEN 0 AND 1),
  ADD COLUMN amd_after_ms int CHECK (amd_after_ms >= 0),
  ADD COLUMN quality jsonb CHECK (jsonb_typeof(quality) = 'object'),
  ADD CONSTRAINT calls_answered_by_somebody CHECK (answered_by_amd IS NULL OR answer_time IS NOT NULL),
  ADD CONSTRAINT calls_verdict_is_whole CHECK ((amd_class IS NULL) = (amd_confidence IS NULL));

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

-- +goose Down
DROP TABLE held_events;
ALTER TABLE calls
  DROP CONSTRAINT calls_answered_by_somebody, DROP CONSTRAINT calls_verdict_is_whole,
  DROP COLUMN amd, DROP COLUMN answered_by_amd, DROP COLUMN amd_class, DROP COLUMN amd_confidence, DROP COLUMN amd_after_ms,
  DROP COLUMN quality;
