import type { EndpointEntity } from '../catalog/catalog.js';

/** What of an item an endpoint may choose by. */
export interface Filtered {
  readonly key: string;
  readonly aggregateType: string;
  /** Of an event of the feed. */
  readonly eventType?: string;
}

type Chosen = ReadonlySet<string> | undefined;
const chosen = (names: readonly string[] | undefined): Chosen => names && new Set(names);

/** Which items an endpoint is told of. */
class EndpointFilter {
  readonly #keys: Chosen;
  readonly #aggregateTypes: Chosen;
  readonly #eventTypes: Chosen;

  constructor({ keys, source }: Pick<EndpointEntity, 'keys' | 'source'>) {
    const { aggregateTypes, eventTypes } = 'feed' in source ? source.feed : {};
    this.#keys = chosen(keys);
    this.#aggregateTypes = chosen(aggregateTypes);
    this.#eventTypes = chosen(eventTypes);
  }

  passes({ key, aggregateType, eventType }: Filtered): boolean {
    return (
      this.#keys?.has(key) !== false &&
      this.#aggregateTypes?.has(aggregateType) !== false &&
      (eventType === undefined || this.#eventTypes?.has(eventType) !== false)
    );
  }
}

const filters = new WeakMap<EndpointEntity, EndpointFilter>();

/** Made once of an entity as it is stored: one that was changed is another. */
export function filterOf(endpoint: EndpointEntity): EndpointFilter {
  let filter = filters.get(endpoint);
  if (filter === undefined) filters.set(endpoint, (filter = new EndpointFilter(endpoint)));
  return filter;
}
