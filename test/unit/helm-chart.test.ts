// deploy/helm/statefold, which nothing here installs: each template by Go's own engine, the values by the schema that Helm holds them
// to, and what comes of it against the settings, the probes, the image and itself.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { parse as render } from '@evertdespiegeleer/go-template';
import { Ajv } from 'ajv';
import { parse, parseAllDocuments } from 'yaml';
import { readSettings, settingsReference, type Settings } from '../../src/config/settings.js';
import { ROUTES } from '../../src/http/table.js';
import { ROOT } from '../support/service.js';

// Go's runtime keeps the process.
after(() => setImmediate(() => process.exit()));

const CHART = join(ROOT, 'deploy', 'helm', 'statefold');
const text = (...path: string[]): string => readFileSync(join(CHART, ...path), 'utf8');
type Json = Readonly<Record<string, unknown>>;
const defaults = parse(text('values.yaml')) as Json;
const chart = parse(text('Chart.yaml')) as {
  readonly name: string;
  readonly version: string;
  readonly appVersion: string;
};
const valid = new Ajv({ allErrors: true }).compile(JSON.parse(text('values.schema.json')) as object);

interface Labels {
  readonly [name: string]: string;
}
interface Variable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: object;
}
interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}
interface Container {
  readonly image: string;
  readonly env: readonly Variable[];
  readonly envFrom: readonly { readonly secretRef: { readonly name: string } }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  readonly securityContext: Json;
  readonly resources: Json;
  readonly startupProbe: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
}
interface Pod {
  readonly metadata: { readonly labels: Labels };
  readonly spec: {
    readonly terminationGracePeriodSeconds: number;
    readonly securityContext: Json;
    readonly containers: readonly Container[];
    readonly volumes: readonly { readonly name: string }[];
  } & Json;
}
interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Labels; readonly annotations?: Json | null };
  readonly spec: Json & {
    readonly selector?: Labels & { readonly matchLabels?: Labels };
    readonly ports?: readonly { readonly name: string; readonly port: number; readonly targetPort: string }[];
    readonly template?: Pod;
    readonly replicas?: number;
    readonly serviceName?: string;
    readonly volumeClaimTemplates?: readonly { readonly metadata: { readonly name: string } }[];
  };
  readonly stringData?: Labels;
}

/** As Helm lays values of the user's over those of the chart. */
function over(base: Json, given: Json): Json {
  const merged: Record<string, unknown> = { ...base };
  const isMap = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value);
  for (const [name, value] of Object.entries(given)) {
    const had = merged[name];
    if (value === null) delete merged[name];
    else merged[name] = isMap(value) && isMap(had) ? over(had, value) : value;
  }
  return merged;
}

const TEMPLATES = readdirSync(join(CHART, 'templates')).sort();

/**
 * What Helm renders: all else in the templates are functions of Go's own, but `toJson`, whose one argument is a path, and files of the chart. These are put in by variables of the
 * context.
 */
async function rendered(values: Json, name: string): Promise<string> {
  const json: Record<string, string> = {};
  const source = (text('templates', '_names.tpl') + text('templates', name)).replace(
    /\{\{ toJson ((?:\$group|\$?\.Values)[\w.]*) \}\}/g,
    (_, path: string) => {
      if (path.startsWith('$group')) return `{{ index $.Json.groups $name ${JSON.stringify(path.split('.')[1])} }}`;
      const key = path.replace(/^\$/, '');
      json[key] = JSON.stringify(
        key
          .split('.')
          .slice(2)
          .reduce<unknown>((value, part) => (value as Json)[part], values),
      );
      return `{{ index $.Json ${JSON.stringify(key)} }}`;
    },
  );
  const withFiles = source.replace(
    /\{\{ \.Files\.Get "([\w.]+)" \| indent (\d) \}\}/g,
    (_, file: string, by: string) => {
      json[file] = text(file).replace(/^(?=.)/gm, ' '.repeat(Number(by)));
      return `{{ index $.Json ${JSON.stringify(file)} }}`;
    },
  );
  const groups = Object.fromEntries(
    Object.entries(values['processes'] as Record<string, Json>).map(([group, of]) => [
      group,
      Object.fromEntries(Object.entries(of).map(([member, value]) => [member, JSON.stringify(value)])),
    ]),
  );
  return render(withFiles, {
    Values: values,
    Release: { Name: 'shop', Namespace: 'events', Service: 'Helm' },
    Chart: { Name: chart.name, Version: chart.version, AppVersion: chart.appVersion },
    Json: { ...json, groups },
  });
}

