import assert from 'node:assert/strict';
import { statefold } from './cli.js';
import { ADMIN_KEY, AS_ADMIN, type Answer, type Service } from './service.js';

export const CLOUD_EVENTS = 'application/cloudevents+x-ndjson';

/** The environment of a command that talks to a service as one of its tenants, and as its owner. */
export const commandEnv = (service: Service, key: string): Record<string, string> => ({
  STATEFOLD_URL: service.url,
  STATEFOLD_API_KEY: key,
  STATEFOLD_ADMIN_KEY: ADMIN_KEY,
});

/** All events of a tenant, as lines of CloudEvents. */
export async function exported(service: Service, key: string): Promise<string[]> {
  const answer = await service.get('/feed', { key, headers: { accept: CLOUD_EVENTS } });
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.headers.get('content-type'), CLOUD_EVENTS);
  return answer.text.split('\n').filter((line) => line !== '');
}

export const importLines = (service: Service, tenantId: string, lines: readonly string[]): Promise<Answer> =>
  service.request('POST', `/admin/tenants/${tenantId}/import`, {
    ...AS_ADMIN,
    raw: lines.map((line) => `${line}\n`).join(''),
    headers: { ...AS_ADMIN.headers, 'content-type': CLOUD_EVENTS },
  });

export interface Digest {
  readonly events: number;
  readonly order: string;
  readonly states: string;
}

/** What `statefold digest` says of the tenant. */
export async function digestOf(service: Service, key: string): Promise<Digest> {
  const { code, out, err } = await statefold(commandEnv(service, key), service.dataDirectory, 'digest', '--json');
  assert.equal(code, 0, err);
  return JSON.parse(out) as Digest;
}
