import { answerStream } from './answer-stream.js';
import { isErasure, type LiveOptions, type Told } from './live.js';

/** Items as server-sent events. */
export async function* sseLive<T extends object>({
  followed,
  transport,
  headers,
  path,
  signal,
}: LiveOptions<T>): AsyncGenerator<Told<T>, void, undefined> {
  for await (const event of answerStream({
    transport,
    headers,
    path,
    accept: 'text/event-stream',
    separator: '\n\n',
    signal,
  })) {
    const lines = event.split('\n');
    const field = (name: string): string[] =>
      lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2));
    const data = field('data');
    if (data.length > 0 && !field('event').includes('snapshot_end')) {
      const item = transport.parse(data.join('\n')) as T | undefined;
      if (item !== undefined && (field('event').includes(followed.type) || isErasure(item))) yield item;
    } else {
      // An id without data says how far the stream is, as the end of a snapshot does.
      const [id] = field('id');
      if (id !== undefined && /^\d+$/.test(id)) yield Number(id);
    }
  }
}
