import { CliError } from '../io.js';
import type { ProjectionRecord, Remote, TypeRecord } from './remote.js';

export const classesOf = ({ discovered = [] }: Pick<ProjectionRecord, 'discovered'>): string[] =>
  discovered.map(({ className }) => className);

/** A class by its name, with or without its namespace. */
export const isNamed = (className: string, name: string): boolean =>
  className === name || className.endsWith(`.${name}`);

const list = (projections: readonly ProjectionRecord[]): string =>
  projections.map((one) => `${one.id} (${classesOf(one).join(', ')})`).join(', ');

/** The projection of an id, or of a class. @throws CliError where there is none, or several */
export async function projectionOf(remote: Remote, name: string): Promise<ProjectionRecord> {
  const found = projectionsNamed(await remote.projections(), name);
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  throw new CliError(
    only === undefined
      ? `There is no projection '${name}', neither by its id nor by its class; \`statefold history\` lists all.`
      : `Several projections have a class ${name}: ${list(found)}. Name one by its id.`,
  );
}

export const projectionsNamed = (
  projections: readonly ProjectionRecord[],
  name: string,
): readonly ProjectionRecord[] => {
  const byId = projections.filter(({ id }) => id === name);
  return byId.length > 0
    ? byId
    : projections.filter((one) => classesOf(one).some((className) => isNamed(className, name)));
};

export type Subject =
  | { readonly kind: 'type'; readonly type: TypeRecord }
  | { readonly kind: 'projection'; readonly projection: ProjectionRecord };

/** An aggregate type by its name, or by the class or id of its reducer; a projection by its id or class. @throws CliError where the name is of nothing, or of several */
export async function subjectOf(remote: Remote, name: string): Promise<Subject> {
  const bound = (await remote.types()).filter(({ reducerId }) => reducerId !== undefined);
  const byName = bound.filter(({ aggregateType }) => aggregateType === name);
  const types =
    byName.length > 0
      ? byName
      : bound.filter(({ reducerId, className = '' }) => reducerId === name || isNamed(className, name));
  const projections = projectionsNamed(await remote.projections(), name);
  const [type] = types;
  const [projection] = projections;
  if (types.length + projections.length > 1) {
    const meanings = [
      ...types.map(({ aggregateType }) => `the aggregate type ${aggregateType}`),
      ...projections.map(({ id }) => `the projection ${id}`),
    ];
    throw new CliError(
      `'${name}' is ${meanings.join(' and ')}; name one of them by its ${projections.length > 0 && types.length <= 1 ? 'id' : 'aggregate type'}.`,
    );
  }
  if (type !== undefined) return { kind: 'type', type };
  if (projection !== undefined) return { kind: 'projection', projection };
  throw new CliError(
    `'${name}' is neither an aggregate type with a reducer nor a projection; \`statefold history\` lists both.`,
  );
}
