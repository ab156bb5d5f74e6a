-- Events that each call has are written without the names of their data's members, and without those that their rows tell: data is {"": [values]} then.
-- Controllers that read them so say it at each start: short_since is their started_at then, as with units_since (migration 0097). None is written so while
-- another one may read them.
-- +goose Up
ALTER TABLE nodes ADD COLUMN short_since timestamptz;

-- event_data gives an event's data, whichever way it is written. store/shortevents.go writes it, and has the same members in the same order; those that
-- are null or missing in the short form are what stands behind them here.
-- +goose StatementBegin
CREATE FUNCTION event_data(type text, call_id uuid, campaign_id uuid, created_at timestamptz, data jsonb) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN NOT data ? '' THEN data ELSE (
    SELECT CASE type
      WHEN 'call.started' THEN jsonb_build_object('to', v->0, 'from', v->1, 'direction', coalesce(nullif(v->2, 'null'), '"outbound"'),
        'voice_agent_id', v->3, 'lead_metadata', v->4, 'metadata', v->5, 'call_id', coalesce(nullif(v->6, 'null'), of_call),
        'campaign_id', coalesce(nullif(v->7, 'null'), of_campaign), 'started_at', coalesce(nullif(v->8, 'null'), of_time))
      WHEN 'call.answered' THEN jsonb_build_object('answered_by_amd', coalesce(nullif(v->0, 'null'), '"human"'), 'lead_metadata', v->1, 'metadata', v->2,
        'call_id', coalesce(nullif(v->3, 'null'), of_call), 'answer_time', coalesce(nullif(v->4, 'null'), of_time))
      WHEN 'call.ended' THEN jsonb_build_object('total_duration_s', v->0, 'hangup_cause', v->1, 'status', coalesce(nullif(v->2, 'null'), '"failed"'),
        'talk_duration_s', v->3, 'disposition', v->4, 'crm_lead_id', v->5, 'lead_metadata', v->6, 'metadata', v->7,
        'recording', coalesce(nullif(v->8, 'null'), '{"available": false}'), 'call_id', coalesce(nullif(v->9, 'null'), of_call),
        'end_time', coalesce(nullif(v->10, 'null'), of_time))
      WHEN 'lead.completed' THEN jsonb_build_object('lead_id', v->0, 'status', coalesce(nullif(v->1, 'null'), '"exhausted"'),
        'attempts', coalesce(nullif(v->2, 'null'), '1'), 'disposition', v->3, 'crm_lead_id', v->4, 'metadata', v->5,
        'campaign_id', coalesce(nullif(v->6, 'null'), of_campaign), 'last_call_id', coalesce(nullif(v->7, 'null'), of_call),
        'completed_at', coalesce(nullif(v->8, 'null'), of_time))
      WHEN 'call.recording_ready' THEN jsonb_build_object('signed_url', v->0, 'recording_url', v->1, 'duration_s', v->2,
        'stereo', coalesce(nullif(v->3, 'null'), 'false'), 'format', coalesce(nullif(v->4, 'null'), '"audio/wav"'),
        'recording', coalesce(nullif(v->5, 'null'), jsonb_build_object('available', true, 'url', v->1)), 'call_id', coalesce(nullif(v->6, 'null'), of_call))
      WHEN 'ai_session.started' THEN jsonb_build_object('voice_agent_id', v->0, 'ws_url', v->1, 'external_agent_id', v->2,
        'call_id', coalesce(nullif(v->3, 'null'), of_call), 'started_at', coalesce(nullif(v->4, 'null'), of_time))
      WHEN 'ai_session.ended' THEN jsonb_build_object('voice_agent_id', v->0, 'outcome', v->1,
        'metadata', coalesce(nullif(v->2, 'null'), '{"logs": [], "final": null}'), 'call_id', coalesce(nullif(v->3, 'null'), of_call),
        'ended_at', coalesce(nullif(v->4, 'null'), of_time))
      WHEN 'call.disposition_set' THEN jsonb_build_object('disposition', v->0, 'source', coalesce(nullif(v->1, 'null'), '"agent"'), 'notes', v->2,
        'call_id', coalesce(nullif(v->3, 'null'), of_call), 'set_at', coalesce(nullif(v->4, 'null'), of_time))
      ELSE data
    END
    FROM (SELECT data->'' AS v, to_jsonb(call_id) AS of_call, to_jsonb(campaign_id) AS of_campaign,
      to_jsonb(rtrim(rtrim(to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.') || 'Z') AS of_time) s
  ) END
$$;
-- +goose StatementEnd

-- +goose Down
SELECT set_config('app.system', 'on', true);
UPDATE events SET data = event_data(type, call_id, campaign_id, created_at, data) WHERE data ? '';
UPDATE held_events SET data = event_data(type, call_id, campaign_id, created_at, data) WHERE data ? '';
SELECT set_config('app.system', '', true);
DROP FUNCTION event_data(text, uuid, uuid, timestamptz, jsonb);
ALTER TABLE nodes DROP COLUMN short_since;
