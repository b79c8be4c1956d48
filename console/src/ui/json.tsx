import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { changedPaths, jsonLines, type JsonLine } from '../json-lines';
import { count } from '../words';

/** As many lines are drawn at first, and more for each click: a state may have 100,000. */
const LINES = 1_000;
const NONE: ReadonlySet<string> = new Set();

/** JSON by lines, of which those in `marked` have the class `kind`. The first of them is always among those that are shown. */
function Lines({
  lines,
  label,
  marked = NONE,
  kind,
}: {
  readonly lines: readonly JsonLine[];
  readonly label: string;
  readonly marked?: ReadonlySet<string>;
  readonly kind?: 'added' | 'removed';
}): JSX.Element {
  const [most, setMost] = useState(LINES);
  const shown = useMemo(() => {
    const first = marked.size === 0 ? 0 : Math.max(lines.findIndex(({ path }) => marked.has(path)) - LINES / 2, 0);
    const begin = lines.length <= most ? 0 : first;
    return { begin, lines: lines.slice(begin, begin + most) };
  }, [lines, marked, most]);
  const end = shown.begin + shown.lines.length;
  return (
    <div class="lines">
      <pre class="json" tabIndex={0} role="region" aria-label={label}>
        {shown.begin > 0 && <span class="faint">{`… ${count(shown.begin)} lines before\n`}</span>}
        {shown.lines.map(({ text, indent, path }) =>
          marked.has(path) ? (
            <span key={path} class={kind}>
              {'  '.repeat(indent) + text + '\n'}
            </span>
          ) : (
            '  '.repeat(indent) + text + '\n'
          ),
        )}
        {end < lines.length && <span class="faint">{`… ${count(lines.length - end)} lines more\n`}</span>}
      </pre>
      {shown.lines.length < lines.length && (
        <button type="button" onClick={() => setMost(most * 10)}>
          Show more of its {count(lines.length)} lines
        </button>
      )}
    </div>
  );
}

export function Json({ value, label }: { readonly value: unknown; readonly label: string }): JSX.Element {
  const lines = useMemo(() => jsonLines(value), [value]);
  return <Lines lines={lines} label={label} />;
}

/** Two values side by side, with what is not in the other one marked. `null`: there was none. */
export function Difference({
  before,
  after,
  of = 'State',
  names: [left, right] = ['before', 'after'],
}: {
  readonly before: unknown;
  readonly after: unknown;
  readonly of?: string;
  /** What the two are called. */
  readonly names?: readonly [string, string];
}): JSX.Element {
  const { old, now, removed, added } = useMemo(() => {
    const [old, now] = [jsonLines(before), jsonLines(after)];
    return { old, now, removed: changedPaths(old, now), added: changedPaths(now, old) };
  }, [before, after]);
  return (
    <div class="diff">
      <Lines lines={old} label={`${of} ${left}`} marked={removed} kind="removed" />
      <Lines lines={now} label={`${of} ${right}`} marked={added} kind="added" />
    </div>
  );
}
