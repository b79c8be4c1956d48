import assert from 'node:assert/strict';
import { PackedSources } from '../../src/code-host/packed-sources.js';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { codeHostContract } from '../contracts/code-host.contract.js';
import { type Fixture, openHost, projectRoot } from './code-host-fixture.js';

codeHostContract('dotnet', openHost);

describe('the samples', () => {
  let fixture: Fixture | undefined;
  after(() => fixture?.close());
  for (const [sample, kind, files, expected] of [
    ['flights', 'reducer', ['RouteReducer.cs', 'Flight.cs'], ['Flights.RouteReducer']],
    ['flights', 'projection', ['AirportDelays.cs', 'Flight.cs'], ['Flights.AirportDelays']],
    ['bank', 'reducer', ['AccountReducer.cs', 'Events.cs'], ['Bank.AccountReducer']],
    ['bank', 'projection', ['Transfers.cs', 'Events.cs'], ['Bank.Transfers']],
    // The whole folder is an upload of either kind too.
    ['flights', 'reducer', undefined, ['Flights.RouteReducer']],
    ['bank', 'projection', undefined, ['Bank.Transfers']],
  ] as const) {
    it(`${sample} compiles as a ${kind}${files === undefined ? ', all of it' : ''}, without a warning`, async () => {
      const folder = join(projectRoot, 'samples', sample);
      fixture ??= openHost();
      const paths = files ?? readdirSync(folder).filter((path) => path.endsWith('.cs'));
      const result = await fixture.host.compile({
        kind,
        sources: await PackedSources.pack(
          paths.map((path) => ({ path, text: readFileSync(join(folder, path), 'utf8') })),
        ),
      });
      assert.ok(result.ok, result.ok ? '' : result.compilationError);
      assert.deepEqual(result.diagnostics, []);
      assert.deepEqual(
        result.discovered.map((found) => found.className),
        expected,
      );
    });
  }
});
