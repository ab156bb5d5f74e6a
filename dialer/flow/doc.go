// Package flow reads and runs flow graphs: what a call does after it was answered, node by node.
//
// [Parse] turns the stored nodes into a [Graph] and names the node and the field of every fault; [Graph.Run] walks it with the
// [Operations] that a call offers, within limits of steps and time. Read flow.go (graph and validation), fields.go (how a
// node's data is read), nodes_*.go (the kinds of nodes), variables.go (templates), run.go (the interpreter), web.go
// (http_request) and asks.go (which agents a flow may ask for). A kind of node that plays audio or reaches people also decides which
// do-not-call registry its campaigns are checked against: modes.go of package campaigns.
//
// A flow is a list of nodes. A node has an id, a type, its data, and in next the node that follows each outcome; an outcome
// that next does not name leads to "default", and a flow without a following node is over: what is left of the call is hung up.
//
//	[{"id": "s", "type": "start", "next": {"default": "hello"}}, …]
//
// The nodes, each with an example. Members that are not named here are ignored.
//
//	start               where it begins; there is one
//	  {"id": "s", "type": "start", "next": {"default": "hello"}}
//	play_audio          plays audio_url (http, https, or prompt:NAME of the operator's folder) to its end
//	  {"id": "hello", "type": "play_audio", "data": {"audio_url": "https://example.com/hello.mp3"},
//	   "next": {"default": "menu", "failed": "menu"}}
//	gather_dtmf         plays a prompt and puts what is pressed into a variable; a key cuts the prompt off, and keys that were
//	                    pressed before count. Up to max_digits, until the terminator, or until no key comes for timeout_s;
//	                    with none the prompt is played again, tries times in all, and then the outcome is timeout
//	  {"id": "menu", "type": "gather_dtmf", "data": {"audio_url": "https://example.com/menu.wav", "variable": "choice",
//	   "max_digits": 1, "timeout_s": 5, "terminator": "#", "tries": 2}, "next": {"default": "which", "timeout": "queue"}}
//	branch              goes on by the value of a variable
//	  {"id": "which", "type": "branch", "data": {"variable": "choice"}, "next": {"1": "ai", "2": "queue", "default": "menu"}}
//	business_hours      open or closed by the clock of a time zone. A window goes over midnight when to is before from (it
//	                    belongs to the day on which it begins); holidays are closed all day
//	  {"id": "hours", "type": "business_hours", "data": {"timezone": "Asia/Kolkata",
//	   "windows": [{"days": ["mon", "tue", "wed", "thu", "fri"], "from": "09:00", "to": "18:00"}], "holidays": ["2026-12-25"]},
//	   "next": {"open": "queue", "closed": "message"}}
//	connect_voice_agent hands the caller to a voice agent; busy is an agent without a free slot, failed one that is not there or
//	                    can't be reached
//	  {"id": "ai", "type": "connect_voice_agent", "data": {"voice_agent_id": "01970000-0000-7000-8000-00000000000a"},
//	   "next": {"busy": "queue", "failed": "queue"}}
//	connect_agent       has the caller wait for a person with all of the tags; higher priority goes first
//	  {"id": "queue", "type": "connect_agent", "data": {"tags": ["hindi"], "priority": 5, "max_wait_s": 120,
//	   "music_url": "https://example.com/music.mp3", "announce_position": true},
//	   "next": {"timeout": "message", "unavailable": "message"}}
//	transfer            leads the caller to e164, sip_uri, agent_queue or agent, and goes on when the conversation is over
//	  {"id": "boss", "type": "transfer", "data": {"destination_type": "e164", "destination": "+919812345678"},
//	   "next": {"ended": "bye", "failed": "message"}}
//	voicemail           plays greeting and beep, and records until #, max_s or the hang-up; it is in the call's recording
//	  {"id": "message", "type": "voicemail", "data": {"greeting_url": "https://example.com/leave.wav", "max_s": 120},
//	   "next": {"default": "bye"}}
//	set_disposition     sets the call's disposition
//	  {"id": "tag", "type": "set_disposition", "data": {"disposition": "support"}, "next": {"default": "queue"}}
//	http_request        asks a server; a 2xx answer is kept in the variable save_as, the members of a JSON object beside it as
//	                    save_as.member. What a flow saves has 256 KiB in all: an answer that doesn't fit is failed. Each request has an
//	                    Idempotency-Key, the same when a restart repeats it; a redirect to another host gets no header but
//	                    Accept and Content-Type
//	  {"id": "crm", "type": "http_request", "data": {"method": "POST", "url": "https://example.com/who?from={{from}}",
//	   "headers": {"Authorization": "Bearer …"}, "body": {"digits": "{{choice}}"}, "timeout_s": 3, "save_as": "customer"},
//	   "next": {"default": "vip", "failed": "queue"}}
//	hangup              ends the call with a cause of the switch, NORMAL_CLEARING by default
//	  {"id": "bye", "type": "hangup", "data": {"cause": "NORMAL_CLEARING"}}
//
// {{name}} in audio_url, greeting_url, music_url, url, headers, body and destination stands for a variable: call_id, direction,
// from, to, campaign_id, lead_id, lead_name, crm_lead_id, the lead's own members as lead.NAME, a single call's metadata as call.NAME,
// what gather_dtmf and http_request have saved; an unknown one is empty. In a URL the value is escaped.
package flow
