/** A block of an event stream: the values of its fields by name, in their order. */
export type SseBlock = (name: 'event' | 'id' | 'data') => string[];

/** What stands between two blank lines. */
export const sseBlock =
  (block: string): SseBlock =>
  (name) =>
    block.split('\n').flatMap((line) => (line.startsWith(`${name}: `) ? [line.slice(name.length + 2)] : []));

/** The blocks of an answer of text/event-stream, as they come. */
export async function* sseBlocks({ body }: Response): AsyncGenerator<SseBlock> {
  let text = '';
  const decoder = new TextDecoder();
  for await (const chunk of body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    const blocks = text.split('\n\n');
    text = blocks.pop() ?? '';
    for (const block of blocks) yield sseBlock(block);
  }
}
