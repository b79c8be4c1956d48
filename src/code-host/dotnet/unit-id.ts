import type { ProjectionUnit, Unit } from '../code-host.js';

/** What has the strikes: a reducer's artefact, or the revision of a projection. */
export const unitIdOf = (unit: Unit | ProjectionUnit): string => ('id' in unit ? unit.id : unit.artefactId);
