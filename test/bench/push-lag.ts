import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { WebSocket } from 'ws';
import { API_KEY, until, type Service } from '../support/service.js';

const TALLY = `public record Tally(long Total);
public class TallyProjection : IProjection<Tally>
{
    public string? ResolveKey(Event e) => e.EventType == "Lagged" ? e.AggregateId : null;
    public Tally? Apply(Tally? s, Event e) => new((s?.Total ?? 0) + 1);
}`;
/** Until the code of the service, the runner and the broker is compiled. */
const WARM_UP = 2000;

/** Of the service, from an append to the push of the change that it causes. */
export async function pushLag(service: Service, appends = 300): Promise<number[]> {
  const projection = await service.deploy('projections', { 'Tally.cs': TALLY });
  await until(
    async () =>
      (await service.get(`/projections/${projection}/status`)).json<{ build?: unknown }>().build === undefined,
  );
  const lags = await lag(Number(new URL(service.url).port), `/projections/${projection}/stream`, appends);
  // What is measured next has no projection to fold.
  await service.request('DELETE', `/projections/${projection}`);
  return lags;
}

/** Milliseconds from the write of a request to the arrival of its push, one at a time. Over a raw socket: a client of its own would be most of it. */
export async function lag(port: number, streamPath: string, appends = 300): Promise<number[]> {
  const stream = new WebSocket(`ws://127.0.0.1:${port}${streamPath}`, { headers: { 'x-api-key': API_KEY } });
  await once(stream, 'open');
  const requests = connect(port, '127.0.0.1').setNoDelay(true);
  await once(requests, 'connect');
  const lags: number[] = [];
  for (let i = -WARM_UP; i < appends; i++) {
    const request = appendRequest(`lag-${Math.abs(i) % 10}`);
    const pushed = once(stream, 'message');
    const answered = answer(requests);
    const from = performance.now();
    requests.write(request);
    await pushed;
    if (i >= 0) lags.push(performance.now() - from);
    await answered;
  }
  requests.destroy();
  stream.terminate();
  return lags;
}

function appendRequest(aggregateId: string): string {
  const body = `{"aggregateId":"${aggregateId}","eventType":"Lagged","data":{"amount":1}}`;
  return `POST /events HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${API_KEY}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

/** One request is under way at a time, and its answer comes in one piece. */
async function answer(requests: Socket): Promise<void> {
  const [chunk] = (await once(requests, 'data')) as [Buffer];
  const status = chunk.toString('latin1', 0, chunk.indexOf('\r\n'));
  if (!status.startsWith('HTTP/1.1 201')) throw new Error(`an append was answered with ${status}`);
}