async function manifests(given: Json): Promise<Manifest[]> {
  const values = over(defaults, given);
  assert.ok(valid(values), JSON.stringify(valid.errors));
  const found: Manifest[] = [];
  for (const name of TEMPLATES.filter((template) => template.endsWith('.yaml')))
    for (const document of parseAllDocuments(await rendered(values, name), { strict: true, uniqueKeys: true })) {
      assert.deepEqual(document.errors, [], `${name}: ${String(document.errors[0])}`);
      const manifest = document.toJS() as Manifest | null;
      if (manifest !== null) found.push(manifest);
    }
  return found;
}

const SECRETS = { values: { STATEFOLD_ADMIN_KEY: 'a'.repeat(24), STATEFOLD_MASTER_KEY: 'm'.repeat(44) } };
const ON_KAFKA = { KAFKA_BROKERS: 'kafka-0.kafka:9092,kafka-1.kafka:9092', CLICKHOUSE_URL: 'http://clickhouse:8123' };
const group = (roles: readonly string[], replicas: number, settings: Labels = {}): Json => ({
  ...{ roles, replicas, settings, resources: { limits: { memory: '4Gi' } }, storage: '50Gi' },
});
const VARIANTS: Readonly<Record<string, Json>> = {
  'one process with a log of its own': { secrets: SECRETS },
  'three alike on Kafka': { secrets: SECRETS, settings: ON_KAFKA, processes: { all: { replicas: 3 } } },
  'a group a role, with TLS, an existing secret, an ingress and a ServiceMonitor': {
    secrets: { existing: 'from-a-vault' },
    settings: { ...ON_KAFKA, LOG_LEVEL: 'info', MAX_BODY_BYTES: '1000000' },
    processes: {
      all: null,
      gateway: group(['gateway'], 2, { LOG_LEVEL: 'warn' }),
      tasks: group(['tasks'], 3),
      notifier: group(['notifier'], 1),
    },
    clusterTls: { secretName: 'peers' },
    image: { repository: 'registry.example/statefold', tag: '1.2.3', pullSecrets: [{ name: 'pull' }] },
    ingress: { enabled: true, className: 'nginx', host: 'events.example', tlsSecretName: 'events-tls' },
    metrics: {
      port: 9100,
      serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
      prometheusRule: { enabled: true, labels: { release: 'prometheus' } },
    },
    service: { annotations: { 'example/note': 'with "quotes"' } },
    tolerations: [{ key: 'disk', operator: 'Exists' }],
    storageClassName: 'fast',
  },
};

const ofKind = (all: readonly Manifest[], kind: string): Manifest[] => all.filter((one) => one.kind === kind);
const podOf = ({ spec }: Manifest): Pod => spec.template as Pod;
const containerOf = (one: Manifest): Container => podOf(one).spec.containers[0] as Container;
const isSubset = (wanted: Labels, of: Labels): boolean =>
  Object.entries(wanted).every(([name, value]) => of[name] === value);
/** The settings that a process of it starts with, as Kubernetes expands them. */
function settingsOf(one: Manifest, secret: Labels): Settings {
  const env: Record<string, string> = { ...secret };
  for (const { name, value } of containerOf(one).env)
    env[name] = (value ?? `the-${name.toLowerCase().replaceAll('_', '-')}`).replace(/\$\((\w+)\)/g, (_, of: string) => {
      assert.ok(env[of] !== undefined, `${name} means ${of}, which is not set before it`);
      return env[of] ?? '';
    });
  return readSettings(env);
}

