import type { Operations, StatefoldClient } from '@statefold/client';
import { allPages } from './pages-of';

export type Reducer = Operations['getReducer']['answer'];

/** All reducers of the tenant. @throws ClientError */
export const reducersOf = (client: StatefoldClient, signal: AbortSignal): Promise<readonly Reducer[]> =>
  allPages(async (cursor) => {
    const page = await client.request('listReducers', { query: { limit: 500, cursor }, signal });
    return { items: page.reducers, nextCursor: page.nextCursor };
  });
