import assert from 'node:assert/strict';
import { PackedSources } from '../../src/code-host/packed-sources.js';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import type { CompileRequest, CompileResult } from '../../src/code-host/code-host.js';
import type { DotnetCodeHostOptions } from '../../src/code-host/dotnet/dotnet-code-host.js';
import { compileRequest, COUNTER } from '../contracts/code-host.contract.js';
import { temporaryDirectory, until } from '../support/service.js';
import { openHost } from './code-host-fixture.js';

it('what the compiler answered is kept for other processes; what it gave up is not', async (t) => {
  const compilationsDir = join(temporaryDirectory(t), 'compilations');
  const kept = (): string[] => readdirSync(compilationsDir).filter((name) => /^[0-9a-f]{64}$/.test(name));
  /** By a code host that has ended then: the answers, and how many compilers it started for them. */
  const compile = async (
    requests: readonly CompileRequest[],
    options: Partial<DotnetCodeHostOptions> = {},
  ): Promise<{ results: CompileResult[]; compilers: number; kept: number }> => {
    const fixture = openHost({ compilationsDir, compilers: 1, ...options });
    try {
      const results: CompileResult[] = [];
      for (const request of requests) results.push(await fixture.host.compile(request));
      const answered = results.filter((result) => result.ok || !result.compilationError.includes('SF0006'));
      await until(() => kept().length >= Math.min(2, answered.length));
      return { results, compilers: fixture.processes.length, kept: kept().length };
    } finally {
      await fixture.close();
    }
  };
  const good: CompileRequest = { tenantId: 'one', ...compileRequest('reducer', { 'Counter.cs': COUNTER }) };
  const broken: CompileRequest = { tenantId: 'one', ...compileRequest('reducer', { 'A.cs': 'public sealed class' }) };
  const requests = [good, broken];

  const gaveUp = await compile([good], { compileDeadlineMs: 1 });
  assert.ok(!gaveUp.results[0]?.ok && gaveUp.results[0]?.compilationError.includes('SF0006'));
  assert.equal(gaveUp.kept, 0);

  const first = await compile(requests);
  assert.deepEqual(
    [first.results.map(({ ok }) => ok), first.compilers, first.kept],
    [[true, false], 1, 2],
    JSON.stringify(first.results),
  );

  const again = await compile([
    ...requests,
    { ...good, sources: await PackedSources.pack([{ path: 'Counter.cs', text: COUNTER }]) },
  ]);
  assert.deepEqual(again, { results: [...first.results, first.results[0]], compilers: 0, kept: 2 });

  const unread = { ...good, sources: () => Promise.reject(new Error('the log is away')) };
  const fixture = openHost({ compilationsDir });
  await assert.rejects(fixture.host.compile(unread), /the log is away/);
  assert.deepEqual((await fixture.host.compile(good)).ok, true, 'the next one has its turn');
  await fixture.close();
});
