// Two machines over one log: one owns the tenant, the other follows it without running its code, and takes it over.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { NotOwnerError, StatefoldError } from '../../src/core/errors.js';
import type { AppendResult } from '../../src/core/event.js';
import type { Log } from '../../src/log/log.js';
import type { TenantDefinitions } from '../../src/tenancy/task-options.js';
import type { TenantTask } from '../../src/tenancy/tenant-task.js';
import { until } from '../support/service.js';
import { compiled } from '../support/ground.js';
import { LOGS } from '../support/two-logs.js';
import { append, appendAll, bank, changesRef, eventsRef, Machine, statesOf } from '../support/snapshot-world.js';

type Reported = Parameters<Log['reportPositions']>[0];

/** Keeps what is reported through the log, too. */
function watchReports(log: Log): Reported[] {
  const reported: Reported[] = [];
  const report = log.reportPositions.bind(log);
  log.reportPositions = (positions) => {
    reported.push(positions);
    report(positions);
  };
  return reported;
}

async function took(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/** The projections are folded up to the last input, which has a change: what is past it only a promotion can know. */
const followed = (standby: TenantTask, owner: TenantTask): Promise<unknown> =>
  until(
    () =>
      owner.projectionLag === 0 &&
      standby.changes.lastSequence() === owner.changes.lastSequence() &&
      standby.projectionLag === 1,
  );

const SECOND = `public record Tally(long Cents, string Last);
public class TallyProjection : IProjection<Tally>
{
    public string? ResolveKey(Event e) => e.Data.GetProperty("city").GetString() is var city && city == "city 7" ? null : city == "city 8" ? "eight" : city;
    public Tally? Apply(Tally? s, Event e) => e.Data.GetProperty("cents").GetInt64() == 13 ? throw new Exception("still unlucky") : new((s?.Cents ?? 0) + e.Data.GetProperty("cents").GetInt64() * (e.Data.GetProperty("city").GetString() == "city 3" ? 2 : 1), e.AggregateId + "@" + e.Version);
}`;

/** As the tenant's code, with a second revision of the projection that can be released. */
async function redeployable(t: TestContext): Promise<TenantDefinitions & { release(): void }> {
  const base = await bank(t);
  const [assembly] = await compiled(t, ['projection', SECOND]);
  assert.ok(assembly !== undefined);
  const second = { projectionId: 'p', revision: 2, artefactId: 'projection-2', classNames: ['TallyProjection'] };
  let released = false;
  return {
    ...base,
    projections: () => (released ? [second] : base.projections()),
    assembly: (artefactId) =>
      artefactId === second.artefactId ? Promise.resolve(assembly) : base.assembly(artefactId),
    release: () => (released = true),
  };
}

for (const { name, skip, open } of LOGS) {
  test(
    `on ${name}, 8, 11: a standby has what the owner has, answers nothing, and takes over under load without losing or doubling an append`,
    { skip },
    async (t) => {
      const client = await open(t);
      const [here, there] = [client(), client()];
      const reported = watchReports(there);
      const definitions = await bank(t);
      const [first, second, third] = [
        new Machine(t, definitions),
        new Machine(t, definitions),
        new Machine(t, definitions),
      ];
      const stopped: Error[] = [];
      const owner = await first.open(here, 100_000, { onStopped: (error) => stopped.push(error) });
      await appendAll(owner, 0, 1000);
      const standby = await second.open(there, 100_000, { standby: true, onStopped: (error) => stopped.push(error) });
      await appendAll(owner, 1000, 2000);
      await followed(standby, owner);

      const refusals = await Promise.allSettled<unknown>([
        append(standby, 1),
        standby.first.events({
          aggregateId: 'account-1',
          fromVersion: undefined,
          toVersion: undefined,
          limit: 10,
          direction: 'forward',
        }),
        standby.aggregates.list({ aggregateType: undefined, limit: 10, cursor: undefined }),
        standby.aggregates.types(),
        standby.first.state('account', 'account-1'),
        standby.projections.states({ projectionId: 'p', prefix: '', limit: 10, cursor: undefined }),
        standby.projections.statesOf({ projectionId: 'p', key: 'city 1', cursor: undefined }),
        standby.faults.ofProjection('p', { limit: 1, cursor: undefined }),
      ]);
      for (const refusal of refusals)
        assert.ok(refusal.status === 'rejected' && refusal.reason instanceof NotOwnerError && refusal.reason.retryable);
      assert.deepEqual(
        (await standby.changes.of('p').read(1, { items: 100_000, bytes: 64 * 1024 * 1024 })).items.map(
          ({ sequence }) => sequence,
        ),
        (await owner.changes.of('p').read(1, { items: 100_000, bytes: 64 * 1024 * 1024 })).items.map(
          ({ sequence }) => sequence,
        ),
      );

      // Appends under way at the takeover are answered by the one or the other; repeated by their id, each is there once.
      let promoting: Promise<number> | undefined;
      const sent = Array.from({ length: 400 }, async (_, n): Promise<AppendResult> => {
        for (let attempt = 0; ; attempt++) {
          try {
            return await append(attempt === 0 ? owner : standby, 2000 + n, `moved-${n}`);
          } catch (error) {
            assert.ok(error instanceof StatefoldError && error.retryable && attempt < 10, String(error));
            await promoting;
          } finally {
            if (n === 100) promoting ??= took(() => standby.promote());
          }
        }
      });
      const results = await Promise.all(sent);
      t.diagnostic(`the takeover took ${(await promoting)?.toFixed(1)} ms`);
      assert.equal(standby.status, 'RUNNING');
      const eventIds = results.flatMap((result) => result.eventIds);
      assert.equal(new Set(eventIds).size, eventIds.length);
      assert.deepEqual(
        (await Promise.all(Array.from({ length: 400 }, (_, n) => append(standby, 2000 + n, `moved-${n}`)))).map(
          (result) => result.eventIds,
        ),
        results.map((result) => result.eventIds),
      );

      await assert.rejects(
        owner.aggregates.list({ aggregateType: undefined, limit: 10, cursor: undefined }),
        (error: unknown) => error instanceof StatefoldError && error.code === 'UNAVAILABLE',
      );
      await until(() => owner.status === 'CLOSED');
      assert.equal(stopped.length, 1);
      assert.ok(stopped[0] instanceof NotOwnerError, 'not a failure: another process owns the tenant');
      await first.closeTask();

      await until(() => standby.projectionLag === 0);
      await until(() =>
        reported.some((positions) =>
          positions.some(
            ({ of, position }) => of.topic === changesRef.topic && position > standby.changes.lastSequence(),
          ),
        ),
      );
      assert.deepEqual(
        reported.at(-1)?.map(({ of }) => of),
        [eventsRef, changesRef],
      );
      const states = await statesOf(standby);
      await second.closeTask();
      const cold = await third.open(client());
      await until(() => cold.projectionLag === 0);
      assert.deepEqual(await statesOf(cold), states);
    },
  );

  test(
    `on ${name}, 9, 11: a standby follows a redeploy from the records alone: kept, changed, new, gone and faulted keys`,
    { skip },
    async (t) => {
      const client = await open(t);
      const definitions = await redeployable(t);
      const [first, second] = [new Machine(t, definitions), new Machine(t, definitions)];
      const owner = await first.open(client(), 100_000, { onStopped: () => undefined });
      const standby = await second.open(client(), 100_000, { standby: true });
      await appendAll(owner, 0, 600);
      await followed(standby, owner);
      definitions.release();
      for (const target of definitions.projections()) owner.deploy(target);
      await until(() => owner.projections.build('p') === undefined && owner.projectionLag === 0);
      // The next change says that the swap is through.
      await appendAll(owner, 600, 620);
      await followed(standby, owner);
      const states = await statesOf(owner);
      t.diagnostic(`the takeover took ${(await took(() => standby.promote())).toFixed(1)} ms`);
      assert.deepEqual(await statesOf(standby), states);
      const { states: rows } = await standby.projections.states({
        projectionId: 'p',
        prefix: '',
        limit: 1000,
        cursor: undefined,
      });
      const rowOf = (key: string) => rows.find((row) => row.key === key) ?? assert.fail(`no row of ${key}`);
      assert.equal(rowOf('city 7').state, null, 'gone');
      assert.notEqual(rowOf('eight').state, null, 'new');
      assert.equal(rowOf('city 13').fault?.message, 'Exception: still unlucky', 'the fault of the new code');
      assert.ok(
        rows.some((row) => row.fault === undefined && row.state !== null && row.key === 'city 5'),
        'kept',
      );
      await first.closeTask();
    },
  );
}
