import type { Catalog } from '../catalog/catalog.js';
import type { CodeHost } from '../code-host/code-host.js';
import type { StateSchema, StateTypes } from '../code-host/state-types.js';
import type { Projections } from '../projections/projections.js';
import { firstOf, jsonBytes, LIST_BYTES } from '../core/reads.js';
import { nextTurn } from '../core/slices.js';
import { costOfBytes, costOfListed, type Turn } from '../core/turns.js';
import { revisionsOf, targetOf } from './revisions.js';
import type { PackedSources } from '../code-host/packed-sources.js';

/** What the states of one class are that is in force: that of a binding, or one of a projection. */
export interface DescribedState {
  readonly kind: 'reducer' | 'projection';
  readonly className: string;
  /** Of a reducer. */
  readonly aggregateType?: string;
  /** Of a projection. */
  readonly projectionId?: string;
  /** JSON Schema (2020-12), complete in itself. */
  readonly schema: StateSchema;
}

export interface DescribedStates {
  readonly states: readonly DescribedState[];
  /** Where the next page begins; undefined: there is none. */
  readonly next: string | undefined;
}

export interface DescribedStatesOptions {
  readonly catalog: Catalog;
  readonly codeHost: CodeHost;
  readonly sourcesOf: (artefactId: string) => Promise<PackedSources>;
  /** For a compiler, milliseconds. */
  readonly waitMs: number;
}

interface Unit extends Omit<DescribedState, 'schema'> {
  /** Ascending, and the same for ever. */
  readonly place: string;
  readonly artefactId: string;
}

export interface DescribedPage {
  /** The `next` of the page before; empty for the first one. */
  readonly after: string;
  readonly limit: number;
  /** Awaited before each part that is made; one round of the loop without it. */
  readonly turn?: Turn;
}

/** So many bytes are made of it on a turn. */
const PART_BYTES = 32 * 1024;
const DIALECT = 'https://json-schema.org/draft/2020-12/schema';
const REFERENCE = '#/$defs/';
/** Of places: the states of reducers come before those of projections. */
const REDUCERS = 'a';
const UNITS_PER_LOOK = 2000;

/** Describes the states of a tenant's reducers that are bound, and of its projections that are live. */
export async function describeStates(
  options: DescribedStatesOptions,
  tenantId: string,
  projections: Pick<Projections, 'life'>,
  { after, limit, turn = nextTurn }: DescribedPage,
): Promise<DescribedStates> {
  await turn(costOfListed(limit));
  const left = [...firstOf(unitsPast(options.catalog, tenantId, projections, after), limit + 1)];
  const states: DescribedState[] = [];
  let last: { readonly artefactId: string; readonly types: StateTypes } | undefined;
  let bytes = 0;
  /** That were read or told since the last turn. */
  let unpaid = 0;
  for (const { place: _place, artefactId, ...unit } of left.slice(0, limit)) {
    if (bytes >= LIST_BYTES) break;
    const isKnown = last?.artefactId === artefactId;
    if (!isKnown || unpaid >= PART_BYTES) {
      await turn(1 + costOfBytes(unpaid));
      unpaid = 0;
    }
    if (last === undefined || !isKnown) {
      const read = await typesOf(options, tenantId, unit.kind, artefactId);
      last = { artefactId, types: read.types };
      unpaid += read.bytes;
    }
    const state = { ...unit, schema: schemaOf(last.types, unit.className) };
    const told = jsonBytes(state);
    bytes += told;
    unpaid += told;
    states.push(state);
  }
  return { states, next: left.length > states.length ? left[states.length - 1]?.place : undefined };
}

/** One of the same classes whose schema is read when it is asked for; `{}` where it was not kept with the code. */
export interface KnownState extends Omit<DescribedState, 'schema'> {
  readonly schema: () => Promise<StateSchema>;
}

