import type { Runner } from './code-host.js';

/** Assemblies on their way into a runner, which all tasks of a tenant share. */
const LOADING = new WeakMap<Runner, Map<string, Promise<void>>>();

/** Makes an artefact's classes callable in the runner; undefined when they are. */
export function codeLoader(
  runner: Runner,
  assembly: (artefactId: string) => Promise<Buffer>,
): (artefactId: string) => Promise<void> | undefined {
  const underWay = LOADING.get(runner) ?? new Map<string, Promise<void>>();
  LOADING.set(runner, underWay);
  return (artefactId) => {
    if (runner.has(artefactId)) return undefined;
    let loading = underWay.get(artefactId);
    if (loading === undefined) {
      loading = assembly(artefactId)
        .then((bytes) => runner.load(artefactId, bytes))
        .finally(() => underWay.delete(artefactId));
      underWay.set(artefactId, loading);
    }
    return loading;
  };
}
