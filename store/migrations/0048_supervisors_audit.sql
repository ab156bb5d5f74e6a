-- The list of what supervisors did is read without the rest of the audit.
-- +goose Up

-- The actions are those that the list shows.
CREATE INDEX audit_of_supervisors ON audit (tenant_id, id)
  WHERE action IN ('supervision.started', 'supervision.mode_changed', 'supervision.call_changed', 'supervision.ended', 'call.force_transferred',
    'escalation.claimed', 'monitor.started', 'monitor.stopped', 'monitor.whispered', 'monitor.barged');

-- +goose Down
DROP INDEX audit_of_supervisors;
