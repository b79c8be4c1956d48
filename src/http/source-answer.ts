import type { PackedSources } from '../code-host/packed-sources.js';
import { drained } from './answer.js';
import { memoryOf, turnsOf, type Answered } from './request-memory.js';

interface SourcesCall extends Answered {
  readonly requestId: string;
}

/** Of what is inflated and written so many bytes cost a unit of a turn. */
const UNIT_BYTES = 64 * 1024;

/**
 * Answers with `members` and `files`: sources as they are stored, which may be 20 MB of JSON. They are never there whole: what the client takes
 * is inflated, some on a paid turn. @throws StatefoldError RATE_LIMITED, UNAVAILABLE where there is no room for it
 */
export async function answerSources(
  { request, response, requestId }: SourcesCall,
  members: Readonly<Record<string, string | number>>,
  sources: Pick<PackedSources, 'jsonBytes' | 'chunks'>,
): Promise<void> {
  const turn = turnsOf({ request, response });
  const before = Buffer.from(`${JSON.stringify(members).slice(0, -1)},"files":`);
  const after = Buffer.from('}');
  const length = before.length + sources.jsonBytes + after.length;
  memoryOf(request)?.answer(response, length);
  response.writeHead(200, [
    ...['Content-Type', 'application/json; charset=utf-8'],
    ...['Content-Length', String(length)],
    ...['X-Request-Id', requestId],
  ]);
  if (request.method === 'HEAD') return void response.end();
  response.write(before);
  for await (const chunk of sources.chunks()) {
    await turn(chunk.length / UNIT_BYTES);
    if (!response.write(chunk)) await drained(response);
  }
  response.end(after);
}
