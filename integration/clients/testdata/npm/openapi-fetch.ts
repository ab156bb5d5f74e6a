// Places a call with the types of openapi-typescript, waits until it is answered, and hangs up. Prints the call's id.
import createClient from "openapi-fetch";
import type { components, paths } from "./gen/schema.js";

declare const process: { env: Record<string, string | undefined> };
const env = (name: string): string => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
};
const client = createClient<paths>({ baseUrl: env("BASE_URL"), headers: { Authorization: `Bearer ${env("API_KEY")}` } });

const body: components["schemas"]["PlaceCall"] = {
  to: env("CALLEE"),
  voice_agent_id: env("VOICE_AGENT"),
  metadata: { variables: { order: "A7" } },
};
const placed = await client.POST("/api/v1/calls", { body, params: { header: { "Idempotency-Key": crypto.randomUUID() } } });
if (placed.error) throw new Error(placed.error.code);
const call_id = placed.data.id;

let answered = false;
for (const end = Date.now() + 30_000; !answered && Date.now() < end; await new Promise((done) => setTimeout(done, 100))) {
  const seen = await client.GET("/api/v1/calls/{call_id}", { params: { path: { call_id } } });
  if (seen.error) throw new Error(seen.error.code);
  answered = seen.data.answer_time !== null;
}
if (!answered) throw new Error("nobody has answered");

const state: components["schemas"]["ControlRequest"] = { event: "get_call_state" };
const told = await client.POST("/api/v1/ai-sessions/{call_id}/control", { params: { path: { call_id } }, body: state });
if (told.error) throw new Error(told.error.code);
if (!told.data.ok) throw new Error("the verb was not dispatched");

const over = await client.POST("/api/v1/calls/{call_id}/hangup", { params: { path: { call_id } } });
if (over.error) throw new Error(over.error.code);
console.log(call_id);
