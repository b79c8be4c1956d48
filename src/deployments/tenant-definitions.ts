import { artefactsOf, type ArtefactEntity, type BindingEntity, type Catalog, type Entry } from '../catalog/catalog.js';
import { ForgottenCodeError } from '../code-host/tenant-code.js';
import { StatefoldError } from '../core/errors.js';
import type { BoundReducer } from '../aggregates/bindings.js';
import type { TenantDefinitions } from '../tenancy/task-options.js';
import type { TenantTask } from '../tenancy/tenant-task.js';
import { inSlices, overSlices, type Sliced } from '../core/slices.js';
import { isHalted } from './artefact-health.js';
import { targetOf } from './revisions.js';

const BINDINGS_PER_SLICE = 10_000;

/** A tenant's code as its task needs it, read from the catalog. */
export function tenantDefinitions(catalog: Catalog, tenantId: string): TenantDefinitions {
  return {
    bindAll: (bind) => bindEach(catalog, catalog.list('binding', tenantId), () => true, bind),
    projections: () => catalog.list('projection', tenantId).flatMap(({ value }) => targetOf(value) ?? []),
    projectionExists: (projectionId) => catalog.get('projection', projectionId)?.value.tenantId === tenantId,
    halted: (unitId) => isHalted(catalog, unitId),
    caughtUp: () => catalog.caughtUp(),
    assembly: async (artefactId) => {
      const assembly = await catalog.artefacts.get(artefactId, 'assembly');
      if (assembly !== undefined) return assembly;
      if (!isNamed(catalog, tenantId, artefactId)) throw new ForgottenCodeError(artefactId);
      throw new StatefoldError('UNAVAILABLE', `the compiled code of artefact ${artefactId} is not in the log`);
    },
  };
}

/** A reducer, or a revision of a projection that is remembered, has the code. */
const isNamed = (catalog: Catalog, tenantId: string, artefactId: string): boolean =>
  [...catalog.list('reducer', tenantId), ...catalog.list('projection', tenantId)].some(({ value }) =>
    artefactsOf(value).includes(artefactId),
  );

function boundReducer(
  catalog: Catalog,
  { aggregateType, className, reducerId, generation, earlier }: BindingEntity,
): BoundReducer | undefined {
  const reducer = catalog.get('reducer', reducerId)?.value;
  if (reducer === undefined) return undefined;
  const { artefactId } = reducer;
  const revivals = catalog.get('artefact', artefactId)?.value.revivals;
  // The id of a reducer is that of its artefact; one before may be deleted by now.
  const former = earlier?.map((one) => ({
    generation: one.generation,
    artefactId: one.reducerId,
    className: one.className,
  }));
  return {
    aggregateType,
    className,
    artefactId,
    generation,
    ...(revivals === undefined ? {} : { revivals }),
    ...(former === undefined ? {} : { former }),
  };
}

/** The bindings to the reducer, whose id is that of its artefact. */
function* boundTo(catalog: Catalog, { tenantId, unitId }: ArtefactEntity): Sliced<Entry<'binding'>[]> {
  const bound: Entry<'binding'>[] = [];
  for (const [i, binding] of catalog.list('binding', tenantId).entries()) {
    if (binding.value.reducerId === unitId) bound.push(binding);
    if (i % BINDINGS_PER_SLICE === BINDINGS_PER_SLICE - 1) yield;
  }
  return bound;
}

/** The reducer was revived: what it is bound to is bound again, as it stands when its turn comes. */
async function bindAgain(
  catalog: Catalog,
  artefact: ArtefactEntity,
  bind: (reducer: BoundReducer) => void,
): Promise<void> {
  const bound = await inSlices(boundTo(catalog, artefact));
  await bindEach(catalog, bound, ({ reducerId }) => reducerId === artefact.unitId, bind);
}

/** Binds, of these, what `isMeant` by what the catalog has of it when its turn comes. */
function bindEach(
  catalog: Catalog,
  bindings: readonly Pick<Entry<'binding'>, 'id'>[],
  isMeant: (binding: BindingEntity) => boolean,
  bind: (reducer: BoundReducer) => void,
): Promise<void> {
  return overSlices('reducers', bindings, ({ id }) => {
    const binding = catalog.get('binding', id)?.value;
    const reducer = binding !== undefined && isMeant(binding) ? boundReducer(catalog, binding) : undefined;
    if (reducer !== undefined) bind(reducer);
  });
}

/** Tells active tasks of bindings and projections as the catalog takes them. `open` activates a tenant that has work now. */
export function followCatalog(
  catalog: Catalog,
  tenants: {
    active(tenantId: string): TenantTask | undefined;
    open(tenantId: string): Promise<TenantTask>;
    bind(tenantId: string, reducer: BoundReducer): void;
  },
): void {
  catalog.onChange((change) => {
    if (change.kind === 'binding' && change.value !== undefined) {
      const binding = change.value;
      const reducer = boundReducer(catalog, binding);
      if (reducer !== undefined) tenants.bind(binding.tenantId, reducer);
    } else if (change.kind === 'artefact') {
      const { value: now, previous: before } = change;
      if (now !== undefined && now.revivals !== before?.revivals)
        void bindAgain(catalog, now, (reducer) => tenants.bind(now.tenantId, reducer));
    } else if (change.kind === 'projection') {
      const projection = change.value ?? change.previous;
      if (projection === undefined) return;
      const target = change.value === undefined ? undefined : targetOf(projection);
      const act = (task: TenantTask): void => {
        if (change.value === undefined) return task.drop(projection.projectionId);
        task.cancelBuild(projection.projectionId, target?.revision ?? 0);
        if (target !== undefined) task.deploy(target);
      };
      const active = tenants.active(projection.tenantId);
      // A task that is opened meanwhile reads the catalog itself.
      if (active !== undefined) act(active);
      else if (target !== undefined) tenants.open(projection.tenantId).then(act, () => undefined);
    }
  });
}
