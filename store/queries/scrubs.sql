-- Scrubs of campaigns that are not done.

-- ScrubOpen begins a scrub, or leaves the open one as it is; with another registry than that had, it begins at the first lead again.
-- name: ScrubOpen :exec
INSERT INTO scrubs AS s (tenant_id, campaign_id, began_at, registry, after)
VALUES (@tenant_id, @campaign_id, @began_at, @registry, @first)
ON CONFLICT (tenant_id, campaign_id) DO UPDATE SET began_at = excluded.began_at, registry = excluded.registry, after = excluded.after
WHERE s.registry <> excluded.registry;

-- ScrubIsOpen tells whether a campaign's scrub is still to be done, by whomever.
-- name: ScrubIsOpen :one
SELECT EXISTS (SELECT FROM scrubs WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id);

-- ScrubHold takes a campaign's scrub that nobody works on.
-- name: ScrubHold :one
UPDATE scrubs SET held_by = @worker::uuid, held_until = now() + make_interval(secs => @lease_s)
WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id AND held_until <= now()
RETURNING *;

-- ScrubHoldNext takes that scrub, of all tenants, which has waited for the longest time.
-- name: ScrubHoldNext :one
WITH next AS MATERIALIZED (
  SELECT n.tenant_id, n.campaign_id FROM scrubs n WHERE n.held_until <= now() AND n.due_at <= now()
  ORDER BY n.due_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE scrubs s SET held_by = @worker::uuid, held_until = now() + make_interval(secs => @lease_s)
FROM next
WHERE s.tenant_id = next.tenant_id AND s.campaign_id = next.campaign_id
RETURNING s.*;

-- ScrubAdvance keeps how far a scrub has come, and goes on holding it. It finds none when the scrub began anew or is another's.
-- name: ScrubAdvance :execrows
UPDATE scrubs SET after = @after, held_until = now() + make_interval(secs => @lease_s)
WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id AND held_by = @worker::uuid AND began_at = @began_at;

-- ScrubLeave lets a scrub go, to be gone on with after a while.
-- name: ScrubLeave :exec
UPDATE scrubs SET held_by = NULL, held_until = '-infinity', due_at = now() + make_interval(secs => @wait_s)
WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id AND held_by = @worker::uuid;

-- name: ScrubDone :exec
DELETE FROM scrubs
WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id AND held_by = @worker::uuid AND began_at = @began_at;

-- ScrubDrop ends a scrub, whoever works on it.
-- name: ScrubDrop :exec
DELETE FROM scrubs WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id;
