import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Binding } from '../aggregate-types';
import { useLoad } from '../load';
import { reducersOf } from '../reducers';
import { LONG_MS } from '../long';
import { useSession } from '../session';
import { Confirm } from '../ui/dialogs';
import { Badge, Outdated, Time } from '../ui/parts';
import { timeOf } from '../words';

type Generation = Operations['getBindingHistory']['answer']['generations'][number];

/** A class that can be bound. */
interface Bindable {
  readonly reducerId: string;
  readonly className: string;
  /** Of its attribute; it can be bound to another type too. */
  readonly aggregateType: string | undefined;
  readonly createdAt: string;
}

type Chosen = Pick<Bindable, 'reducerId' | 'className'> & { readonly isKept: boolean };

const EVERY_MS = 10_000;
const STATUS = { kept: 'states kept', gone: 'states gone' } as const;
const isSame = (one: Pick<Chosen, 'reducerId' | 'className'>, other: typeof one | undefined): boolean =>
  one.reducerId === other?.reducerId && one.className === other.className;

/** Which code made the states of a type since when, and what binds other code to it. */
export function Bindings({
  type,
  bound,
  onBound,
}: {
  readonly type: string;
  /** Undefined: nothing is. */
  readonly bound: Binding | undefined;
  readonly onBound: () => void;
}): JSX.Element {
  const session = useSession();
  const { client } = session;
  const [asked, setAsked] = useState<Chosen>();
  const history = useLoad(
    async (signal): Promise<readonly Generation[]> =>
      bound === undefined ? [] : (await client.request('getBindingHistory', { path: { type }, signal })).generations,
    [client, type, bound === undefined],
  );
  useEffect(history.reload, [bound?.boundAt]);
  const mayDeploy = session.may('deploy');
  const bindable = useLoad(
    async (signal) => (mayDeploy ? bindableOf(await reducersOf(client, signal)) : []),
    [client, mayDeploy],
    EVERY_MS,
  );
  const others = (bindable.value ?? []).filter((one) => !isSame(one, bound));
  return (
    <section aria-label="Bindings">
      <h2>Bindings</h2>
      {mayDeploy && (
        <>
          <Outdated of={bindable} />
          <BindAnother
            type={type}
            choices={others}
            onChoose={({ reducerId, className }) => setAsked({ reducerId, className, isKept: false })}
          />
        </>
      )}
      <Outdated of={history} />
      <ul class="faults">
        {history.value?.map((one) => (
          <li key={one.generation}>
            <strong>{one.generation}</strong> {one.className}{' '}
            {one.status === 'bound' ? (
              <Badge kind="good">bound</Badge>
            ) : (
              <Badge>{isSame(one, bound) ? 'bound again' : STATUS[one.status]}</Badge>
            )}{' '}
            <span class="faint">
              since <Time at={one.boundAt} /> · reducer <code>{one.reducerId}</code>
            </span>
            {others.some((other) => isSame(other, one)) && (
              <button type="button" onClick={() => setAsked({ ...one, isKept: one.status === 'kept' })}>
                Bind {one.generation} again
              </button>
            )}
          </li>
        ))}
      </ul>
      {asked !== undefined && (
        <Confirm
          title={`Bind ${asked.className} to ${type}?`}
          deed="Bind it"
          onClose={() => setAsked(undefined)}
          run={async () => {
            const { reducerId, className } = asked;
            await client.request('bindReducer', { path: { type }, body: { reducerId, className }, timeoutMs: LONG_MS });
            onBound();
          }}
        >
          <p>
            {asked.isKept
              ? 'Its states are kept: they are there again once they have caught up.'
              : 'The aggregates of the type are folded with it from their first event on.'}{' '}
            The history below keeps the way back.
          </p>
        </Confirm>
      )}
    </section>
  );
}

/** Of the code that compiles, the newest first. */
const bindableOf = (reducers: Awaited<ReturnType<typeof reducersOf>>): readonly Bindable[] =>
  reducers
    .filter(({ status }) => status === 'compiled')
    .flatMap(({ id, discovered = [], createdAt }) =>
      discovered.map(({ className, aggregateType }) => ({ reducerId: id, className, aggregateType, createdAt })),
    )
    .sort((a, b) => b.createdAt.localeCompare(a.createdAt));

function BindAnother({
  type,
  choices,
  onChoose,
}: {
  readonly type: string;
  readonly choices: readonly Bindable[];
  readonly onChoose: (one: Bindable) => void;
}): JSX.Element {
  const [value, setValue] = useState('');
  const valueOf = ({ reducerId, className }: Bindable): string => `${reducerId} ${className}`;
  const chosen = choices.find((one) => valueOf(one) === value);
  if (choices.length === 0) return <p class="faint">No other class that compiles was uploaded.</p>;
  const groups = [
    ['Made for the type', choices.filter(({ aggregateType }) => aggregateType === type)],
    ['Made for other types', choices.filter(({ aggregateType }) => aggregateType !== type)],
  ] as const;
  return (
    <form
      class="filters"
      onSubmit={(event) => {
        event.preventDefault();
        if (chosen !== undefined) onChoose(chosen);
      }}
    >
      <label>
        <span>Another class</span>
        <select
          value={chosen === undefined ? '' : value}
          onChange={({ currentTarget }) => setValue(currentTarget.value)}
        >
          <option value="">choose one</option>
          {groups.map(
            ([label, of]) =>
              of.length > 0 && (
                <optgroup key={label} label={label}>
                  {of.map((one) => (
                    <option key={valueOf(one)} value={valueOf(one)}>
                      {one.className}, of {timeOf(one.createdAt)}
                    </option>
                  ))}
                </optgroup>
              ),
          )}
        </select>
      </label>
      <button type="submit" disabled={chosen === undefined}>
        Bind
      </button>
    </form>
  );
}
