-- Controllers carry out each other's requests: where each is reached, by which certificate it is known, and who waits on which of them.
-- +goose Up

-- Where other controllers send what is for this one's calls; empty where they can't. The key is the SHA-256 of the certificate that the process
-- has, which is another one at each start.
ALTER TABLE nodes ADD COLUMN peer_addr text NOT NULL DEFAULT '', ADD COLUMN peer_key bytea;

-- Since when the call's caller has waited for an agent of the node's, and with which priority; NULL while it waits for none.
ALTER TABLE live_calls ADD COLUMN waits_since timestamptz, ADD COLUMN wait_priority int NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE live_calls DROP COLUMN waits_since, DROP COLUMN wait_priority;
ALTER TABLE nodes DROP COLUMN peer_addr, DROP COLUMN peer_key;
