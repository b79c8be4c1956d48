import { requireReducer } from '../catalog/require.js';
import type { Catalog } from '../catalog/catalog.js';
import type { Discovered, Unit } from '../code-host/code-host.js';
import { StatefoldError } from '../core/errors.js';

/** The class of a reducer that is meant for a type: the named one, or the only one that is for it. @throws StatefoldError REDUCER_CLASS_NOT_FOUND, REDUCER_CLASS_AMBIGUOUS */
export function resolveClass(
  discovered: readonly Discovered[],
  aggregateType: string,
  className: string | undefined,
): string {
  const names = discovered.map((one) => one.className).join(', ');
  if (className !== undefined) {
    if (discovered.some((one) => one.className === className)) return className;
    throw new StatefoldError('REDUCER_CLASS_NOT_FOUND', `the reducer has no class '${className}'; it has ${names}`);
  }
  const [match, ...others] = discovered.filter((one) => one.aggregateType === aggregateType);
  if (match === undefined)
    throw new StatefoldError(
      'REDUCER_CLASS_NOT_FOUND',
      `no class of the reducer is for aggregate type '${aggregateType}'; name one with className: ${names}`,
    );
  if (others.length > 0)
    throw new StatefoldError(
      'REDUCER_CLASS_AMBIGUOUS',
      `several classes of the reducer are for aggregate type '${aggregateType}'; name one with className: ${names}`,
    );
  return match.className;
}

/** A compiled reducer's class for a type. @throws StatefoldError NOT_FOUND, REDUCER_NOT_COMPILED, and as `resolveClass` */
export function boundClass(
  catalog: Pick<Catalog, 'get'>,
  tenantId: string,
  aggregateType: string,
  reducerId: string,
  className: string | undefined,
): Unit {
  const reducer = requireReducer(catalog, tenantId, reducerId);
  if (reducer.status !== 'compiled')
    throw new StatefoldError(
      'REDUCER_NOT_COMPILED',
      `reducer '${reducerId}' is ${reducer.status === 'failed' ? 'not compilable; see its compilationError' : 'still being compiled; try again when its status is compiled'}`,
    );
  return {
    artefactId: reducer.artefactId,
    className: resolveClass(reducer.discovered ?? [], aggregateType, className),
  };
}
