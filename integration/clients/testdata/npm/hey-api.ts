// Places a call with the client of @hey-api/openapi-ts, waits until it is answered, and hangs up. Prints the call's id.
import { getCall, hangupCall, placeCall } from "./gen/hey/index.js";
import { client } from "./gen/hey/client.gen.js";

declare const process: { env: Record<string, string | undefined> };
const env = (name: string): string => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
};
client.setConfig({ baseUrl: env("BASE_URL"), auth: () => env("API_KEY") });

const placed = await placeCall({ body: { to: env("CALLEE"), voice_agent_id: env("VOICE_AGENT") } });
if (placed.error) throw new Error(placed.error.code);
const path = { call_id: placed.data.id };

let answered = false;
for (const end = Date.now() + 30_000; !answered && Date.now() < end; await new Promise((done) => setTimeout(done, 100))) {
  const seen = await getCall({ path });
  if (seen.error) throw new Error(seen.error.code);
  answered = seen.data.answer_time !== null;
}
if (!answered) throw new Error("nobody has answered");

const over = await hangupCall({ path });
if (over.error) throw new Error(over.error.code);
console.log(path.call_id);
