import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { Link, useLocation } from 'wouter-preact';
import { usePages, useRefreshed } from '../pages-of';
import { useSession } from '../session';
import { Badge, Empty, Loading, Outdated, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { behind, classesOf, count } from '../words';

export type Projection = Operations['getProjection']['answer'];
const EVERY_MS = 3_000;

export function Status({ of }: { readonly of: Projection }): JSX.Element {
  if (of.faulted !== undefined) return <Badge kind="bad">stopped</Badge>;
  if (of.status === 'failed') return <Badge kind="bad">not compiled</Badge>;
  if (of.build?.status === 'running')
    return (
      <Badge kind="busy">
        {of.build.cause}: {count(of.build.processed)} of {count(of.build.total)}
      </Badge>
    );
  if (of.live !== undefined) return <Badge kind="good">live</Badge>;
  return <Badge kind={of.status === 'compiled' ? 'good' : 'busy'}>{of.status}</Badge>;
}

const FaultCount = ({ of }: { readonly of: number }): JSX.Element =>
  of === 0 ? <span class="number">0</span> : <Badge kind="bad">{count(of)}</Badge>;

export function ProjectionsPage(): JSX.Element {
  const { client } = useSession();
  const [, go] = useLocation();
  const list = usePages(
    async (cursor, signal) => {
      const page = await client.request('listProjections', { query: { limit: 100, cursor }, signal });
      return { items: page.projections, nextCursor: page.nextCursor };
    },
    [client],
  );
  useRefreshed(list, EVERY_MS);
  return (
    <Page
      title="Projections"
      aside={
        <button type="button" onClick={list.reload}>
          Reload
        </button>
      }
    >
      <Outdated of={list} />
      {list.items.length > 0 ? (
        <Rows
          count={list.items.length}
          label="Projections"
          columns="minmax(10rem, 2fr) 11rem 10rem 7rem 5rem 5rem 11rem"
          minWidth={850}
          heads={['Projection', 'Status', 'Behind by', 'Events/s', 'Revision', 'Faults', 'Uploaded']}
          onEnd={list.more}
          onSelect={(index) => go(`/projections/${list.items[index]?.id ?? ''}`)}
          row={(index) => {
            const one = list.items[index];
            if (one === undefined) return { key: index, cells: [] };
            return {
              key: one.id,
              cells: [
                <Link href={`/projections/${one.id}`} tabIndex={-1} title={one.id}>
                  {classesOf(one)}
                </Link>,
                <Status of={one} />,
                one.lag === undefined ? (
                  <span class="faint">{one.live && 'nothing'}</span>
                ) : (
                  <span title={`since ${one.lag.since}`}>{behind(one.lag)}</span>
                ),
                <span class="number">{one.eventsPerSecond !== undefined && count(one.eventsPerSecond)}</span>,
                <span class="number">{one.live?.revision ?? one.revision}</span>,
                <FaultCount of={one.faultCount ?? 0} />,
                <Time at={one.createdAt} />,
              ],
            };
          }}
        />
      ) : list.isLoading ? (
        <Loading />
      ) : (
        list.error === undefined && (
          <Empty title="There are no projections">
            <p>A projection keeps states across aggregates, each under a key. Upload its C# code to make one.</p>
          </Empty>
        )
      )}
    </Page>
  );
}
