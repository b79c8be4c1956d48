import { structuredPatch } from 'diff';
import type { JSX } from 'preact';
import type { Sources } from '../sources';

const CONTEXT_LINES = 3;

/** The lines that differ, file by file. */
export function SourcesDifference({
  before,
  after,
  words,
  same,
}: {
  readonly before: Sources;
  readonly after: Sources;
  /** From what to what. */
  readonly words: string;
  /** What is said where none differs. */
  readonly same: string;
}): JSX.Element {
  const paths = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  const changed = paths.filter((path) => before[path] !== after[path]);
  if (changed.length === 0) return <p class="faint">{same}</p>;
  return (
    <>
      {changed.map((path) => (
        <pre key={path} class="json diff" tabIndex={0} role="region" aria-label={`${path}, ${words}`}>
          <span class="faint">{path}</span>
          {structuredPatch(path, path, before[path] ?? '', after[path] ?? '', '', '', {
            context: CONTEXT_LINES,
          }).hunks.map(({ oldStart, newStart, lines }) => (
            <>
              <span class="faint">
                @@ {oldStart} → {newStart} @@
              </span>
              {lines.map((line, n) => (
                <span key={n} class={line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : undefined}>
                  {line}
                </span>
              ))}
            </>
          ))}
        </pre>
      ))}
    </>
  );
}
