import js from '@eslint/js';
import { createTypeScriptImportResolver } from 'eslint-import-resolver-typescript';
import boundaries from 'eslint-plugin-boundaries';
import { importX } from 'eslint-plugin-import-x';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

/**
 * Who may import whom in src/: what is not listed is refused. A port is the folder of its port file (`log/log.ts` and what
 * lies beside it); the adapters below it are for the composition root alone: `app/` and `main.ts`.
 */
const PORTS = ['log', 'read-store', 'code-host', 'placement'];
const ADAPTERS = [
  'log/embedded',
  'log/kafka',
  'log/confluent',
  'placement/kafka',
  'read-store/embedded',
  'read-store/clickhouse',
  'code-host/dotnet',
];
const IMPORTS = {
  core: [],
  config: ['core'],
  // Connections, requests and groups; the log and the placement stand on it.
  kafka: ['core'],
  log: ['core'],
  'log/embedded': ['core', 'log'],
  'log/kafka': ['core', 'log', 'kafka'],
  'log/confluent': ['core', 'log'],
  audit: ['core', 'log'],
  placement: ['core'],
  'placement/kafka': ['core', 'placement', 'kafka'],
  store: ['core'],
  'read-store': ['core', 'feed'],
  'read-store/embedded': ['core', 'read-store', 'jail'],
  'read-store/clickhouse': ['core', 'read-store'],
  // Of processes that run what tenants wrote: their code, their SQL.
  jail: ['core'],
  'code-host': ['core'],
  'code-host/dotnet': ['core', 'code-host', 'jail'],
  feed: ['core', 'log'],
  jobs: ['core'],
  // Neither knows the other, nor who puts them together: what both need of a tenant's records is in `feed` and `core`.
  aggregates: ['core', 'log', 'store', 'feed', 'jobs', 'code-host'],
  projections: ['core', 'log', 'store', 'feed', 'jobs', 'code-host'],
  // It serves the sink and the snapshots, and so implements what these ask for.
  tenancy: ['core', 'aggregates', 'projections', 'snapshots', 'store', 'feed', ...PORTS],
  snapshots: ['core', 'log', 'store'],
  // Of the code host's port only types: what a compilation found is part of an artefact's record.
  catalog: ['core', 'log', 'code-host'],
  deployments: ['core', 'jobs', 'catalog', 'code-host', 'aggregates', 'projections', 'tenancy', 'webhooks'],
  // Given, when, then: run beside a project on somebody's machine, and by the service.
  fixtures: ['core', 'code-host'],
  inspection: [
    'core',
    'fixtures',
    'catalog',
    'code-host',
    'deployments',
    'read-store',
    'store',
    'feed',
    'aggregates',
    'projections',
    'tenancy',
  ],
  webhooks: ['core', 'log', 'catalog', 'feed', 'audit'],
  // Users of the server of the read store, as the catalog has them.
  'sql-accounts': ['core', 'catalog', 'read-store'],
  // What appends are held to, and what it says of those that are stored.
  'event-schemas': ['core', 'catalog', 'aggregates', 'inspection', 'tenancy'],
  http: [
    'core',
    'audit',
    'event-schemas',
    'config',
    'catalog',
    'deployments',
    'fixtures',
    'inspection',
    'feed',
    'aggregates',
    'projections',
    'tenancy',
    'telemetry',
    'webhooks',
    'sql-accounts',
    ...PORTS,
  ],
  telemetry: ['core', ...PORTS],
  // Of the ports only types: what it is given to compile and run code, and to look after topics.
  // Assistants do what clients do.
  mcp: ['core', 'client package'],
  cli: ['core', 'config', 'code-host', 'fixtures', 'log', 'mcp', 'client package'],
  'client package': [],
  app: [],
};

/** Packages that only the named folders may import. */
const CONFINED = {
  kafkajs: ['kafka'],
  '@kafkajs/confluent-schema-registry': ['log/confluent'],
  lmdb: ['log/embedded', 'store', 'snapshots'],
  chdb: ['read-store/embedded'],
  '@clickhouse/client': ['read-store/clickhouse'],
  express: ['http'],
  cors: ['http'],
  ws: ['http'],
  pino: ['telemetry'],
  'prom-client': ['telemetry'],
  '@opentelemetry/*': ['telemetry'],
  commander: ['cli'],
  archiver: ['cli'],
  'cli-progress': ['cli'],
  rfc6902: ['inspection'],
  re2js: ['event-schemas'],
  'lru-cache': ['event-schemas', 'webhooks'],
};

const element = (type) => ({ element: { type } });
const folders = Object.keys(IMPORTS);

