// A page of a list is made part by part, each on a turn that is paid for, and costs what it shows.
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { test } from 'node:test';
import { OrderedMap } from '../../src/catalog/ordered-map.js';
import { LIST_BYTES } from '../../src/core/reads.js';
import type { Turns } from '../../src/core/turns.js';
import { answerList, type List } from '../../src/http/list-answer.js';
import { RequestMemory, UNBOUNDED_REQUESTS } from '../../src/http/request-memory.js';

interface Answer {
  readonly items: readonly { readonly value: number }[];
  readonly nextCursor?: string;
}

interface Named {
  readonly id: string;
  readonly value: number;
}

const COUNT = 10_000;
const map = new OrderedMap<Named>();
for (let i = 0; i < COUNT; i++) map.set({ id: `type-${String(i).padStart(5, '0')}`, value: i });

/** Asks for one page, and counts what it takes. `on`: called at each turn. */
async function ask(
  asked: { readonly limit: number; readonly cursor?: string | undefined },
  { recordOf = (value) => ({ value }), further }: Partial<List<number>> = {},
  on: (nth: number, response: { destroyed: boolean }, socket: { destroyed?: boolean }) => void = () => undefined,
) {
  const paid: number[] = [];
  const socket: { destroyed?: boolean } = {};
  const request = { headers: {}, socket } as unknown as IncomingMessage;
  const response = Object.assign(new EventEmitter(), { destroyed: false });
  const enter: Turns['enter'] = (_, cost) => {
    on(paid.push(cost), response, socket);
    return undefined;
  };
  RequestMemory.begin(request, 't', { ...UNBOUNDED_REQUESTS, turns: { enter } as Turns });
  let looked = 0;
  const past = function* (after: string): Generator<Named> {
    for (const one of map.past(after)) {
      looked++;
      yield one;
    }
  };
  let body: Buffer | undefined;
  const answer = (_: number, bytes: Buffer): void => void (body = bytes);
  const call = { request, response: response as unknown as ServerResponse, answer };
  await answerList(
    call,
    { cursor: undefined, ...asked },
    { name: 'items', past, recordOf, ...(further && { further }) },
  );
  return { page: JSON.parse(String(body)) as Answer, paid, looked };
}

test('pages of a list look at what they show and one more, and their cursors lead on', async () => {
  for (const limit of [100, 128, 129, 1000]) {
    const shown: number[] = [];
    let pages = 0;
    for (let cursor: string | undefined, isEnd = false; !isEnd; isEnd = cursor === undefined, pages++) {
      const { page, paid, looked } = await ask({ limit, cursor });
      assert.equal(paid.length, Math.ceil(page.items.length / 128));
      assert.ok(looked <= limit + paid.length, `${looked} entries were looked at`);
      shown.push(...page.items.map(({ value }) => value));
      cursor = page.nextCursor;
    }
    assert.equal(pages, Math.ceil(COUNT / limit));
    assert.deepEqual(
      shown,
      Array.from({ length: COUNT }, (_, i) => i),
    );
  }
});

test('what is passed over costs turns too, and is no part of a page', async () => {
  const { page, paid } = await ask({ limit: 5 }, { recordOf: (value) => (value < 1_000 ? undefined : { value }) });
  assert.deepEqual(
    page.items.map(({ value }) => value),
    [1000, 1001, 1002, 1003, 1004],
  );
  assert.equal(paid.length, 8);
});

test('a page behind which nothing is told is the last one', async () => {
  const { page } = await ask({ limit: 5 }, { recordOf: (value) => (value < 5 ? { value } : undefined) });
  assert.equal(page.items.length, 5);
  assert.equal(page.nextCursor, undefined);
});

test('records that are long end a part sooner, make its turn dearer, and end the page', async () => {
  const note = 'x'.repeat(20_000);
  const { page, paid } = await ask({ limit: 1_000 }, { recordOf: (value) => ({ value, note }) });
  assert.equal(page.items.length, Math.ceil(LIST_BYTES / (note.length + 22)));
  assert.ok(paid.length >= 13, `${paid.length} turns`);
  assert.ok(
    paid.slice(1).every((cost) => cost >= 16),
    String(paid),
  );
  assert.equal(
    page.nextCursor,
    Buffer.from(`type-${String(page.items.length - 1).padStart(5, '0')}`).toString('base64url'),
  );
});

test('an empty list, and members beside it', async () => {
  const none = { limit: 10, cursor: Buffer.from('zzz').toString('base64url') };
  assert.deepEqual((await ask(none)).page, { items: [] });
  assert.deepEqual((await ask(none, { further: { others: 3, absent: undefined } })).page, { items: [], others: 3 });
});

test('who has left gets nothing more read', async () => {
  let turns = 0;
  const leaving = ask({ limit: 1_000 }, {}, (nth, response) => {
    turns = nth;
    response.destroyed = nth === 2;
  });
  await assert.rejects(leaving, /closed the connection/);
  assert.equal(turns, 2);
});

test('nor does who has left as far as the socket knows, and not yet the response', async () => {
  let turns = 0;
  const leaving = ask({ limit: 1_000 }, {}, (nth, _, socket) => {
    turns = nth;
    socket.destroyed = nth === 2;
  });
  await assert.rejects(leaving, /closed the connection/);
  assert.equal(turns, 2);
});