/** All of them, at the cost of looks into the catalog, between which others have their turn. */
export async function knownStates(
  catalog: Catalog,
  tenantId: string,
  projections: Pick<Projections, 'life'>,
): Promise<readonly KnownState[]> {
  const states: KnownState[] = [];
  for (let after = ''; ; await nextTurn()) {
    const units: readonly Unit[] = [...firstOf(unitsPast(catalog, tenantId, projections, after), UNITS_PER_LOOK)];
    for (const { place: _place, artefactId, ...unit } of units)
      states.push({
        ...unit,
        schema: async () => schemaOf((await keptTypes(catalog, artefactId))?.types ?? UNKNOWN, unit.className),
      });
    const last = units.at(-1);
    if (last === undefined || units.length < UNITS_PER_LOOK) return states;
    after = last.place;
  }
}

/** Those behind the place, ascending. */
function* unitsPast(
  catalog: Catalog,
  tenantId: string,
  projections: Pick<Projections, 'life'>,
  after: string,
): Generator<Unit> {
  const [kind = '', name = ''] = after.split('/', 2);
  if (kind <= REDUCERS) {
    for (const { value } of catalog.past('binding', tenantId, `${tenantId}/${kind === REDUCERS ? name : ''}`)) {
      const { aggregateType, className, reducerId } = value;
      const artefactId = catalog.get('reducer', reducerId)?.value.artefactId;
      if (artefactId !== undefined)
        yield { place: `${REDUCERS}/${aggregateType}`, kind: 'reducer', className, aggregateType, artefactId };
    }
  }
  const from = kind <= REDUCERS ? '' : name;
  const here = catalog.get('projection', from);
  const ofTenant = here?.value.tenantId === tenantId ? [here] : [];
  for (const { value } of chained(ofTenant, catalog.past('projection', tenantId, from))) {
    const { projectionId } = value;
    const revision = projections.life(projectionId).live?.revision ?? targetOf(value)?.revision;
    const { artefactId, discovered = [] } = revisionsOf(value).find((one) => one.revision === revision) ?? {};
    if (artefactId === undefined) continue;
    for (const className of discovered.map((one) => one.className).sort()) {
      const place = `p/${projectionId}/${className}`;
      if (place > after) yield { place, kind: 'projection', className, projectionId, artefactId };
    }
  }
}

function* chained<T>(...parts: readonly Iterable<T>[]): Generator<T> {
  for (const part of parts) yield* part;
}

const UNKNOWN: StateTypes = { states: {}, $defs: {} };

interface ReadTypes {
  readonly types: StateTypes;
  /** Of their JSON. */
  readonly bytes: number;
}

const parsed = (json: Buffer): ReadTypes => ({
  types: JSON.parse(json.toString('utf8')) as StateTypes,
  bytes: json.length,
});

async function keptTypes(catalog: Catalog, artefactId: string): Promise<ReadTypes | undefined> {
  const json = await catalog.artefacts.get(artefactId, 'types');
  return json && parsed(json);
}

/** Of an artefact that an earlier release has compiled, by compiling it once more: then they are kept too. */
async function typesOf(
  { catalog, codeHost, sourcesOf, waitMs }: DescribedStatesOptions,
  tenantId: string,
  kind: 'reducer' | 'projection',
  artefactId: string,
): Promise<ReadTypes> {
  const kept = await keptTypes(catalog, artefactId);
  if (kept !== undefined) return kept;
  const result = await codeHost.compile({ tenantId, kind, waitMs, sources: () => sourcesOf(artefactId) });
  // This release refuses what the earlier one took: its states may be anything until it is deployed anew.
  if (!result.ok) return { types: UNKNOWN, bytes: 0 };
  await catalog.artefacts.put(artefactId, 'types', result.stateTypes);
  return parsed(result.stateTypes);
}

/** The state's schema with all that it refers to. */
function schemaOf({ states, $defs }: StateTypes, className: string): StateSchema {
  const state = states[className] ?? {};
  const used = new Map<string, StateSchema>();
  const collect = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [name, one] of Object.entries(value)) {
      if (name !== '$ref' || typeof one !== 'string') {
        collect(one);
        continue;
      }
      const of = one.slice(REFERENCE.length).replaceAll('~1', '/').replaceAll('~0', '~');
      const target = $defs[of];
      if (target === undefined || used.has(of)) continue;
      used.set(of, target);
      collect(target);
    }
  };
  collect(state);
  return { $schema: DIALECT, ...state, ...(used.size > 0 && { $defs: Object.fromEntries(used) }) };
}
