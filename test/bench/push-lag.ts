import { once } from 'node:events';
import { WebSocket } from 'ws';
import { API_KEY, until, type Service } from '../support/service.js';

const TALLY = `public record Tally(long Total);
public class TallyProjection : IProjection<Tally>
{
    public string? ResolveKey(Event e) => e.EventType == "Lagged" ? e.AggregateId : null;
    public Tally? Apply(Tally? s, Event e) => new((s?.Total ?? 0) + 1);
}`;
const WARM_UP = 100;

/** Milliseconds from the write of a request to the arrival of the push that it causes, one append at a time. */
export async function pushLag(service: Service, appends = 300): Promise<number[]> {
  const projection = await service.deploy('projections', { 'Tally.cs': TALLY });
  await until(async () => (await service.get(`/projections/${projection}/status`)).json<{ build?: unknown }>().build === undefined);
  const socket = new WebSocket(`${service.url.replace('http', 'ws')}/projections/${projection}/stream`, { headers: { 'x-api-key': API_KEY } });
  await once(socket, 'open');
  const lags: number[] = [];
  for (let i = -WARM_UP; i < appends; i++) {
    const pushed = once(socket, 'message');
    const from = performance.now();
    const answered = service.post('/events', { aggregateId: `lag-${Math.abs(i) % 10}`, eventType: 'Lagged', data: { amount: 1 } });
    await pushed;
    if (i >= 0) lags.push(performance.now() - from);
    await answered;
  }
  socket.terminate();
  // What is measured next has no projection to fold.
  await service.request('DELETE', `/projections/${projection}`);
  return lags;
}