const dependencies = (policies) => [
  'error',
  {
    default: 'disallow',
    checkAllOrigins: true,
    checkInternals: true,
    policies: [
      { from: element('**'), allow: { to: { module: { origin: 'core' } } } },
      { from: element('!core'), allow: { to: { module: { origin: 'external' } } } },
      ...policies,
    ],
  },
];

/** Each import is held to each policy of its file, so a folder has its own alone: all for all took two thirds of what lint takes. */
const dependenciesOf = (folder) =>
  dependencies([
    {
      from: element(folder),
      allow: {
        to: {
          element: {
            types: { anyOf: ['main', 'app'].includes(folder) ? [...folders, 'main'] : [folder, ...IMPORTS[folder]] },
          },
        },
      },
    },
    {
      from: element(folder),
      disallow: {
        to: {
          module: {
            origin: 'external',
            source: Object.keys(CONFINED).filter((source) => !CONFINED[source].includes(folder)),
          },
        },
      },
    },
  ]);

/** Of a folder, in which others may lie that have their own. */
const filesOf = (folder) =>
  folder === 'main'
    ? 'src/*.ts'
    : folder === 'client package'
      ? 'packages/client/src/**/*.ts'
      : `src/${folder}/**/*.ts`;

export default defineConfig(
  { ignores: ['**/dist/', '.build/', 'data/', 'dotnet/', 'node_modules/', 'samples/'] },
  js.configs.recommended,
  {
    files: ['**/*.js', '**/*.mjs'],
    languageOptions: {
      globals: Object.fromEntries(Object.getOwnPropertyNames(globalThis).map((name) => [name, 'readonly'])),
    },
  },
  {
    files: ['**/*.ts'],
    // The rules that need types are in .oxlintrc.json: there a tenth of the time does for them.
    extends: [...tseslint.configs.recommended],
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      eqeqeq: ['error', 'always'],
      'no-restricted-globals': ['error', { name: '__dirname', message: 'Use import.meta.url.' }],
      'prefer-const': 'error',
    },
  },
  {
    files: ['src/**/*.ts', 'packages/*/src/**/*.ts'],
    plugins: { boundaries, 'import-x': importX },
    settings: {
      'import-x/resolver-next': [createTypeScriptImportResolver({ project: 'tsconfig.json' })],
      'import/resolver': { typescript: { project: 'tsconfig.json' } },
      'boundaries/legacy-warnings': false,
      'boundaries/include': ['src/**/*.ts', 'packages/*/src/**/*.ts'],
      'boundaries/elements': [
        { type: 'main', pattern: 'src/*.ts', mode: 'full' },
        ...ADAPTERS.map((folder) => ({ type: folder, pattern: `src/${folder}/**`, mode: 'full' })),
        { type: 'client package', pattern: 'packages/client/src/**', mode: 'full' },
        ...folders
          .filter((folder) => !ADAPTERS.includes(folder) && folder !== 'client package')
          .map((folder) => ({ type: folder, pattern: `src/${folder}/**`, mode: 'full' })),
      ],
    },
    rules: {
      'import-x/no-cycle': ['error', { ignoreExternal: true }],
      'boundaries/no-unknown-files': 'error',
      'boundaries/dependencies': dependencies([]),
      'no-restricted-properties': [
        'error',
        { object: 'process', property: 'env', message: 'Settings come from src/config.' },
      ],
      'no-console': 'error',
    },
  },
  // What lies in another comes after it.
  ...['main', ...folders]
    .sort((one, other) => one.split('/').length - other.split('/').length)
    .map((folder) => ({
      files: [filesOf(folder)],
      rules: { 'boundaries/dependencies': dependenciesOf(folder) },
    })),
  {
    files: ['src/config/**/*.ts', 'src/app/**/*.ts', 'src/*.ts', 'packages/client/src/testing/**/*.ts'],
    rules: { 'no-restricted-properties': 'off' },
  },
  {
    files: ['console/src/**/*.{ts,tsx}'],
    extends: [...tseslint.configs.recommended],
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      '@typescript-eslint/no-unused-expressions': ['error', { allowShortCircuit: true }],
      eqeqeq: ['error', 'always'],
      'no-console': 'error',
      'prefer-const': 'error',
      // It can do what any client of the interface can, and no more.
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            { regex: '/(src|packages|test|scripts)/', message: 'The console stands on @statefold/client alone.' },
          ],
        },
      ],
    },
  },
  { files: ['test/**/*.ts'], rules: { '@typescript-eslint/explicit-module-boundary-types': 'off' } },
);
