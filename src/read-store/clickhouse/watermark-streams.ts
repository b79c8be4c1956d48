import type { SinkStream } from '../read-store.js';

const STREAM = /^(events|states|changes)(?:_(.+))?$/;

/** A stream of a tenant as the table of watermarks names it: of a tenant that is not the first of its id with the incarnation. */
export const streamName = (stream: SinkStream, incarnation: string | undefined): string =>
  incarnation === undefined ? stream : `${stream}_${incarnation}`;

/** Undefined: not a name that the service has written. */
export function streamOf(
  name: string,
): { readonly stream: SinkStream; readonly incarnation: string | undefined } | undefined {
  const [, stream, incarnation] = STREAM.exec(name) ?? [];
  return stream === undefined ? undefined : { stream: stream as SinkStream, incarnation };
}
