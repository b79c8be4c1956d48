// Invariants 2, 5, 7 and 9: the service dies in the middle of erasures, over and over. Whose erasure was answered is gone and stays so;
// whose was not is gone or whole; what others have is whole; and in the end all that was begun is finished, without being asked again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Api } from '../support/api.js';
import { freshPrefix, kafkaForTests, needsKafka } from '../support/kafka.js';
import { startService, temporaryDirectory, until } from '../support/service.js';

const ROUNDS = 4;
/** Of each round, and with each a neighbour that shares a transaction with it. */
const ERASED = 6;
const EVENTS = 30;

interface Listed {
  readonly events: readonly { readonly version: number; readonly data: { readonly mark: string } }[];
}

const LOGS = [
  { name: 'the embedded log', skip: false, env: () => Promise.resolve({}) },
  {
    name: 'Kafka',
    skip: needsKafka,
    env: async () => ({
      KAFKA_BROKERS: (await kafkaForTests()).brokers.join(','),
      KAFKA_TOPIC_PREFIX: freshPrefix(),
    }),
  },
] as const;

for (const { name, skip, env: envOf } of LOGS)
  test(`kill -9 in an erasure, on ${name}`, { skip, timeout: 300_000 }, async (t) => {
    const env = await envOf();
    const dataDirectory = temporaryDirectory(t);
    const start = (): ReturnType<typeof startService> => startService(t, { dataDirectory, env });
    let service = await start();
    let api = new Api(service);
    const answered = new Set<string>();
    const asked = new Set<string>();
    const marks = new Map<string, string[]>();
    const add = (id: string, mark: string): string => (marks.set(id, [...(marks.get(id) ?? []), mark]), mark);

    const eventsOf = async (id: string): Promise<Listed['events'] | undefined> => {
      let answer = await service.get(`/events/${id}?limit=1000`);
      await until(async () => (answer = await service.get(`/events/${id}?limit=1000`)).status !== 503, 60_000);
      if (answer.status === 410) return undefined;
      assert.equal(answer.status, 200, answer.text);
      return answer.json<Listed>().events;
    };

    for (let round = 0; round < ROUNDS; round++) {
      const ids = Array.from({ length: ERASED }, (_, i) => `gone-${round}-${i}`);
      for (const id of ids) {
        const events = Array.from({ length: EVENTS }, (_, i) => ({
          eventType: 'Added',
          data: { mark: add(id, `${id}.${i}`) },
        }));
        assert.equal((await service.post('/events/batch', { aggregateId: id, events })).status, 201);
        const neighbour = `left-${id}`;
        const appends = [neighbour, id].map((aggregateId) => ({
          aggregateId,
          events: [{ eventType: 'Added', data: { mark: add(aggregateId, `${aggregateId}.t`) } }],
        }));
        assert.equal((await service.post('/events/transaction', { appends })).status, 201);
      }
      // It dies when so many are answered, while the rest is on its way, and what was answered is being taken out.
      let open = 1 + round;
      const requests = ids.map(async (id) => {
        asked.add(id);
        const answer = await service.request('DELETE', `/aggregates/${id}`).catch(() => undefined);
        if (answer?.status === 202) answered.add(id);
        if (answer !== undefined && --open === 0) await service.kill();
      });
      await Promise.all(requests);
      await service.kill();
      service = await start();
      api = new Api(service);

      for (const id of asked) {
        const events = await eventsOf(id);
        if (answered.has(id)) assert.equal(events, undefined, `${id} was answered as erased`);
        else if (events !== undefined)
          assert.deepEqual(
            events.map(({ data }) => data.mark),
            marks.get(id),
            `${id} is whole`,
          );
        else answered.add(id);
        assert.deepEqual(
          (await eventsOf(`left-${id}`))?.map(({ data }) => data.mark),
          marks.get(`left-${id}`),
          `the neighbour of ${id} is whole`,
        );
      }
    }
    assert.ok(answered.size >= ROUNDS, 'something was erased');
    // Whose is asked for again is answered how far it is: finished, by the process that found it begun.
    for (const id of answered)
      await until(
        async () => (await api.delete(`/aggregates/${id}`)).json<{ status: string }>().status === 'erased',
        60_000,
      );
    const { events } = await api.read<{
      events: readonly { readonly type?: string; readonly aggregateId: string; readonly data?: { mark: string } }[];
    }>('/feed?limit=1000');
    const told = events.filter(({ type }) => type === 'erased').map(({ aggregateId }) => aggregateId);
    assert.deepEqual([...told].sort(), [...answered].sort(), 'each was told once');
    for (const { data, aggregateId, type } of events)
      assert.ok(type === 'erased' || !answered.has(aggregateId), `${data?.mark} is told of ${aggregateId}`);
  });
