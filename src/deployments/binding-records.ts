import type { BindingEntity, Catalog, FormerBinding, ReducerEntity } from '../catalog/catalog.js';
import type { Discovered } from '../code-host/code-host.js';
import type { Sliced } from '../core/slices.js';

/** A type for which an upload has several classes: it is bound to none of them until one is named. */
export interface UnboundType {
  readonly aggregateType: string;
  readonly classNames: readonly string[];
  readonly reason: string;
}

/** Classes of each type that the upload reduces. */
function classesByType(discovered: readonly Discovered[]): ReadonlyMap<string, readonly string[]> {
  const types = new Map<string, string[]>();
  for (const { aggregateType, className } of discovered)
    if (aggregateType !== undefined) {
      const classes = types.get(aggregateType);
      if (classes === undefined) types.set(aggregateType, [className]);
      else classes.push(className);
    }
  return types;
}

/** Types that exactly one class of the upload reduces. */
export function unambiguous(discovered: readonly Discovered[]): (readonly [type: string, className: string])[] {
  return [...classesByType(discovered)].flatMap(([type, [className, ...others]]) =>
    className !== undefined && others.length === 0 ? [[type, className] as const] : [],
  );
}

/** Types that the upload has classes for, and that were not bound to it, nor have been since. */
export function unboundTypes(
  catalog: Pick<Catalog, 'get'>,
  { tenantId, reducerId, discovered = [] }: ReducerEntity,
): UnboundType[] {
  return [...classesByType(discovered)].flatMap(([aggregateType, classNames]) => {
    if (classNames.length < 2 || catalog.get('binding', `${tenantId}/${aggregateType}`)?.value.reducerId === reducerId)
      return [];
    const reason = `several classes of the upload are for it; bind one with PUT /aggregate-types/${aggregateType} and { "reducerId": "${reducerId}", "className": "…" }`;
    return [{ aggregateType, classNames, reason }];
  });
}

const BINDINGS_PER_SLICE = 10_000;

/** The types that are bound to the reducer, of all that there are at the call as they are when their turn comes. */
export function* boundTypes(
  catalog: Pick<Catalog, 'get' | 'list'>,
  tenantId: string,
  reducerId: string,
): Sliced<string[]> {
  const types: string[] = [];
  for (const [i, { id }] of catalog.list('binding', tenantId).entries()) {
    const binding = catalog.get('binding', id)?.value;
    if (binding?.reducerId === reducerId) types.push(binding.aggregateType);
    if (i % BINDINGS_PER_SLICE === BINDINGS_PER_SLICE - 1) yield;
  }
  return types;
}

export interface GenerationRecord extends FormerBinding {
  /** `kept`: states of its code are there, so that it takes no fold from the start to be bound again. */
  readonly status: 'bound' | 'kept' | 'gone';
}

/** The bindings of a type, the newest first. */
export function bindingHistory(binding: BindingEntity, kept: readonly number[]): GenerationRecord[] {
  const { generation, reducerId, className, boundAt, earlier = [] } = binding;
  const all = [...earlier, { generation, reducerId, className, boundAt }];
  const isKept = (of: FormerBinding): boolean =>
    all.some(
      (one) => kept.includes(one.generation) && one.reducerId === of.reducerId && one.className === of.className,
    );
  return all
    .map((one) => ({
      ...one,
      status: one.generation === generation ? ('bound' as const) : isKept(one) ? ('kept' as const) : ('gone' as const),
    }))
    .reverse();
}
