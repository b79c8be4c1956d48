import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import { eventTypesOf } from '../event-types';
import { useLoad } from '../load';
import { useSession } from '../session';
import { Empty, Loading, Outdated, Page, Time } from '../ui/parts';
import { Name } from '../ui/name';
import { Rows } from '../ui/rows';
import { count, plural } from '../words';

const EVERY_MS = 5_000;

/** Types of events with their counts and schemas; the search narrows them, and opens one by its exact name. */
export function EventTypesPage(): JSX.Element {
  const { client } = useSession();
  const [, go] = useLocation();
  const [text, setText] = useState('');
  const types = useLoad((signal) => eventTypesOf(client, signal), [client], EVERY_MS);
  const wanted = text.trim().toLowerCase();
  const all = types.value?.eventTypes ?? [];
  const shown = all.filter(({ eventType }) => eventType.toLowerCase().includes(wanted));
  const otherEvents = types.value?.otherEvents ?? 0;
  const open = (eventType: string): void => go(`/event-types/${encodeURIComponent(eventType)}`);
  return (
    <Page
      title="Event types"
      aside={
        <form
          role="search"
          onSubmit={(event) => {
            event.preventDefault();
            if (text.trim() !== '') open(text.trim());
          }}
        >
          <input
            type="search"
            aria-label="Find a type of events, or open one by its exact name"
            placeholder="Find or open a type  /"
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
        </form>
      }
    >
      <Outdated of={types} />
      {shown.length > 0 ? (
        <Rows
          count={shown.length}
          label="Types of events"
          columns="minmax(12rem, 2fr) minmax(8rem, 2fr) 7rem 7rem 12rem"
          minWidth={680}
          heads={['Event type', 'Of aggregates', 'Events', 'Schema', 'Last']}
          onSelect={(index) => open(shown[index]?.eventType ?? '')}
          row={(index) => {
            const one = shown[index];
            if (one === undefined) return { key: index, cells: [] };
            return {
              key: one.eventType,
              cells: [
                <Link href={`/event-types/${encodeURIComponent(one.eventType)}`} tabIndex={-1}>
                  <Name of={one.eventType} />
                </Link>,
                one.aggregateTypes.join(', '),
                <span class="number">{count(one.events)}</span>,
                one.schemaVersion === undefined ? <span class="faint">none</span> : `version ${one.schemaVersion}`,
                one.lastSeen === undefined ? '–' : <Time at={one.lastSeen} />,
              ],
            };
          }}
        />
      ) : types.value === undefined ? (
        types.error === undefined && <Loading />
      ) : all.length === 0 ? (
        <Empty title="There are no types of events">
          <p>A type is there from its first event on, or once it has a schema. The search opens one by its name.</p>
        </Empty>
      ) : (
        <Empty title="No type has that in its name">
          <p>Enter opens the type of exactly that name, also before its first event.</p>
        </Empty>
      )}
      <p class="faint" role="status">
        {plural(shown.length, 'type')}
        {otherEvents > 0 && `; ${plural(otherEvents, 'event')} of types that are not counted one by one`}
      </p>
    </Page>
  );
}
