import type { StoredCommit } from '../core/event.js';
import type { ProjectionControl } from '../core/records.js';

export type Input =
  | { readonly kind: 'commit'; readonly commit: StoredCommit }
  | { readonly kind: 'control'; readonly control: ProjectionControl; readonly offset: number }
  /** The state of an aggregate changes without a commit. */
  | { readonly kind: 'release'; readonly aggregateId: string; readonly offset: number };

/** Who reads the tenant's records one after the other. */
export interface InputReader {
  /** Accepted records from `from` on, ascending, about `maxBytes` of them; `next` is where to go on, `from` itself at the end. */
  read(from: number, maxBytes: number): Promise<{ readonly inputs: readonly Input[]; readonly next: number }>;
  /** All inputs from `from` up to here are commits; undefined where that is not known without reading them. */
  commitsUntil?(from: number): number | undefined;
}

export const inputOffset = (input: Input): number => (input.kind === 'commit' ? input.commit.offset : input.offset);

export const commitsOf = (inputs: readonly Input[]): StoredCommit[] =>
  inputs.flatMap((input) => (input.kind === 'commit' ? [input.commit] : []));

/** About what it takes in memory. */
export function inputBytes(input: Input): number {
  if (input.kind !== 'commit') return 200;
  if (input.commit.bytes !== undefined) return 200 + input.commit.bytes + 150 * (input.commit.eventCount ?? 0);
  let bytes = 300 + (input.commit.metadata?.length ?? 0);
  for (const event of input.commit.events) bytes += 150 + event.data.length + (event.metadata?.length ?? 0);
  return bytes;
}
