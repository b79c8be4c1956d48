import type { Histogram, Registry } from 'prom-client';

/** One series of a distribution: cheap enough for every append. */
export class Series {
  readonly counts: Float64Array;
  sum = 0;
  readonly #bounds: readonly number[];

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    let i = 0;
    while (i < this.#bounds.length && value > (this.#bounds[i] ?? Infinity)) i++;
    this.counts[i] = (this.counts[i] ?? 0) + 1;
    this.sum += value;
  }
}

export interface DistributionOptions<L extends string> {
  readonly name: string;
  readonly help: string;
  /** Upper bounds of the buckets, ascending, without infinity. */
  readonly bounds: readonly number[];
  readonly labels?: readonly L[];
}

/**
 * A Prometheus histogram whose series are objects that the caller keeps: prom-client's own hashes its labels at each observation,
 * which took 0.8 µs where this takes some 30 ns. The registry takes anything with a name and `get`.
 */
export class Distribution<L extends string = never> {
  readonly name: string;
  readonly #options: DistributionOptions<L>;
  readonly #series = new Map<string, { readonly labels: Readonly<Record<string, string>>; readonly series: Series }>();

  constructor(options: DistributionOptions<L>) {
    this.name = options.name;
    this.#options = options;
  }

  /** The series of these label values, in the order of the labels; the same object each time. */
  series(...values: string[]): Series {
    const key = values.join('\0');
    let known = this.#series.get(key);
    if (known === undefined) {
      const labels = Object.fromEntries((this.#options.labels ?? []).map((label, i) => [label, values[i] ?? '']));
      known = { labels, series: new Series(this.#options.bounds) };
      this.#series.set(key, known);
    }
    return known.series;
  }

  /** What the registry asks for: the samples, in the form that prom-client's own histogram gives. */
  get(): Promise<object> {
    const { name, help, bounds } = this.#options;
    const values = [...this.#series.values()].flatMap(({ labels, series }) => {
      let count = 0;
      const buckets = [...series.counts].map((inBucket, i) => ({
        metricName: `${name}_bucket`,
        labels: { ...labels, le: bounds[i] ?? '+Inf' },
        value: (count += inBucket),
      }));
      return [
        ...buckets,
        { metricName: `${name}_sum`, labels, value: series.sum },
        { metricName: `${name}_count`, labels, value: count },
      ];
    });
    return Promise.resolve({ name, help, type: 'histogram', aggregator: 'sum', values });
  }

  /** The registry's declaration wants one of its own classes; what it uses is the name and `get`. */
  register(registry: Registry): this {
    registry.registerMetric(this as unknown as Histogram);
    return this;
  }
}
