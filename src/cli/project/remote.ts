import { buffer } from 'node:stream/consumers';
import type { Diagnostic } from '../../code-host/code-host.js';
import type { Server } from '../server.js';
import type { ProjectFile } from '../../fixtures/fixtures.js';

/** Answers of the service, as far as the commands need them. */
export interface TypeRecord {
  readonly aggregateType: string;
  readonly aggregates: number;
  readonly reducerId?: string;
  readonly className?: string;
  readonly boundAt?: string;
  readonly catchUp?: CatchUpRecord;
  readonly faulted?: FaultedRecord;
  /** Aggregates that an event has stopped. */
  readonly faultCount?: number;
}
/** Code that overran its limits too often: it is not run any more. */
export interface FaultedRecord {
  readonly revision?: number;
  readonly message?: string;
}
export interface CatchUpRecord {
  readonly status: 'running' | 'done' | 'failed';
  readonly processed: number;
  readonly total: number;
  readonly eventsPerSecond: number;
}
interface DiscoveredRecord {
  readonly className: string;
  readonly aggregateType?: string;
}
interface UploadRecord {
  readonly id: string;
  readonly discovered?: readonly DiscoveredRecord[];
  readonly diagnostics?: readonly Diagnostic[];
  readonly compilationError?: string;
}
export interface ReducerRecord extends UploadRecord {
  readonly status: 'pending_compilation' | 'compiled' | 'failed';
  readonly unboundTypes?: readonly {
    readonly aggregateType: string;
    readonly classNames: readonly string[];
    readonly reason: string;
  }[];
}
export interface ProjectionRecord extends UploadRecord {
  readonly status: 'compiling' | 'compiled' | 'failed';
  readonly revision: number;
  readonly live?: { readonly revision: number };
  readonly build?: CatchUpRecord & { readonly revision?: number };
  readonly faultCount?: number;
  readonly faulted?: FaultedRecord;
  readonly cancelledAt?: string;
  readonly sse?: boolean;
  readonly webhook?: { readonly url?: string; readonly isolated?: boolean };
}
/** What an upload would come to. `sameAs`: the reducer, or the revision, that has the same sources. */
export interface CheckRecord<Same> {
  readonly status: 'compiled' | 'failed';
  readonly diagnostics: readonly Diagnostic[];
  readonly compilationError?: string;
  readonly sameAs?: Same;
}
/** Of an upload or a change of notifications. */
export interface NotificationsRecord {
  readonly webhook: { readonly enabled: boolean; readonly secret?: string; readonly isolated?: boolean };
  readonly sse: boolean;
}
export interface RevisionRecord {
  readonly revision: number;
  readonly status: string;
  readonly cause: string;
  readonly of?: number;
  readonly createdAt: string;
  readonly changedKeys?: number;
  readonly faulted?: FaultedRecord;
}
/** One binding of a type. `kept`: its states are there, so that it is caught up with quickly. */
export interface GenerationRecord {
  readonly generation: number;
  readonly reducerId: string;
  readonly className: string;
  readonly boundAt: string;
  readonly status: 'bound' | 'kept' | 'gone';
  readonly faulted?: FaultedRecord;
}
export interface DryRunRecord {
  readonly status: 'compiled' | 'failed';
  readonly complete?: boolean;
  readonly cut?: string;
  readonly classes?: readonly {
    readonly className: string;
    readonly aggregateType?: string;
    readonly total?: number;
    readonly folded: number;
    readonly changed: number;
    readonly unchanged: number;
    readonly added: number;
    readonly removed: number;
    readonly faulted: number;
    readonly faultedBefore: number;
  }[];
  readonly faults?: readonly {
    readonly aggregateId: string;
    readonly key?: string;
    readonly version: number;
    readonly className: string;
    readonly message: string;
    readonly file: string | null;
    readonly line: number | null;
  }[];
  readonly events?: number;
  readonly eventsPerSecond?: number;
}

/** What `statefold` asks a service on behalf of a project. */
export class Remote {
  readonly #server: Server;

  constructor(server: Server) {
    this.#server = server;
  }

  get url(): string {
    return this.#server.url;
  }

