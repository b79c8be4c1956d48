import { CliError, type CliIo } from '../io.js';
import { plural } from './diagnostics.js';
import { poll, Progress } from './progress.js';
import type { Remote } from './remote.js';

/** Waits until all aggregates of a type are folded. @throws CliError when that failed */
export async function awaitCatchUp(remote: Remote, output: CliIo['stdout'], aggregateType: string): Promise<void> {
  const progress = new Progress(output, aggregateType);
  try {
    const { catchUp, faultCount = 0 } = await poll(async () => {
      const type = await remote.type(aggregateType);
      if (type.faulted !== undefined)
        throw new CliError(
          `The code bound to ${aggregateType} is not run any more: it ${type.faulted.message ?? 'overran its limits too often'}. \`statefold rollback ${aggregateType}\` goes back to what was bound before.`,
        );
      if (type.catchUp?.status !== 'running') return type;
      progress.show(type.catchUp);
      return undefined;
    });
    if (catchUp?.status === 'failed')
      throw new CliError(
        `The catch-up of ${aggregateType} failed; its states are folded when they are asked for. The service's log says why.`,
      );
    progress.done(
      `caught up${faultCount > 0 ? `, ${plural(faultCount, 'aggregate')} stopped by an event: see /aggregate-types/${aggregateType}/faults` : ''}`,
    );
  } finally {
    progress.stop();
  }
}

/** Waits until a revision, or a later one, is live. @throws CliError when it can't come to be */
export async function awaitRevision(
  remote: Remote,
  output: CliIo['stdout'],
  projectionId: string,
  revision: number,
): Promise<void> {
  const progress = new Progress(output, 'projection');
  try {
    const { live, faultCount = 0 } = await poll(async () => {
      const projection = await remote.projection(projectionId);
      if ((projection.live?.revision ?? 0) >= revision) return projection;
      if (projection.build?.status === 'failed')
        throw new CliError(
          `The build of revision ${revision} of projection ${projectionId} failed; what was live stays. The service's log says why.`,
        );
      if (projection.cancelledAt !== undefined)
        throw new CliError(`The build of revision ${revision} of projection ${projectionId} was called off.`);
      if (projection.faulted !== undefined && (projection.faulted.revision ?? 0) >= revision)
        throw new CliError(
          `The code of revision ${projection.faulted.revision} of projection ${projectionId} is not run any more: it ${projection.faulted.message ?? 'overran its limits too often'}. What was live stays.`,
        );
      if (projection.status === 'failed')
        throw new CliError(`A newer revision of projection ${projectionId} was uploaded meanwhile and failed.`);
      if (projection.build !== undefined) progress.show(projection.build);
      return undefined;
    });
    progress.done(
      `revision ${live?.revision ?? revision} is live${faultCount > 0 ? `, ${plural(faultCount, 'key')} stopped by an event: see /projections/${projectionId}/status` : ''}`,
    );
  } finally {
    progress.stop();
  }
}
