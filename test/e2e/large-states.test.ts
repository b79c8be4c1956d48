import assert from 'node:assert/strict';
import test from 'node:test';
import { Api } from '../support/api.js';
import { startService, until } from '../support/service.js';

const KEYS = 300;
const source = (revision: number): string => `
using Statefold;
namespace Large;
public sealed record Padded(int Revision, int Events, string Padding);
public sealed class Padding : IProjection<Padded>
{
    public string? ResolveKey(Event e) => e.AggregateId;
    public Padded? Apply(Padded? state, Event e) => new(${revision}, (state?.Events ?? 0) + 1, new string('x', 80 * 1024));
}`;

test('11, 12: changes that are more than the log takes at once are written, live and by a redeploy', async (t) => {
  const service = await startService(t);
  const api = new Api(service);
  const projectionId = await api.deployProjection({ 'Padding.cs': source(1) });
  const stateOf = async (key: number): Promise<{ revision: number; events: number } | undefined> => {
    const answer = await api.get(`/projections/${projectionId}/states/large-${key}`);
    return answer.json<{ states?: { state: { revision: number; events: number } }[] }>().states?.[0]?.state;
  };
  const all = async (revision: number, events: number): Promise<boolean> => {
    for (let key = 0; key < KEYS; key++) {
      const state = await stateOf(key);
      if (state?.revision !== revision || state.events !== events) return false;
    }
    return true;
  };
  // 24 MB of changes: at once, so that one batch has most of them.
  await Promise.all(Array.from({ length: KEYS }, (_, key) => api.append(`large-${key}`, 'Grew')));
  await until(() => all(1, 1));
  await api.upload('projections', { 'Padding.cs': source(2) }, { projectionId });
  await until(() => all(2, 1));
  // Whoever starts anew finds the same, and goes on.
  await api.append('large-0', 'Grew');
  await until(async () => (await stateOf(0))?.events === 2);
  assert.deepEqual(await stateOf(1), { revision: 2, events: 1, padding: 'x'.repeat(80 * 1024) });
});
