/**
 * A state that any lost, doubled or reordered effect changes: how many events, a hash chained over their marks, and the last
 * of them. The C# of the tests and the model of the checker are the same few lines twice.
 */
export type Chain = { readonly count: number; readonly hash: number; readonly last: string } | null;

export function chainAfter(chain: Chain, mark: string): Chain {
  let hash = chain?.hash ?? 2166136261;
  for (let i = 0; i < mark.length; i++) hash = Math.imul(hash ^ mark.charCodeAt(i), 16777619) >>> 0;
  return { count: (chain?.count ?? 0) + 1, hash, last: mark };
}

/** Ends a chain: the next event begins a new one. */
export const CLEARED = 'Cleared';

export const sameChain = (a: Chain, b: Chain): boolean =>
  a === b || (a !== null && b !== null && a.count === b.count && a.hash === b.hash && a.last === b.last);

const CHAIN = `
public sealed record Chain(int Count, uint Hash, string Last)
{
    public static Chain After(Chain? chain, Event e)
    {
        var mark = e.Data.GetProperty("id").GetString()!;
        var hash = chain?.Hash ?? 2166136261u;
        foreach (var c in mark) hash = unchecked((hash ^ c) * 16777619u);
        return new((chain?.Count ?? 0) + 1, hash, mark);
    }
}`;

/** A reducer of the aggregate type: the chain of an aggregate's events, gone where it was cleared. */
export const reducerOf = (aggregateType: string): Record<string, string> => ({
  'reducer.cs': `namespace Faults;
[AggregateType("${aggregateType}")]
public sealed class ChainReducer : IReducer<Chain>
{
    public Chain? Apply(Chain? chain, Event e) => e.EventType == "${CLEARED}" ? null : Chain.After(chain, e);
}
${CHAIN}`,
});

/** How a projection of the tests finds the key of an event (undefined: passed over), and whether a `Cleared` ends its chain. */
export interface ProjectionModel {
  readonly keyOf: (event: { readonly lane: string }) => string | undefined;
  readonly clears: boolean;
}

/** By lane, across aggregates; an event of no lane is none of its own. */
export const LANES: ProjectionModel & { readonly source: Record<string, string> } = {
  keyOf: ({ lane }) => (lane === '' ? undefined : lane),
  clears: true,
  source: {
    'lanes.cs': `namespace Faults;
public sealed class Lanes : IProjection<Chain>
{
    public string? ResolveKey(Event e) => e.Data.GetProperty("lane").GetString() is { Length: > 0 } lane ? lane : null;
    public Chain? Apply(Chain? chain, Event e) => e.EventType == "${CLEARED}" ? null : Chain.After(chain, e);
}
${CHAIN}`,
  },
};

/** One key for everything: its hash is the order of all of a tenant's events, its count their number. */
export const JOURNAL: ProjectionModel & { readonly source: Record<string, string> } = {
  keyOf: () => 'all',
  clears: false,
  source: {
    'journal.cs': `namespace Faults;
public sealed class Journal : IProjection<Chain>
{
    public string? ResolveKey(Event e) => "all";
    public Chain? Apply(Chain? chain, Event e) => Chain.After(chain, e);
}
${CHAIN}`,
  },
};
