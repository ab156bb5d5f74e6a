-- Why a running campaign is not dialed.
-- +goose Up

-- The campaign's member that names audio which can't be fetched and without which its callees may not be called; null for none.
ALTER TABLE campaign_paces ADD COLUMN waits_for text CHECK (waits_for IN ('announcement_url', 'voicemail_message_url'));

-- +goose Down
ALTER TABLE campaign_paces DROP COLUMN waits_for;
