import assert from 'node:assert/strict';
import type { Service } from './service.js';

/** What the topics of the tenant of the tests' key are named after: its id, with its incarnation where it was made again. */
export async function storedName(service: Service): Promise<string> {
  const subjects = (await service.get('/schema-registry/subjects')).json<string[]>();
  const [name, ...others] = subjects.flatMap((subject) => /\.([^.]+)\.events-value$/.exec(subject)?.[1] ?? []);
  assert.ok(name !== undefined && others.length === 0, `the topics of one tenant: ${subjects.join(', ')}`);
  return name;
}
