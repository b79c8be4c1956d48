import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { findProjectRoot } from '../../src/config/project-root.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { Metrics } from '../../src/telemetry/metrics.js';

/** The samples of an exposition by their whole name, labels included. */
async function scrape(metrics: Metrics): Promise<Map<string, number>> {
  const { text, contentType } = await metrics.expose();
  assert.match(contentType, /^text\/plain; version=0\.0\.4/);
  return new Map(
    text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))] as const),
  );
}

test('what the observers are told shows at the next scrape', async () => {
  const metrics = new Metrics();
  metrics.http.answered('/events', 'POST', 201, 0.001);
  metrics.http.answered('/events', 'POST', 200, 0.3);
  metrics.http.answered('/events', 'POST', 409, 99);
  metrics.tasks.appended(1);
  metrics.tasks.appended(100);
  metrics.tasks.produced('events', 3, 0.0004);
  metrics.tasks.folded(7, 0.002);
  metrics.tasks.projected(5, 4, 0.002);
  metrics.tasks.voided();
  metrics.log.throttled(1.5);
  metrics.deployments.compiled('reducer', false, 0.2);
  metrics.codeHost.onProcessStart({ role: 'runner' });
  metrics.codeHost.onStrike();
  metrics.sink.block('events', 250, 12);
  metrics.sink.storeAvailable(true);
  metrics.webhooks.attempted({ outcome: { kind: 'delivered' }, durationMs: 40 });
  metrics.websockets(3);
  metrics.http.forwarded('answered', 0.002);
  metrics.http.forwardRetried('not_owner');
  metrics.http.tunnels(7);
  let active = 2;
  metrics.watch('active_tenants', () => active);
  let backup: number | undefined;
  metrics.watch('last_backup_timestamp_seconds', () => backup);

  const samples = await scrape(metrics);
  const expected: Record<string, number> = {
    'http_request_duration_seconds_bucket{method="POST",route="/events",status="2xx",le="0.0005"}': 0,
    'http_request_duration_seconds_bucket{method="POST",route="/events",status="2xx",le="0.001"}': 1,
    'http_request_duration_seconds_bucket{method="POST",route="/events",status="2xx",le="0.5"}': 2,
    'http_request_duration_seconds_count{method="POST",route="/events",status="2xx"}': 2,
    'http_request_duration_seconds_bucket{method="POST",route="/events",status="4xx",le="10"}': 0,
    'http_request_duration_seconds_bucket{method="POST",route="/events",status="4xx",le="+Inf"}': 1,
    'http_request_duration_seconds_sum{method="POST",route="/events",status="4xx"}': 99,
    appends_total: 2,
    events_total: 101,
    'log_produce_records_bucket{topic="events",le="2"}': 0,
    'log_produce_records_bucket{topic="events",le="4"}': 1,
    'log_produce_duration_seconds_sum{topic="events"}': 0.0004,
    fold_events_total: 7,
    fold_duration_seconds_count: 1,
    projection_events_total: 5,
    projection_changes_total: 4,
    log_void_records_total: 1,
    log_throttled_seconds_total: 1.5,
    'compile_duration_seconds_count{kind="reducer",outcome="failed"}': 1,
    'code_host_process_starts_total{role="runner"}': 1,
    code_host_strikes_total: 1,
    'read_store_rows_total{table="events"}': 250,
    'read_store_insert_duration_seconds_sum{table="events"}': 0.012,
    read_store_available: 1,
    'webhook_attempt_duration_seconds_count{outcome="delivered"}': 1,
    websocket_connections: 3,
    'http_forward_duration_seconds_bucket{outcome="answered",le="0.0025"}': 1,
    'http_forward_retries_total{reason="not_owner"}': 1,
    websocket_tunnels: 7,
    active_tenants: 2,
  };
  for (const [name, value] of Object.entries(expected)) assert.equal(samples.get(`statefold_${name}`), value, name);
  assert.ok((samples.get('process_resident_memory_bytes') ?? 0) > 0);
  assert.ok(!samples.has('statefold_projection_lag_commits'), 'a figure without a source has no sample');
  assert.ok(!samples.has('statefold_last_backup_timestamp_seconds'), 'nor has one that its source does not know');
  assert.deepEqual(metrics.figures, { active_tenants: 2 });
  assert.equal(samples.get('statefold_read_store_rows_rejected_total{table="events"}'), 0, 'the first one is a growth');

  active = 5;
  backup = 1_800_000_000;
  metrics.tasks.appended(1);
  const later = await scrape(metrics);
  assert.equal(later.get('statefold_active_tenants'), 5);
  assert.equal(later.get('statefold_last_backup_timestamp_seconds'), 1_800_000_000);
  backup = undefined;
  assert.ok(!(await scrape(metrics)).has('statefold_last_backup_timestamp_seconds'), 'it is known no more');
  assert.equal(later.get('statefold_appends_total'), 3);
});

test('docs/reference/metrics.md lists exactly the metrics that there are, with their help', async () => {
  const { text } = await new Metrics().expose();
  const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name, type] as const));
  const actual = [...text.matchAll(/^# HELP (statefold_\S+) (.*)$/gm)].map(
    ([, name = '', help = '']) => `| \`${name}\` | ${types.get(name)} | ${help} |`,
  );
  const page = readFileSync(join(findProjectRoot(), 'docs', 'reference', 'metrics.md'), 'utf8');
  assert.deepEqual(
    page.split('\n').filter((line) => line.startsWith('| `')),
    actual,
  );
});

test('a line of the log is one JSON object, and keys and secrets in it are redacted', () => {
  const lines: string[] = [];
  const logger = createLogger({ level: 'info', destination: { write: (line) => void lines.push(line) } });
  logger.debug({}, 'below the level');
  logger.info(
    {
      requestId: 'r1',
      apiKey: 'sf_clear',
      request: { headers: { 'x-api-key': 'sf_clear', accept: '*/*' } },
      webhook: { secret: 'whsec_clear' },
      password: 'p',
    },
    'asked',
  );
  logger.error({ err: new Error('broken', { cause: new Error('by this') }) }, 'failed');
  assert.equal(lines.length, 2);
  const [asked, failed] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.match(String(asked?.['time']), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual(
    { ...asked, time: '' },
    {
      level: 'info',
      time: '',
      requestId: 'r1',
      apiKey: '[redacted]',
      request: { headers: { 'x-api-key': '[redacted]', accept: '*/*' } },
      webhook: { secret: '[redacted]' },
      password: '[redacted]',
      msg: 'asked',
    },
  );
  assert.match(JSON.stringify(failed?.['err']), /broken.*by this/);
});
