import type { TestContext } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { Api, success } from './api.js';
import { Receiver, type Delivery } from './api-channels.js';
import { totals } from './csharp.js';
import { startService, temporaryDirectory, type Service } from './service.js';

/** What tests of webhook endpoints share. */
export interface Endpoint {
  readonly endpointId: string;
  readonly url: string;
  readonly source: object;
  readonly keys?: readonly string[];
  readonly description?: string;
  readonly isolated: boolean;
  readonly headerNames?: readonly string[];
  readonly ratePerSecond?: number;
  readonly state: { readonly status: string; readonly reason?: string; readonly since: string };
  readonly through: number;
  readonly pending: number;
  readonly parked: number;
  readonly secret?: string;
}
export interface Attempt {
  readonly messageId: string;
  readonly sequence?: number;
  readonly position?: number;
  readonly attempt: number;
  readonly at: string;
  readonly status?: number;
  readonly error?: string;
  readonly responseExcerpt?: string;
}
export interface Parked {
  readonly messageId: string;
  readonly sequence: number;
  readonly key: string;
  readonly at: string;
  readonly attempts: number;
  readonly reason: string;
}

export const ENDPOINTS = '/webhooks/endpoints';
export const verify = (delivery: Delivery | undefined, secret = ''): unknown =>
  new Webhook(secret).verify(delivery?.body ?? '', { ...delivery?.headers });
export const idOf = ({ headers }: Delivery): string => headers['webhook-id'] ?? '';

/** A service, its tenant and a receiver, over restarts. */
export class World {
  service!: Service;
  api!: Api;
  receiver!: Receiver;
  projectionId = '';
  #n = 0;

  private constructor(
    readonly t: TestContext,
    readonly dataDirectory: string,
    readonly env: Readonly<Record<string, string>>,
  ) {}

  static async open(t: TestContext, env: Readonly<Record<string, string>> = {}): Promise<World> {
    const world = new World(t, temporaryDirectory(t), env);
    world.receiver = await Receiver.open(t);
    await world.start();
    world.projectionId = await world.api.deployProjection({ 'Totals.cs': totals() });
    return world;
  }

  async start(env: Readonly<Record<string, string>> = {}): Promise<void> {
    this.service = await startService(this.t, { dataDirectory: this.dataDirectory, env: { ...this.env, ...env } });
    this.api = new Api(this.service);
  }

  add(key = 'x', rest: object = {}): ReturnType<Api['append']> {
    return this.api.append(`a-${key}`, 'Added', { key, n: ++this.#n }, rest);
  }

  async create(path: string, fields: object = {}): Promise<Endpoint> {
    const body = { url: this.receiver.url + path, source: { projectionId: this.projectionId }, ...fields };
    return success(await this.api.post(ENDPOINTS, body), 201).json<Endpoint>();
  }

  get({ endpointId }: Endpoint): Promise<Endpoint> {
    return this.api.read<Endpoint>(`${ENDPOINTS}/${endpointId}`);
  }

  async attempts({ endpointId }: Endpoint, query = ''): Promise<readonly Attempt[]> {
    return (await this.api.read<{ attempts: Attempt[] }>(`${ENDPOINTS}/${endpointId}/attempts${query}`)).attempts;
  }

  async parked({ endpointId }: Endpoint): Promise<readonly Parked[]> {
    return (await this.api.read<{ parked: Parked[] }>(`${ENDPOINTS}/${endpointId}/parked`)).parked;
  }

  post({ endpointId }: Endpoint, what: string, body?: object): ReturnType<Api['post']> {
    return this.api.post(`${ENDPOINTS}/${endpointId}/${what}`, body);
  }
}
