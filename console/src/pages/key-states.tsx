import type { Operations, StatefoldClient } from '@statefold/client';
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { useAddress } from '../address';
import { useLoad, type Loaded } from '../load';
import { pauseOf, usePaced } from '../paced';
import { usePages } from '../pages-of';
import { useSession } from '../session';
import { Detail } from '../ui/detail';
import { Json } from '../ui/json';
import { Name } from '../ui/name';
import { Badge, Empty, Loading, Outdated, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { bytes, count, jsonBytes, shortJson } from '../words';
import { historyBytes, KeyHistory } from './key-history';
import type { Projection } from './projections';

type ProjectionState = Operations['listStates']['answer']['states'][number];
const PAGE = 500;
/** A list that is older is told to be. */
const LONG_PAUSE_S = 6;

/** Two classes may keep a state under one key each. */
const isOf = (state: ProjectionState | undefined, key: string | null, className: string | null): boolean =>
  state !== undefined && state.key === key && (className === null || state.className === className);

/** Undefined: there is none. The key is the first of those that begin with it; a path has no room for `.`, `..` and the empty one. */
async function stateOf(
  client: StatefoldClient,
  { id, key, className }: { readonly id: string; readonly key: string; readonly className: string | null },
  signal: AbortSignal,
): Promise<ProjectionState | undefined> {
  let cursor: string | undefined;
  do {
    // They may be large: no more of them than it takes.
    const query = { prefix: key, limit: 1, cursor };
    const page = await client.request('listStates', { path: { id }, query, signal });
    const found = page.states.find((state) => isOf(state, key, className));
    if (found !== undefined) return found;
    cursor = page.states.every((state) => state.key === key) ? page.nextCursor : undefined;
  } while (cursor !== undefined);
  return undefined;
}

/** Keys with their states, which follow what is folded. What is looked for and what is chosen is in the address. */
export function KeyStates({ of: one }: { readonly of: Projection }): JSX.Element {
  const { id, lastSequence } = one;
  const { client } = useSession();
  const { search, change: set } = useAddress();
  const prefix = search.get('prefix') ?? '';
  const key = search.get('key');
  const className = search.get('class');
  const hasClasses = (one.discovered?.length ?? 1) > 1;
  const states = usePages(
    async (cursor, signal) => {
      const query = { limit: PAGE, cursor, ...(prefix === '' ? {} : { prefix }) };
      const page = await client.request('listStates', { path: { id }, query, signal });
      return { items: page.states, nextCursor: page.nextCursor };
    },
    [client, id, prefix],
  );
  // Also of a key that no page has brought yet.
  const chosen = useLoad(
    async (signal) => (key === null ? undefined : await stateOf(client, { id, key, className }, signal)),
    [client, id, key, className],
  );
  const bytesListed = useMemo(() => states.items.reduce((sum, { state }) => sum + jsonBytes(state), 0), [states.items]);
  usePaced(states.refresh, bytesListed, [lastSequence]);
  usePaced(chosen.reload, chosen.value === undefined ? 0 : historyBytes(chosen.value), [lastSequence, key, className]);
  const pause = pauseOf(bytesListed);
  return (
    <>
      {pause > LONG_PAUSE_S && states.at !== undefined && (
        <p class="faint">
          The states are large, {bytes(bytesListed)} of them: they are of <Time at={states.at.toISOString()} />, and
          asked for again every {count(Math.ceil(pause))} s.
        </p>
      )}
      <div class="filters">
        <label>
          <span>Keys that begin with</span>
          <input type="search" value={prefix} onInput={({ currentTarget: { value } }) => set({ prefix: value })} />
        </label>
      </div>
      <Outdated of={states} />
      {states.items.length > 0 || key !== null ? (
        <div class={key === null ? '' : 'split'}>
          <Rows
            count={states.items.length}
            label="Keys and states"
            columns={`minmax(8rem, 1fr) ${hasClasses ? '8rem ' : ''}minmax(10rem, 3fr) 6rem 11rem`}
            heads={['Key', ...(hasClasses ? ['Class'] : []), 'State', 'Sequence', 'Changed']}
            onEnd={states.more}
            selected={(index) => isOf(states.items[index], key, className)}
            onSelect={(index) => set({ key: states.items[index]?.key, class: states.items[index]?.className })}
            row={(index) => {
              const state = states.items[index];
              return {
                key: `${state?.key ?? index} ${state?.className ?? ''}`,
                cells: [
                  <KeyName of={state?.key} />,
                  ...(hasClasses ? [state?.className] : []),
                  <>
                    {state?.fault && <Badge kind="bad">stopped</Badge>} <code>{shortJson(state?.state)}</code>
                  </>,
                  <span class="number">{state?.sequence}</span>,
                  state && <Time at={state.lastModified} />,
                ],
              };
            }}
          />
          {key !== null && (
            <Chosen
              id={id}
              name={key}
              hasClasses={hasClasses}
              of={chosen}
              onClose={() => set({ key: '', class: '' })}
            />
          )}
        </div>
      ) : states.isLoading ? (
        <Loading />
      ) : (
        states.error === undefined && (
          <Empty title="There are no keys here">
            <p>No event has led to a state under such a key yet.</p>
          </Empty>
        )
      )}
    </>
  );
}

/** The empty key has a state like any other. */
export const KeyName = ({ of }: { readonly of: string | undefined }): JSX.Element =>
  of === '' ? <span class="faint">(no key)</span> : <Name of={of} />;

function Chosen({
  id,
  name,
  hasClasses,
  of,
  onClose,
}: {
  readonly id: string;
  readonly name: string;
  readonly hasClasses: boolean;
  readonly of: Loaded<ProjectionState | undefined>;
  readonly onClose: () => void;
}): JSX.Element {
  const { value: state, error, isLoading } = of;
  const isMissing = state === undefined && error === undefined && !isLoading;
  return (
    <Detail onClose={onClose}>
      <h2>
        <KeyName of={name} /> {hasClasses && state && <span class="faint">{state.className}</span>}
      </h2>
      {isMissing ? (
        <p>There is no state under this key.</p>
      ) : (
        <>
          <Outdated of={of} />
          {state === undefined && error === undefined && <Loading />}
        </>
      )}
      {state?.fault && (
        <p class="failure">It stopped at an event: {state.fault.message}. The state is as it was before that event.</p>
      )}
      {state !== undefined && <Json value={state.state} label="State of the key" />}
      {state !== undefined && (
        <section aria-label="History of the key">
          <h2>History</h2>
          <KeyHistory key={`${state.key} ${state.className}`} id={id} of={state} />
        </section>
      )}
    </Detail>
  );
}
