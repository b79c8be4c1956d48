import { answerStream } from './answer-stream.js';
import { isErasure, type LiveOptions, type Told } from './live.js';

const NDJSON = 'application/x-ndjson';

/** Items as lines of JSON; with `mustEnd` one that breaks off throws. */
export async function* linesLive<T extends object>({
  transport,
  path,
  signal,
  mustEnd = false,
}: Omit<LiveOptions<T>, 'followed'> & { readonly mustEnd?: boolean }): AsyncGenerator<Told<T>, void, undefined> {
  for await (const line of answerStream({ transport, path, accept: NDJSON, separator: '\n', signal, mustEnd })) {
    const told = transport.parse(line) as { readonly type?: string; readonly position?: number } | undefined;
    if (told === undefined) continue;
    // What isn't an event has a type.
    if (told.type === undefined || isErasure(told)) yield told as Told<T>;
    else if (told.position !== undefined) yield told.position;
  }
}
