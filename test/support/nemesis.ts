import type { TestContext } from 'node:test';
import { seeded } from './load.js';
import type { KafkaNode } from './kafka.js';
import { PRODUCE, type TcpProxy } from './tcp-proxy.js';

/** Something that is broken, and made whole again. */
export interface Fault {
  readonly name: string;
  inflict(): Promise<void>;
  heal(): Promise<void>;
}

/** The process is gone at once; it comes back on its port, with what was on its disk. */
export const killed = (node: KafkaNode): Fault => ({
  name: `kill -9 of broker ${node.id}`,
  inflict: () => node.kill(),
  heal: () => node.start(),
});

/** A controlled shutdown, as of a rolling restart. */
export const restarted = (node: KafkaNode): Fault => ({
  name: `restart of broker ${node.id}`,
  inflict: () => node.stop(),
  heal: () => node.start(),
});

/** It runs, and does nothing: no connection is closed. */
export const paused = (node: KafkaNode): Fault => ({
  name: `pause of broker ${node.id}`,
  inflict: () => node.kill('SIGSTOP'),
  heal: async () => {
    await node.kill('SIGCONT');
    await node.serves();
  },
});

/** The link to a broker, broken by what it is given for a while. */
const link = (name: string, proxy: TcpProxy, broken: () => void | Promise<void>): Fault => ({
  name: `${name} of port ${proxy.port}`,
  inflict: async () => broken(),
  heal: () => proxy.heal(),
});

/** Produces land, and nobody hears of it. */
export const lostReplies = (proxy: TcpProxy): Fault =>
  link('lost produce replies', proxy, () => proxy.judge(({ apiKey }) => (apiKey === PRODUCE ? 'lose reply' : 'pass')));

/** Produces never reach the broker. */
export const lostProduces = (proxy: TcpProxy): Fault =>
  link('lost produces', proxy, () => proxy.judge(({ apiKey }) => (apiKey === PRODUCE ? 'lose request' : 'pass')));

/** Of produces some are lost on the way there, some on the way back. */
export const lossy = (proxy: TcpProxy, random: () => number): Fault =>
  link('losses', proxy, () =>
    proxy.judge(({ apiKey }) => {
      const dice = random();
      return apiKey !== PRODUCE || dice > 0.3 ? 'pass' : dice > 0.15 ? 'lose reply' : 'lose request';
    }),
  );

/** Both ends believe that they are connected; nothing passes, new connections neither. */
export const halfOpen = (proxy: TcpProxy): Fault =>
  link('half-open link', proxy, () => proxy.set({ up: 'stall', down: 'stall' }));

/** Requests on the connections that are there are held, new ones pass: what is held lands late, behind what was written since. */
export const heldRequests = (proxy: TcpProxy): Fault =>
  link('held requests', proxy, () => proxy.stallPresent('requests'));

export const slow = (proxy: TcpProxy, bytesPerMs: number): Fault =>
  link(`slow link (${bytesPerMs} bytes a ms)`, proxy, () => proxy.set({ up: { bytesPerMs }, down: { bytesPerMs } }));

/** Connections are reset, and refused until it is healed. */
export const cut = (proxy: TcpProxy): Fault =>
  link('cut', proxy, async () => {
    await proxy.refuse();
    proxy.reset();
  });

export interface NemesisOptions {
  readonly seed: number;
  readonly faults: readonly Fault[];
  /** While it is broken: resolves when the fault has been felt, or appends have gone on in spite of it; by the fault. */
  readonly during: (fault: Fault) => Promise<void>;
  /** After it was healed: resolves when appends go on. */
  readonly after: (fault: Fault) => Promise<void>;
}

/** Inflicts faults one after the other, chosen by a seed; what it does is told with the seed, so that it can be done again. */
export class Nemesis {
  readonly #t: Pick<TestContext, 'diagnostic'>;
  readonly #options: NemesisOptions;
  readonly #random: () => number;

  constructor(t: Pick<TestContext, 'diagnostic'>, options: NemesisOptions) {
    this.#t = t;
    this.#options = options;
    this.#random = seeded(options.seed);
  }

  /** Each fault once at least when there are as many rounds; in an order of the seed's. */
  async run(rounds = this.#options.faults.length): Promise<void> {
    const { seed, during, after } = this.#options;
    for (let round = 0, bag: Fault[] = []; round < rounds; round++) {
      if (bag.length === 0) bag = [...this.#options.faults];
      const [fault] = bag.splice(Math.floor(this.#random() * bag.length), 1);
      if (fault === undefined) throw new Error('there are no faults');
      const started = performance.now();
      const at = (): string => `${((performance.now() - started) / 1000).toFixed(1)} s`;
      const where = `seed ${seed}, round ${round + 1}: ${fault.name}`;
      try {
        await fault.inflict();
        await during(fault);
        const broken = at();
        await fault.heal();
        await after(fault);
        this.#t.diagnostic(`${where}: broken for ${broken}, appends went on after ${at()}`);
      } catch (error) {
        throw new Error(`${where}, after ${at()}: ${(error as Error).message}`, { cause: error });
      }
    }
  }
}
