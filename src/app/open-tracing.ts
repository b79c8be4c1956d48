import type { CodeHost, Runner } from '../code-host/code-host.js';
import { versionOf } from '../config/project-root.js';
import { traced, tracing, type Tracer } from '../core/tracing.js';
import type { ReadStore } from '../read-store/read-store.js';
import type { Ground } from './ground.js';

/** Traces, where they are on: what sends them is loaded only then, and the ports are wrapped only then. */
export async function openTracing(
  ground: Pick<Ground, 'settings' | 'shutdown' | 'root' | 'owner' | 'logger'>,
): Promise<void> {
  const { settings, shutdown, root, owner, logger } = ground;
  if (settings.otlpEndpoint === undefined) return;
  const { otlpTracer } = await import('../telemetry/otlp-tracer.js');
  const tracer = otlpTracer({ version: versionOf(root), instance: owner, logger });
  tracing.tracer = tracer;
  shutdown.add('traces', () => {
    tracing.tracer = undefined;
    return tracer.close();
  });
}

/** A part of what asked for it: a check of an upload is of its request, an upload is compiled behind it. */
export function tracedCodeHost(host: CodeHost, tracer: Tracer | undefined): CodeHost {
  if (tracer === undefined) return host;
  const runners = new WeakMap<Runner, Runner>();
  return wrapped(host, {
    compile: (request) =>
      traced(
        tracer,
        'code.compile',
        {
          parent: tracer.current,
          attributes: { 'statefold.tenant': request.tenantId, 'statefold.kind': request.kind },
        },
        async (span) => {
          const result = await host.compile(request);
          span.set({ 'statefold.compiled': result.ok });
          return result;
        },
      ),
    runner: (tenantId: string) => {
      const runner = host.runner(tenantId);
      let known = runners.get(runner);
      if (known === undefined) runners.set(runner, (known = tracedRunner(runner, tenantId, tracer)));
      return known;
    },
  });
}

const tracedRunner = (runner: Runner, tenantId: string, tracer: Tracer): Runner =>
  wrapped(runner, {
    fold: (items) =>
      traced(
        tracer,
        'reducers.fold',
        {
          attributes: {
            'statefold.tenant': tenantId,
            'statefold.aggregates': items.length,
            'statefold.events': items.reduce((sum, { events }) => sum + events.length, 0),
            'statefold.correlation_ids': correlationsOf(items.flatMap(({ events }) => events)),
          },
        },
        async (span) => {
          const outcomes = await runner.fold(items);
          span.set({ 'statefold.faults': outcomes.filter(({ fault }) => fault !== undefined).length });
          return outcomes;
        },
      ),
    project: (request) =>
      traced(
        tracer,
        'projections.fold',
        {
          attributes: {
            'statefold.tenant': tenantId,
            'statefold.projections': request.units.map(({ id }) => id).join(' '),
            'statefold.events': request.events.length,
            'statefold.correlation_ids': correlationsOf(request.events),
          },
        },
        async (span) => {
          const changes = await runner.project(request);
          span.set({ 'statefold.changes': changes.length });
          return changes;
        },
      ),
  });

export function tracedReadStore(store: ReadStore, tracer: Tracer | undefined): ReadStore {
  if (tracer === undefined) return store;
  return wrapped(store, {
    insert: (block) =>
      traced(
        tracer,
        'read_store.insert',
        {
          kind: 'client',
          attributes: {
            'db.system.name': 'clickhouse',
            'db.collection.name': block.table,
            'statefold.rows': block.rows.length,
          },
        },
        () => store.insert(block),
      ),
  });
}

/** Of the first few: enough to find the requests that they came with. */
const SHOWN = 8;
function correlationsOf(events: readonly { readonly correlationId?: string | null | undefined }[]): string | undefined {
  const found = new Set<string>();
  for (const { correlationId } of events) {
    if (typeof correlationId === 'string') found.add(correlationId);
    if (found.size === SHOWN) break;
  }
  return found.size === 0 ? undefined : [...found].join(' ');
}

/** The object with some of its methods replaced; those that are not keep their `this`. */
function wrapped<T extends object>(object: T, methods: Partial<T>): T {
  return new Proxy(object, {
    get: (target, name) => {
      if (Object.hasOwn(methods, name)) return methods[name as keyof T];
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}
