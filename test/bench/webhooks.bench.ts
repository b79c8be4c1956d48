/**
 * Deliveries a second to one endpoint (a change signed, posted, its answer taken, attempt and checkpoint kept in the log) ÷ bare undici posts
 * of such bodies, with as many in flight, to the same receiver on a thread of its own. Side by side, alternating, in one run.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { Agent, request } from 'undici';
import { Sealer } from '../../src/catalog/sealing.js';
import { rotateSecrets } from '../../src/catalog/webhook-secrets.js';
import { systemClock } from '../../src/core/clock.js';
import { silentLogger } from '../../src/core/logger.js';
import { FeedHub } from '../../src/feed/hub.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { LogAttemptStore } from '../../src/webhooks/log-attempt-store.js';
import { LogCursorStore } from '../../src/webhooks/log-cursor-store.js';
import { WebhookDeliverer } from '../../src/webhooks/webhook-deliverer.js';
import { changeMessages } from '../../src/webhooks/webhook-message.js';
import { change, ListFeed, ListTenants, MapCatalog } from '../support/notifier-world.js';

const MESSAGES = 2_000;
const BLOCKS = 6;
const KEYS = 200;
/** Of an endpoint, as the service has it. */
const IN_FLIGHT = 8;

const receiver = new Worker(
  `const { createServer } = require('node:http');
  const { parentPort } = require('node:worker_threads');
  const server = createServer((request, response) => request.resume().on('end', () => response.end()));
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));`,
  { eval: true },
);
const [port] = (await once(receiver, 'message')) as [number];
const url = `http://127.0.0.1:${port}/hook`;

const folder = mkdtempSync(join(tmpdir(), 'statefold-bench-'));
const log = new LmdbLog({ path: join(folder, 'log') });
const store = await LogCursorStore.open(log, silentLogger);
const attempts = await LogAttemptStore.open(log, silentLogger, systemClock);
const sealer = new Sealer('a master key for this bench');
const feed = new ListFeed();
const tenants = new ListTenants();
tenants.activate('t1', feed);
const catalog = new MapCatalog();
catalog.addTenant('t1');
catalog.addProjection('t1', 'p1');
catalog.addEndpoint('t1', 'p1', { url, isolated: true, secrets: rotateSecrets(sealer, [], Date.now()).secrets });

let delivered = 0;
let block = (): void => undefined;
const deliverer = new WebhookDeliverer({
  hub: new FeedHub({ notified: tenants }),
  ...{ notified: tenants, catalog, store, attempts },
  endpoints: { disable: () => Promise.reject(new Error('the receiver takes all')) },
  audit: { begin: () => Promise.reject(new Error('the receiver takes all')) },
  unseal: (sealed) => sealer.unseal(sealed),
  logger: silentLogger,
  allowPrivate: true,
  timeoutMs: 15_000,
  observer: {
    attempted: ({ outcome }) => {
      if (outcome.kind !== 'delivered') throw new Error(`an attempt ended as ${outcome.kind}`);
      if (++delivered % MESSAGES === 0) block();
    },
  },
});
await deliverer.start();

let sequence = 0;
const changes = (): ReturnType<typeof change>[] =>
  Array.from({ length: MESSAGES }, () => change(++sequence, { key: `k${sequence % KEYS}` }));
const agent = new Agent({ connections: IN_FLIGHT, pipelining: 1 });

async function ours(): Promise<void> {
  const all = changes();
  const done = new Promise<void>((resolve) => (block = resolve));
  feed.accept(...all);
  await done;
}

async function bare(): Promise<void> {
  const messages = changeMessages('p1');
  const bodies = changes().map((one) => messages.messageOf(one).body());
  const next = bodies.values();
  const post = async (): Promise<void> => {
    for (const body of next) {
      const headers = { 'content-type': 'application/json' };
      const answer = await request(url, { method: 'POST', headers, body, dispatcher: agent });
      await answer.body.dump();
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, post));
}

const spent = { ours: 0, bare: 0 };
for (let i = -1; i < BLOCKS; i++)
  for (const [what, work] of [
    ['ours', ours],
    ['bare', bare],
  ] as const) {
    const begun = performance.now();
    await work();
    if (i >= 0) spent[what] += performance.now() - begun;
  }
const rate = (milliseconds: number): string =>
  Math.round((MESSAGES * BLOCKS * 1_000) / milliseconds).toLocaleString('en');
console.log(
  `webhooks a second to one endpoint: ${rate(spent.ours)} delivered, ${rate(spent.bare)} bare undici posts: ratio ${(spent.bare / spent.ours).toFixed(2)}`,
);
await deliverer.close();
await store.close();
await attempts.close();
await log.close();
await agent.close();
await receiver.terminate();
rmSync(folder, { recursive: true });
