import type { JSX } from 'preact';
import { changedPaths, jsonLines } from '../json-lines';

/** Two values side by side, with what is not in the other one marked. `null`: there was none. */
export function Difference({ before, after }: { readonly before: unknown; readonly after: unknown }): JSX.Element {
  const [old, now] = [jsonLines(before), jsonLines(after)];
  return (
    <div class="diff">
      {(
        [
          ['Before', old, changedPaths(old, now), 'removed'],
          ['After', now, changedPaths(now, old), 'added'],
        ] as const
      ).map(([name, lines, changed, kind]) => (
        <pre key={name} class="json" tabIndex={0} role="region" aria-label={`State ${name.toLowerCase()}`}>
          {lines.map(({ text, indent, path }) => (
            <span key={path} class={changed.has(path) ? kind : undefined}>
              {'  '.repeat(indent) + text + '\n'}
            </span>
          ))}
        </pre>
      ))}
    </div>
  );
}
