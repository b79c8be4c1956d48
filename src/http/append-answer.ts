import type { ServerResponse } from 'node:http';
import { hasCode } from '../core/errors.js';
import { isoTimestamp, type AppendResult, type TransactedAppend, type TransactionResult } from '../core/event.js';
import type { AggregateHome } from '../aggregates/aggregates.js';
import { answerJson } from './answer.js';
import type { AppendBody } from './append-body.js';
import { eventJson } from './event-json.js';
import { JsonWriter } from './json-writer.js';
import { COUNTED_BYTES, type RequestMemory } from './request-memory.js';

// What a 201 of an append says, written in one piece: the hot route makes no object of it.

/** Most events that a conflict lists. */
const MAX_CONFLICTS = 1_000;

/** What is to be held of the tenant's memory while a long answer is sent; asked for only where one is. */
export type HoldsAnswers = () => Pick<RequestMemory, 'takes'>;

export function answerTransaction(
  response: ServerResponse,
  requestId: string,
  result: TransactionResult,
  holds: HoldsAnswers,
): void {
  // As of a single state: the transaction is stored, and must be answered so.
  const states = result.appends.reduce((sum, { state }) => sum + (state?.length ?? 0), 0);
  const isShort = states > COUNTED_BYTES && !holds().takes(states);
  const appends = isShort ? result.appends.map(withoutState) : result.appends;
  answerJson(response, 201, requestId, transactionJson({ ...result, appends }), positionHeader(result));
}

/** @param many of a batch; else of a single event */
export function answerAppend(
  response: ServerResponse,
  requestId: string,
  result: AppendResult,
  many: boolean,
  holds: HoldsAnswers,
): void {
  const head = many ? batchHead(result) : singleHead(result);
  const { state } = result;
  const length = head.length + (state?.length ?? 0);
  // A state for which there is no room now is left out: the append is stored, and must be answered so.
  const short = length > COUNTED_BYTES && !holds().takes(length) && state !== undefined;
  const answer = short ? `${head},"stateStatus":"unavailable"}` : withState(head, result);
  answerJson(response, 201, requestId, answer, positionHeader(result));
}

/** The header of a 201 that tells where in the feed its last event is. */
const POSITION = 'Statefold-Position';
const positionHeader = ({ position }: Pick<AppendResult, 'position'>): readonly string[] | undefined =>
  position === undefined ? undefined : [POSITION, String(position)];

const singleHead = (result: AppendResult): string =>
  `{"eventId":"${result.eventIds[0] ?? ''}","aggregateId":${JSON.stringify(result.aggregateId)},"aggregateType":"${result.aggregateType}",` +
  `"version":${result.endVersion},"timestamp":"${isoTimestamp(result.timestamp)}"`;

const batchHead = (result: AppendResult): string =>
  `{"aggregateId":${JSON.stringify(result.aggregateId)},"aggregateType":"${result.aggregateType}","startVersion":${result.startVersion},` +
  `"endVersion":${result.endVersion},"eventIds":["${result.eventIds.join('","')}"],"timestamp":"${isoTimestamp(result.timestamp)}"`;

/** The answer in one piece: the state's bytes go in as they are. */
function withState(head: string, { state, stateStatus }: AppendResult): Buffer | string {
  if (stateStatus !== undefined) return `${head},"stateStatus":"${stateStatus}"}`;
  if (state === undefined) return `${head}}`;
  const start = `${head},"state":`;
  const length = Buffer.byteLength(start);
  const answer = Buffer.allocUnsafe(length + state.length + 1);
  answer.write(start);
  state.copy(answer, length);
  answer[length + state.length] = 0x7d;
  return answer;
}

const withoutState = ({ state, ...stored }: TransactedAppend): TransactedAppend =>
  state === undefined ? stored : { ...stored, stateStatus: 'unavailable' };

function transactionJson({ position, timestamp, appends }: TransactionResult): Buffer {
  const writer = new JsonWriter()
    .text('{')
    .text(position === undefined ? '' : `"position":${position},`)
    .text(`"timestamp":"${isoTimestamp(timestamp)}","appends":[`);
  writer.list(appends, ({ aggregateId, aggregateType, startVersion, endVersion, eventIds, state, stateStatus }) => {
    writer.text(
      `{"aggregateId":${JSON.stringify(aggregateId)},"aggregateType":"${aggregateType}","startVersion":${startVersion},` +
        `"endVersion":${endVersion},"eventIds":["${eventIds.join('","')}"]`,
    );
    if (stateStatus !== undefined) writer.member('stateStatus', stateStatus);
    else if (state !== undefined) writer.raw('state', state);
    writer.text('}');
  });
  return writer.text(']}').end();
}

/** What was appended since the version that the client expected: the first of it where it is much. */
export async function eventsSince(
  tenant: Pick<AggregateHome, 'events'>,
  { aggregateId, expectedVersion }: AppendBody,
): Promise<Buffer> {
  if (expectedVersion === 'exists' || expectedVersion === 'any') return Buffer.from('[]');
  const after = expectedVersion === 'none' ? 0 : expectedVersion;
  const writer = new JsonWriter().text('[');
  try {
    const page = await tenant.events({
      aggregateId,
      fromVersion: after + 1,
      toVersion: undefined,
      limit: MAX_CONFLICTS,
      direction: 'forward',
    });
    writer.list(page.events, (event) => eventJson(writer, event));
  } catch (error) {
    // The client expected a version of an aggregate that isn't there.
    if (!hasCode(error, 'NOT_FOUND')) throw error;
  }
  return writer.text(']').end();
}
