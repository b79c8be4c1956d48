import type { Operations, StatefoldClient } from '@statefold/client';
import { allPages } from './pages-of';

export type AggregateType = Operations['listAggregateTypes']['answer']['aggregateTypes'][number];
/** The reducer that folds a type's aggregates. */
export type Binding = Operations['getBinding']['answer'];

/** All types of the tenant's aggregates, with what each is bound to. @throws ClientError */
export const aggregateTypesOf = (client: StatefoldClient, signal: AbortSignal): Promise<readonly AggregateType[]> =>
  allPages(async (cursor) => {
    const page = await client.request('listAggregateTypes', { query: { limit: 500, cursor }, signal });
    return { items: page.aggregateTypes, nextCursor: page.nextCursor };
  });
