// Alerts and dashboards ask of a real service what it has: the metric by its name, and the labels that they match or group by.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { backUp } from '../../src/app/backup.js';
import { alertRules, dashboard, selectorsOf } from '../support/monitoring.js';
import { AS_ADMIN, sample, startService, temporaryDirectory, until, type Service } from '../support/service.js';

/** Prometheus gives them itself. */
const OF_PROMETHEUS = ['job', 'instance', 'le'];
/** Without a sample in a calm service of one process: what they count has not happened. */
const NOT_HAPPENED: readonly string[] = [
  'statefold_http_forward_duration_seconds_count',
  'statefold_read_store_rows_rejected_total',
  // Of Kafka.
  'statefold_log_topics_short_of_copies',
];

/** By name of a series, all labels that its samples have. */
function seriesOf(scraped: string): ReadonlyMap<string, ReadonlySet<string>> {
  const series = new Map<string, Set<string>>();
  for (const [, name = '', labels = ''] of scraped.matchAll(/^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$/gm)) {
    const known = series.get(name) ?? new Set();
    for (const [, label = ''] of labels.matchAll(/(\w+)="(?:[^"\\]|\\.)*"/g)) known.add(label);
    series.set(name, known);
  }
  return series;
}

async function used(service: Service, webhook: string): Promise<void> {
  await service.deploy('reducers', sample('bank'));
  await service.deploy('projections', sample('flights'), { config: JSON.stringify({ webhook: { url: webhook } }) });
  const flight = { Date: '2026-01-01', Delay: 12, Distance: 277, Origin: 'LIS', Destination: 'OPO' };
  for (let i = 0; i < 3; i++)
    await service.post('/events', { aggregateId: `flight-${i}`, eventType: 'FlightLanded', data: flight });
  await service.post('/events', { aggregateId: 'account-1', eventType: 'Opened', data: { owner: 'Ada' } });
  await service.get('/nothing');
}

test('what alerts and dashboards ask for is there', async (t) => {
  let delivered = 0;
  const receiver = createServer((request, response) => {
    request.resume().on('end', () => {
      delivered++;
      response.end();
    });
  }).listen(0, '127.0.0.1');
  t.after(() => receiver.close());
  const dataDirectory = temporaryDirectory(t);
  const service = await startService(t, { readStore: true, dataDirectory });
  await backUp(dataDirectory, join(temporaryDirectory(t), 'backup'), 'test');
  await used(service, `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`);
  let scraped = '';
  const expressions = [
    ...alertRules().map(({ alert, expr }) => [alert, expr] as const),
    ...dashboard().panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => [title, expr] as const)),
  ];
  assert.ok(expressions.length > 40);
  const lacking = (): string[] => {
    const series = seriesOf(scraped);
    return expressions.flatMap(([where, expr]) =>
      selectorsOf(expr).flatMap(({ metric, labels }) => {
        if (metric === 'up') return [];
        const has = series.get(metric);
        const typed = scraped.includes(`# TYPE ${metric.replace(/_(bucket|count|sum)$/, '')} `);
        if (has === undefined) return typed && NOT_HAPPENED.includes(metric) ? [] : [`${where}: there is no ${metric}`];
        return labels
          .filter((label) => !OF_PROMETHEUS.includes(label) && !has.has(label))
          .map((label) => `${where}: ${metric} has no label ${label}`);
      }),
    );
  };
  await until(async () => {
    scraped = (await service.get('/metrics', AS_ADMIN)).text;
    return delivered > 0 && lacking().length === 0;
  }, 60_000).catch(() => assert.deepEqual(lacking(), [], `after ${delivered} deliveries`));

  // Past the last bound of a histogram a quantile is that bound.
  for (const { alert, expr } of alertRules()) {
    const [, metric, threshold] = /^histogram_quantile\(.*?(\w+_bucket).*> ([\d.]+)$/.exec(expr) ?? [];
    if (metric === undefined) continue;
    const bounds = [...scraped.matchAll(new RegExp(`^${metric}\\{.*le="([\\d.]+)"`, 'gm'))].map(([, bound]) =>
      Number(bound),
    );
    assert.ok(Math.max(...bounds) > Number(threshold), `${alert} can't fire: ${metric} has no bound past ${threshold}`);
  }
});
