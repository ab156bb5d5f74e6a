// A voice agent that is OpenAI's library for Twilio Media Streams, as its documentation has it: whatever Twilio sends goes through
// TwilioRealtimeTransportLayer to the Realtime API at REALTIME_URL, and back. Prints the port that it serves, then what the library complains of.
import { createServer } from 'node:http';
import { WebSocketServer } from 'ws';
import { RealtimeAgent, RealtimeSession } from '@openai/agents/realtime';
import { TwilioRealtimeTransportLayer } from '@openai/agents-extensions';

const server = createServer();
const sockets = new WebSocketServer({ server, path: '/media' });
sockets.on('connection', async (twilioWebSocket) => {
  const transport = new TwilioRealtimeTransportLayer({ twilioWebSocket });
  const session = new RealtimeSession(new RealtimeAgent({ name: 'tone', instructions: 'You are a tone.' }), {
    transport,
    model: 'gpt-realtime',
    config: { audio: { output: { voice: 'verse' } } },
  });
  session.on('error', (event) => console.error('error', JSON.stringify(event)));
  try {
    await session.connect({ apiKey: 'sk-1', url: process.env.REALTIME_URL });
  } catch (error) {
    console.error('error', error);
  }
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit(0)).resume();
