import type { StatefoldClient } from '@statefold/client';
import reducer from '../../samples/bank/AccountReducer.cs?raw';
import events from '../../samples/bank/Events.cs?raw';
import projection from '../../samples/bank/Transfers.cs?raw';

const WAIT_SECONDS = 30;

function form(sources: Readonly<Record<string, string>>): FormData {
  const body = new FormData();
  for (const [name, text] of Object.entries(sources)) body.append('file', new Blob([text]), name);
  return body;
}

/** Has an upload compiled. @throws Error with the compiler's words */
function compiled(answer: { readonly status: string; readonly compilationError?: string }): void {
  if (answer.status === 'failed') throw new Error(`The sample did not compile: ${answer.compilationError ?? ''}`);
}

/**
 * The bank of `samples/bank`: its reducer, its projection, and accounts with transfers between them. Sent a second time its events are
 * stored once. `tell` gets a line a step. @throws ClientError
 */
export async function loadBank(client: StatefoldClient, tell: (step: string) => void): Promise<void> {
  tell('Compiling the reducer of accounts');
  const query = { waitSeconds: WAIT_SECONDS };
  const timeoutMs = 2 * WAIT_SECONDS * 1000;
  const accounts = { 'AccountReducer.cs': reducer, 'Events.cs': events };
  const known = await client.request('checkReducer', { body: form(accounts), timeoutMs });
  if (known.status === 'failed' || known.sameAs === undefined)
    compiled(await client.request('uploadReducer', { query, body: form(accounts), timeoutMs }));
  tell('Building the projection of transfers');
  const transfers = { 'Transfers.cs': projection, 'Events.cs': events };
  const found = await client.request('checkProjection', { body: form(transfers), timeoutMs });
  // A second time it is there already.
  if (found.status === 'failed' || found.sameAs === undefined)
    compiled(await client.request('uploadProjection', { query, body: form(transfers), timeoutMs }));
  tell('Appending events');
  const people = ['Ann', 'Bob', 'Cleo'];
  const idOf = (name: string): string => `account-${name.toLowerCase()}`;
  for (const owner of people)
    await client.appendBatch(
      {
        aggregateId: idOf(owner),
        events: [
          { eventType: 'Opened', data: { owner } },
          { eventType: 'Deposited', data: { cents: 5_000 } },
        ],
      },
      { idempotencyKey: `bank-sample-${owner}` },
    );
  for (let n = 1; n <= 6; n++) {
    const [from, to] = [people[n % 3], people[(n + 1) % 3]].map((name) => idOf(name ?? ''));
    if (from === undefined || to === undefined) continue;
    const data = { transferId: `t-${n}`, from, to, cents: 100 * n };
    await client.appendTransaction(
      {
        appends: [
          { aggregateId: from, events: [{ eventType: 'TransferSent', data }] },
          { aggregateId: to, events: [{ eventType: 'TransferReceived', data }] },
        ],
      },
      { idempotencyKey: `bank-sample-t-${n}` },
    );
  }
}
