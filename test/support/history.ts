import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** An event as the load sends it: its `data` is `{ "id": mark, "lane": lane }`, and no two events share a mark. */
export interface SentEvent {
  readonly mark: string;
  readonly lane: string;
  readonly eventType: string;
}

export interface AppendRequest {
  readonly kind: 'append';
  /** The same for all attempts of one command: same body, same key. */
  readonly command: number;
  readonly aggregateId: string;
  readonly batch: boolean;
  readonly events: readonly SentEvent[];
  readonly expectedVersion?: number;
  readonly key?: string;
}
export interface ListRequest {
  readonly kind: 'list';
  readonly aggregateId: string;
}
export interface StateRequest {
  readonly kind: 'state';
  readonly aggregateType: string;
  readonly aggregateId: string;
}

/** `lost`: the connection broke before the answer, so nobody knows what became of the request. */
export type Outcome =
  | { readonly kind: 'lost'; readonly why?: string }
  | { readonly kind: 'answered'; readonly status: number; readonly body: Readonly<Record<string, unknown>> };

export interface Operation {
  readonly request: AppendRequest | ListRequest | StateRequest;
  /** Milliseconds of one clock, the load's own. */
  readonly invokedAt: number;
  readonly endedAt: number;
  readonly outcome: Outcome;
}

/** What clients asked and what they were told, in the order in which the requests ended. */
export class History {
  readonly operations: Operation[] = [];

  async record(
    request: Operation['request'],
    send: () => Promise<{ status: number; body: Record<string, unknown> }>,
  ): Promise<Outcome> {
    const invokedAt = performance.now();
    let outcome: Outcome;
    try {
      outcome = { kind: 'answered', ...(await send()) };
    } catch (error) {
      outcome = { kind: 'lost', why: String(error) };
    }
    this.operations.push({ request, invokedAt, endedAt: performance.now(), outcome });
    return outcome;
  }

  /** Appends of which at least one attempt was answered 201. */
  get acknowledged(): number {
    const commands = new Set<number>();
    for (const { request, outcome } of this.operations)
      if (request.kind === 'append' && outcome.kind === 'answered' && outcome.status === 201)
        commands.add(request.command);
    return commands.size;
  }

  /** Keeps the history as JSON lines for whoever looks into a failure. @returns the file */
  save(): string {
    const file = join(tmpdir(), `statefold-history-${process.pid}-${Date.now()}.jsonl`);
    writeFileSync(file, this.operations.map((operation) => `${JSON.stringify(operation)}\n`).join(''));
    return file;
  }
}