describe('the Helm chart', () => {
  it('is of this version, and its values fit its schema', () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    assert.deepEqual([chart.version, chart.appVersion], [version, version]);
    assert.ok(!valid(defaults), 'a release needs keys');
    assert.ok(valid(over(defaults, VARIANTS['one process with a log of its own'] as Json)));
  });

  it('refuses values that could not work', () => {
    const withKeys = { secrets: SECRETS };
    for (const [why, bad] of [
      ['no master key', { secrets: { values: { STATEFOLD_ADMIN_KEY: 'a'.repeat(24) } } }],
      ['two processes on a log that serves one', { ...withKeys, processes: { all: { replicas: 2 } } }],
      ['roles apart without Kafka', { ...withKeys, processes: { all: { roles: ['gateway', 'tasks'] } } }],
      ['TLS among processes that are one', { ...withKeys, clusterTls: { secretName: 'x' } }],
      ['a role that is none', { ...withKeys, settings: ON_KAFKA, processes: { all: { roles: ['worker'] } } }],
      ['a number, which Helm would write as 1e+06', { ...withKeys, settings: { MAX_BODY_BYTES: 1_000_000 } }],
      ['a setting that the chart sets', { ...withKeys, settings: { PORT: '80' } }],
      ['a misspelt member', { ...withKeys, replicaCount: 2 }],
      ['an ingress for no host', { ...withKeys, ingress: { enabled: true } }],
      ['metrics on the port of clients', { ...withKeys, metrics: { port: 8080 } }],
    ] as const)
      assert.ok(!valid(over(defaults, bad)), why);
  });

  for (const [what, given] of Object.entries(VARIANTS))
    describe(what, () => {
      let all: Manifest[] = [];
      it('renders to manifests with names of their own', async () => {
        all = await manifests(given);
        const names = all.map(({ kind, metadata }) => `${kind}/${metadata.name}`);
        assert.equal(new Set(names).size, names.length);
        for (const { metadata, apiVersion, kind } of all) {
          assert.match(metadata.name, /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/);
          assert.equal(metadata.labels['app.kubernetes.io/instance'], 'shop', kind);
          assert.match(
            apiVersion,
            /^(v1|apps\/v1|policy\/v1|networking\.k8s\.io\/v1|monitoring\.coreos\.com\/v1)$/,
            kind,
          );
        }
        assert.match(await rendered(over(defaults, given), 'NOTES.txt'), /runs as shop in events/);
      });

      it('sets what are settings, once, to values that the service takes', () => {
        const known = new Set(settingsReference().map(({ env }) => env));
        const secret = ofKind(all, 'Secret')[0]?.stringData ?? SECRETS.values;
        for (const name of Object.keys(secret)) assert.ok(known.has(name), `${name} is no setting`);
        for (const one of ofKind(all, 'StatefulSet')) {
          const names = containerOf(one).env.map(({ name }) => name);
          assert.equal(new Set(names).size, names.length, names.join(', '));
          for (const name of names) assert.ok(known.has(name) || name.startsWith('POD_'), `${name} is no setting`);
          const settings = settingsOf(one, secret);
          const wanted = (over(defaults, given)['processes'] as Record<string, { roles: string[] }>)[
            podOf(one).metadata.labels['statefold/group'] ?? ''
          ];
          assert.deepEqual([...settings.roles].sort(), [...(wanted?.roles ?? [])].sort());
          assert.equal(settings.host, '0.0.0.0');
          const { ports, volumeMounts } = containerOf(one);
          const portOf = (name: string): number | undefined => ports.find((port) => port.name === name)?.containerPort;
          assert.deepEqual([portOf('http'), portOf('metrics')], [settings.port, settings.metricsPort]);
          assert.ok(volumeMounts.some(({ mountPath }) => mountPath === settings.dataDirectory));
          const onKafka = settings.kafkaBrokers !== undefined;
          assert.equal(settings.advertisedUrl !== undefined, onKafka);
          if (settings.advertisedUrl !== undefined) {
            const url = new URL(settings.advertisedUrl);
            const tls = settings.clusterTls !== undefined;
            assert.equal(url.protocol, tls ? 'https:' : 'http:');
            assert.equal(Number(url.port), portOf(tls ? 'peers' : 'http'));
            assert.equal(url.hostname, `the-pod-name.${one.spec.serviceName}.the-pod-namespace.svc`);
            if (tls) assert.ok(volumeMounts.some(({ mountPath }) => mountPath === settings.clusterTls));
          }
          // Requests under way end before the process is killed.
          assert.ok(podOf(one).spec.terminationGracePeriodSeconds * 1_000 >= settings.shutdownDeadlineMs + 20_000);
        }
      });

      it('selects its own pods, and finds ports, volumes and secrets by their names', () => {
        const sets = ofKind(all, 'StatefulSet');
        assert.ok(sets.length > 0);
        for (const set of sets) {
          const { metadata, spec } = podOf(set);
          assert.ok(isSubset(set.spec.selector?.matchLabels ?? {}, metadata.labels));
          assert.ok(ofKind(all, 'Service').some((service) => service.metadata.name === set.spec.serviceName));
          const volumes = [...spec.volumes, ...(set.spec.volumeClaimTemplates ?? []).map((one) => one.metadata)];
          assert.deepEqual(
            containerOf(set)
              .volumeMounts.map(({ name }) => name)
              .sort(),
            volumes.map(({ name }) => name).sort(),
          );
          const [from] = containerOf(set).envFrom;
          const made = ofKind(all, 'Secret').map((one) => one.metadata.name);
          assert.ok(
            made.length === 0 ? from?.secretRef.name === 'from-a-vault' : made.includes(from?.secretRef.name ?? ''),
          );
        }
        for (const service of ofKind(all, 'Service')) {
          const chosen = sets.filter((set) => isSubset(service.spec.selector ?? {}, podOf(set).metadata.labels));
          assert.ok(chosen.length > 0, `${service.metadata.name} finds no pod`);
          for (const set of chosen)
            for (const { targetPort } of service.spec.ports ?? [])
              assert.ok(
                containerOf(set).ports.some(({ name }) => name === targetPort),
                targetPort,
              );
          // Clients are led to none that does not take their requests.
          if (service.spec['clusterIP'] === 'None') assert.equal(chosen.length, sets.length);
          else for (const set of chosen) assert.match(String(envOf(set, 'ROLES')), /gateway/);
        }
        const budgets = ofKind(all, 'PodDisruptionBudget');
        assert.equal(budgets.length, sets.filter(({ spec }) => (spec.replicas ?? 0) > 1).length);
        for (const { spec } of budgets)
          assert.equal(
            sets.filter((set) => isSubset(spec.selector?.matchLabels ?? {}, podOf(set).metadata.labels)).length,
            1,
          );
        const rules = ofKind(all, 'PrometheusRule').map(({ spec }) => spec['groups']);
        assert.deepEqual(rules, given['metrics'] === undefined ? [] : [(parse(text('alerts.yml')) as Json)['groups']]);
        for (const { spec } of ofKind(all, 'ServiceMonitor')) {
          const scraped = ofKind(all, 'Service').filter((service) =>
            isSubset(spec.selector?.matchLabels ?? {}, service.metadata.labels),
          );
          assert.deepEqual(
            scraped.map(({ metadata }) => metadata.name),
            ['shop-peers'],
          );
          for (const { port, path } of spec['endpoints'] as { port: string; path: string }[]) {
            assert.ok(
              scraped[0]?.spec.ports?.some(({ name }) => name === port),
              port,
            );
            assert.ok(ROUTES.some((route) => route.path === path && route.probe));
          }
        }
      });

      it('probes what answers without a key, and gives no more than is needed', () => {
        const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
        const user = Number(/useradd .*--uid (\d+)/.exec(dockerfile)?.[1]);
        for (const set of ofKind(all, 'StatefulSet')) {
          const container = containerOf(set);
          for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'] as const) {
            const { path, port } = container[probe].httpGet;
            assert.ok(
              ROUTES.some((route) => route.path === path && route.probe && route.credentials === 'none'),
              path,
            );
            assert.ok(container.ports.some(({ name }) => name === port));
          }
          assert.equal(container.readinessProbe.httpGet.path, '/health/ready');
          assert.notEqual(container.livenessProbe.httpGet.path, '/health/ready', 'a log that is away kills nobody');
          assert.deepEqual(container.securityContext, {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          });
          const { securityContext } = podOf(set).spec;
          assert.deepEqual([securityContext['runAsUser'], securityContext['runAsNonRoot']], [user, true]);
        }
      });
    });

  it('lays the settings of a group over those of all', async () => {
    const all = await manifests(Object.values(VARIANTS)[2] as Json);
    const levels = Object.fromEntries(
      ofKind(all, 'StatefulSet').map((set) => [set.metadata.name, envOf(set, 'LOG_LEVEL')]),
    );
    assert.deepEqual(levels, { 'shop-gateway': 'warn', 'shop-tasks': 'info', 'shop-notifier': 'info' });
    const [first] = ofKind(all, 'StatefulSet');
    assert.equal(first && containerOf(first).image, 'registry.example/statefold:1.2.3');
    const service = all.find(({ kind, metadata }) => kind === 'Service' && metadata.name === 'shop');
    assert.deepEqual(service?.metadata.annotations, { 'example/note': 'with "quotes"' });
  });
});

const envOf = (set: Manifest, name: string): string | undefined =>
  containerOf(set).env.find((variable) => variable.name === name)?.value;
