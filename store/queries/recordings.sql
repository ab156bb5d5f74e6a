-- Recordings: from the first file on the switch's disk to the object that is kept.

-- BeginRecording is repeated by a controller that takes a call over after a crash: the first row stands.
-- name: BeginRecording :exec
INSERT INTO recordings (tenant_id, id, call_id, status, local_path, stereo, parts)
VALUES (@tenant_id, @id, @call_id, 'recording', @local_path::text, @stereo,
        jsonb_build_array(jsonb_build_object('path', @local_path::text, 'offset_ms', @offset_ms::bigint, 'added_at', now())))
ON CONFLICT (tenant_id, call_id) DO NOTHING;

-- ContinueRecording begins a recording, or appends a file, once, to one that goes on.
-- name: ContinueRecording :exec
INSERT INTO recordings (tenant_id, id, call_id, status, local_path, stereo, parts)
VALUES (@tenant_id, @id, @call_id, 'recording', @local_path::text, @stereo,
        jsonb_build_array(jsonb_build_object('path', @local_path::text, 'offset_ms', @offset_ms::bigint, 'added_at', now())))
ON CONFLICT (tenant_id, call_id) DO UPDATE SET parts = recordings.parts || jsonb_build_array(
  jsonb_build_object('path', @local_path::text, 'offset_ms', @offset_ms::bigint, 'added_at', now()))
WHERE recordings.status = 'recording' AND NOT recordings.parts @> jsonb_build_array(jsonb_build_object('path', @local_path::text));

-- AddRecordingPart appends a file, once.
-- name: AddRecordingPart :execrows
UPDATE recordings
SET parts = CASE WHEN parts @> jsonb_build_array(jsonb_build_object('path', @path::text))
                 THEN parts
                 ELSE parts || jsonb_build_array(
                   jsonb_build_object('path', @path::text, 'offset_ms', @offset_ms::bigint, 'added_at', now())) END
WHERE tenant_id = @tenant_id AND call_id = @call_id AND status = 'recording';

-- MoveRecordingPart says anew where a file begins.
-- name: MoveRecordingPart :exec
UPDATE recordings
SET parts = (SELECT jsonb_agg(CASE WHEN e.part->>'path' = @path::text THEN e.part || jsonb_build_object('offset_ms', @offset_ms::bigint)
                              ELSE e.part END ORDER BY e.n)
             FROM jsonb_array_elements(parts) WITH ORDINALITY AS e(part, n))
WHERE tenant_id = @tenant_id AND call_id = @call_id AND status = 'recording'
  AND parts @> jsonb_build_array(jsonb_build_object('path', @path::text));

-- FinishRecording changes a row only once, so that a call which is closed twice gets one job.
-- name: FinishRecording :execrows
UPDATE recordings SET status = 'processing'
WHERE tenant_id = @tenant_id AND call_id = @call_id AND status = 'recording';

-- RecordingDue has a finished recording processed by the controller of its node, which it is told of after the commit. It gives the row's place.
-- name: RecordingDue :one
INSERT INTO recordings_due (tenant_id, call_id, node) VALUES (@tenant_id, @call_id, @node) RETURNING ctid::text AS place;

-- RecordingDone tells that one is processed, or is to be by a job; of those whom the same one was given, to the first alone.
-- name: RecordingDone :execrows
DELETE FROM recordings_due WHERE tenant_id = @tenant_id AND call_id = @call_id;

-- RecordingDoneAt is RecordingDone for one whose row stands at its place still: no other row is read, of which there may be many while an old snapshot
-- is open, or behind a host that is gone.
-- name: RecordingDoneAt :execrows
DELETE FROM recordings_due WHERE ctid = CAST(@place::text AS tid) AND tenant_id = @tenant_id AND call_id = @call_id;

-- RecordingsDue lists what a node has yet to process, and needs the system's scope.
-- name: RecordingsDue :many
SELECT tenant_id, call_id, ctid::text AS place FROM recordings_due WHERE node = @node LIMIT @batch;

-- name: GetRecordingOfCall :one
SELECT sqlc.embed(r), c.campaign_id, c.answer_time, c.end_time
FROM recordings r LEFT JOIN calls c ON c.tenant_id = @tenant_id AND c.id = @call_id /* month of c.id */
WHERE r.tenant_id = @tenant_id AND r.call_id = @call_id;

-- A row that failed becomes ready when somebody runs its job again. Of one file local_path is all that is left to know: it is cleared away next, and what
-- is written in between and after would be the whole of its description again.
-- name: MarkRecordingReady :execrows
UPDATE recordings
SET status = 'ready', storage_key = @storage_key::text, bytes = @bytes::bigint, duration_ms = @duration_ms::bigint,
    stereo = @stereo, sha256 = @sha256::text, ready_at = @ready_at::timestamptz, error = NULL,
    parts = CASE WHEN jsonb_array_length(parts) = 1 AND parts->0->>'path' = local_path THEN '[]' ELSE parts END
WHERE tenant_id = @tenant_id AND call_id = @call_id AND status IN ('processing', 'failed');

-- name: MarkRecordingFailed :execrows
UPDATE recordings SET status = 'failed', error = @error::text
WHERE tenant_id = @tenant_id AND call_id = @call_id AND status = 'processing';

-- DropRecording makes a call one that was never recorded.
-- name: DropRecording :exec
DELETE FROM recordings WHERE tenant_id = @tenant_id AND call_id = @call_id AND status IN ('processing', 'failed');

-- name: ForgetRecordingFiles :exec
UPDATE recordings SET local_path = NULL, parts = '[]'
WHERE tenant_id = @tenant_id AND call_id = @call_id AND status = 'ready';

-- RecordingTenants lists the tenants whose recordings are deleted, and after how many days.
-- name: RecordingTenants :many
SELECT id, recording_retention_days::int AS days FROM tenants WHERE recording_retention_days IS NOT NULL ORDER BY id;

-- RecordingsPast lists a batch of a tenant's recordings that were ready before a moment, after one of them. Those whose files are still
-- to be cleared away are not among them.
-- name: RecordingsPast :many
SELECT id, call_id, storage_key::text AS storage_key FROM recordings
WHERE tenant_id = @tenant_id AND id > @after AND status = 'ready' AND ready_at < @ready_before::timestamptz AND storage_key IS NOT NULL
  AND local_path IS NULL
ORDER BY id LIMIT @batch::int;

-- name: DeleteRecording :exec
DELETE FROM recordings WHERE tenant_id = @tenant_id AND id = @id AND status = 'ready';

-- CallsWithoutRecording gives those of some calls that have ended and have no recording: it needs the system's scope. Whose calls they are
-- isn't known, so each tenant is looked at; NOT EXISTS would be a join with all recordings.
-- name: CallsWithoutRecording :many
SELECT c.tenant_id, c.id, c.answer_time FROM unnest(@ids::uuid[]) AS i(id) CROSS JOIN tenants t
CROSS JOIN LATERAL (
  SELECT k.tenant_id, k.id, k.answer_time FROM calls k
  WHERE k.tenant_id = t.id AND k.id = i.id AND k.end_time IS NOT NULL LIMIT 1
) c
WHERE (SELECT r.id FROM recordings r WHERE r.tenant_id = c.tenant_id AND r.call_id = c.id) IS NULL;