  async types(): Promise<readonly TypeRecord[]> {
    return (await this.#server.tenantList('/aggregate-types', 'aggregateTypes')) as unknown as readonly TypeRecord[];
  }

  async type(aggregateType: string): Promise<TypeRecord> {
    return (await this.#server.tenant('GET', `/aggregate-types/${encodeURIComponent(aggregateType)}`)) as TypeRecord;
  }

  /** Newest first. */
  async generations(aggregateType: string): Promise<readonly GenerationRecord[]> {
    return (
      (await this.#server.tenant('GET', `/aggregate-types/${encodeURIComponent(aggregateType)}/history`)) as {
        readonly generations: readonly GenerationRecord[];
      }
    ).generations;
  }

  async bind(aggregateType: string, reducerId: string, className: string): Promise<void> {
    await this.#server.tenant('PUT', `/aggregate-types/${encodeURIComponent(aggregateType)}`, { reducerId, className });
  }

  async projections(): Promise<readonly ProjectionRecord[]> {
    return (await this.#server.tenantList('/projections', 'projections')) as unknown as readonly ProjectionRecord[];
  }

  async projection(id: string): Promise<ProjectionRecord> {
    return (await this.#server.tenant('GET', `/projections/${encodeURIComponent(id)}/status`)) as ProjectionRecord;
  }

  /** Newest first. */
  async revisions(id: string): Promise<readonly RevisionRecord[]> {
    const { revisions } = (await this.#server.tenant('GET', `/projections/${encodeURIComponent(id)}/revisions`)) as {
      readonly revisions: readonly RevisionRecord[];
    };
    return revisions;
  }

  /** @param revision undefined: the one that was live before @returns the new revision's number */
  async rollbackProjection(
    id: string,
    revision: number | undefined,
  ): Promise<{ readonly revision: number; readonly of: number; readonly message: string }> {
    return (await this.#server.tenant(
      'POST',
      `/projections/${encodeURIComponent(id)}/rollback`,
      revision === undefined ? {} : { revision },
    )) as { revision: number; of: number; message: string };
  }

  async reducer(id: string): Promise<ReducerRecord> {
    return (await this.#server.tenant('GET', `/reducers/${encodeURIComponent(id)}/status`)) as ReducerRecord;
  }

  /** @returns the id of the reducer */
  async uploadReducer(sources: readonly ProjectFile[]): Promise<string> {
    const { reducerId } = (await this.#server.tenant('POST', '/reducers/upload', await form(sources))) as {
      readonly reducerId: string;
    };
    return reducerId;
  }

  async uploadProjection(
    sources: readonly ProjectFile[],
    projectionId: string | undefined,
    notifications: object | undefined,
  ): Promise<{ readonly projectionId: string; readonly notifications?: NotificationsRecord }> {
    return (await this.#server.tenant(
      'POST',
      '/projections/upload',
      await form(sources, projectionFields(projectionId, notifications)),
    )) as { projectionId: string; notifications?: NotificationsRecord };
  }

  /** Changes its notifications alone. */
  async configure(projectionId: string, config: object): Promise<NotificationsRecord> {
    return (
      (await this.#server.tenant('PUT', `/projections/${encodeURIComponent(projectionId)}/config`, config)) as {
        readonly notifications: NotificationsRecord;
      }
    ).notifications;
  }

  async deleteProjection(id: string): Promise<void> {
    await this.#server.tenant('DELETE', `/projections/${encodeURIComponent(id)}`);
  }

  /** Calls off what is not live yet. */
  async cancelBuild(id: string): Promise<void> {
    await this.#server.tenant('DELETE', `/projections/${encodeURIComponent(id)}/build`);
  }

  async checkReducer(sources: readonly ProjectFile[]): Promise<CheckRecord<string>> {
    return (await this.#server.tenant('POST', '/reducers/check', await form(sources))) as CheckRecord<string>;
  }

  async checkProjection(
    sources: readonly ProjectFile[],
    projectionId: string | undefined,
    notifications: object | undefined,
  ): Promise<CheckRecord<number>> {
    return (await this.#server.tenant(
      'POST',
      '/projections/check',
      await form(sources, projectionFields(projectionId, notifications)),
    )) as CheckRecord<number>;
  }

  async dryRun(
    kind: 'reducer' | 'projection',
    sources: readonly ProjectFile[],
    projectionId: string | undefined,
  ): Promise<DryRunRecord> {
    return (await this.#server.tenant(
      'POST',
      `/${kind}s/dry-run`,
      await form(sources, projectionId === undefined ? {} : { projectionId }),
    )) as DryRunRecord;
  }
}

const projectionFields = (
  projectionId: string | undefined,
  notifications: object | undefined,
): Readonly<Record<string, string>> => ({
  ...(projectionId === undefined ? {} : { projectionId }),
  ...(notifications === undefined ? {} : { config: JSON.stringify({ notifications }) }),
});

/** Equal sources make equal bytes. */
const NO_TIME = new Date(Date.UTC(2000, 0, 1));

async function form(sources: readonly ProjectFile[], fields: Readonly<Record<string, string>> = {}): Promise<FormData> {
  const { ZipArchive } = await import('archiver');
  const archive = new ZipArchive({ zlib: { level: 9 } });
  const bytes = buffer(archive);
  for (const { path, text } of sources) archive.append(text, { name: path, date: NO_TIME });
  await archive.finalize();
  const data = new FormData();
  data.append('file', new Blob([new Uint8Array(await bytes)], { type: 'application/zip' }), 'project.zip');
  for (const [name, value] of Object.entries(fields)) data.append(name, value);
  return data;
}
