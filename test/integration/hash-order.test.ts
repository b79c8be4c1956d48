// .NET draws the hash codes of texts anew in each process. Two runners fold the same events: their states are the same bytes, whatever they hold.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { compiled, event, noState, text } from '../contracts/code-host.contract.js';
import { type Fixture, openHost } from './code-host-fixture.js';

/** A state with a collection of each kind that is ordered by hash codes, behind interfaces and within others too. */
const CODE = `using System.Collections;
using System.Collections.Concurrent;
using System.Collections.Frozen;
using System.Collections.Immutable;
namespace Test;
public sealed record Tag(string Name, int Version);
public sealed class Seen
{
    public ImmutableHashSet<string> Names { get; set; } = [];
    public ImmutableHashSet<Tag> Tags { get; set; } = [];
    public ImmutableDictionary<string, ImmutableHashSet<string>> ByLetter { get; set; } = ImmutableDictionary<string, ImmutableHashSet<string>>.Empty;
    public ConcurrentDictionary<string, long> Counts { get; set; } = [];
    public FrozenSet<Tag> Frozen { get; set; } = FrozenSet<Tag>.Empty;
    public Hashtable Table { get; set; } = [];
    public IImmutableSet<string> Behind { get; set; } = ImmutableHashSet<string>.Empty;
    public List<string> Sorted { get; set; } = [];
    public string Joined { get; set; } = "";
}
public sealed class SeenReducer : IReducer<Seen>
{
    public Seen? Apply(Seen? state, Event e)
    {
        state ??= new Seen();
        var name = e.EventType;
        var letter = name[..1];
        state.Names = state.Names.Add(name);
        state.Tags = state.Tags.Add(new Tag(name, (int)e.Version));
        state.ByLetter = state.ByLetter.SetItem(letter, state.ByLetter.GetValueOrDefault(letter, []).Add(name));
        state.Counts.AddOrUpdate(name, 1, (_, count) => count + 1);
        state.Frozen = state.Tags.ToFrozenSet();
        state.Table[name] = e.Version;
        state.Behind = state.Behind.Add(name);
        state.Sorted = [.. state.Names.Where(one => one.Length > 3).Order(StringComparer.Ordinal)];
        state.Joined = string.Join(",", state.Counts.OrderByDescending(one => one.Value).ThenBy(one => one.Key, StringComparer.Ordinal).Select(one => one.Key));
        return state;
    }
}`;

const names = Array.from({ length: 60 }, (_, i) => `${'abc'[i % 3] ?? ''}-${(i * 7919) % 61}`);
const unit = { artefactId: 'artefact', className: 'Test.SeenReducer' };

describe('states that hold collections ordered by hash codes', () => {
  let fixture: Fixture;
  let assembly: Buffer;
  before(async () => {
    fixture = openHost();
    ({ assembly } = await compiled(fixture.host, 'reducer', CODE));
  });
  after(() => fixture.close());

  /** The state after all events, by a process of its own. */
  const folded = async (tenantId: string, baseVersion = 0, baseState = noState): Promise<string> => {
    const runner = fixture.host.runner(tenantId);
    runner.load('artefact', assembly);
    const events = names.map((name, i) => event('seen-1', i + 1, name)).slice(baseVersion);
    const [outcome] = await runner.fold([
      { unit, aggregateId: 'seen-1', baseVersion, baseState, events, stateAt: [30] },
    ]);
    assert.equal(outcome?.fault, undefined);
    return outcome?.states.map(({ state }) => text(state)).join('\n') ?? '';
  };

  it('are the same bytes in every process', async () => {
    const states = await Promise.all(['one', 'two', 'three'].map((tenantId) => folded(tenantId)));
    assert.equal(new Set(fixture.processes.filter(({ role }) => role === 'runner').map(({ pid }) => pid)).size, 3);
    assert.equal(new Set(states).size, 1, states.join('\n\n'));
    const { names: written } = JSON.parse(states[0]?.split('\n')[1] ?? '') as { readonly names: readonly string[] };
    assert.deepEqual(written, [...new Set(names)].sort());
  });

  it('are the same where a process goes on from what another one stored', async () => {
    const [at30 = '', last = ''] = (await folded('four')).split('\n');
    assert.equal(await folded('five', 30, () => Buffer.from(at30)), last);
  });
});
