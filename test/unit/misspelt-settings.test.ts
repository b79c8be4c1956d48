import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { describeMisspelt, misspeltSettings } from '../../src/config/misspelt.js';
import { settingsReference } from '../../src/config/settings.js';

const told = (...names: string[]): (string | undefined)[][] =>
  misspeltSettings(Object.fromEntries(names.map((name) => [name, 'x']))).map(({ given, meant }) => [given, meant]);

describe('misspelt settings', () => {
  it('are told with the nearest name', () => {
    const cases: [given: string, meant: string | undefined][] = [
      ['WEBHOOK_ALLOW_PRIVAT', 'WEBHOOK_ALLOW_PRIVATE'],
      ['WEBHOOKS_ALLOW_PRIVATE', 'WEBHOOK_ALLOW_PRIVATE'],
      ['STATEFOLD_API_KY', 'STATEFOLD_API_KEY'],
      ['STATEFOLD_APIKEY', 'STATEFOLD_API_KEY'],
      ['STATEFOLD_DATADIR', 'STATEFOLD_DATA_DIR'],
      ['STATEFOLD_DATA_DIRECTORY', 'STATEFOLD_DATA_DIR'],
      ['STATEFOLD_URI', 'STATEFOLD_URL'],
      ['STATEFOLD_PORT', undefined],
      ['STATEFOLD_THEME', undefined],
      ['KAFKA_BROKER', 'KAFKA_BROKERS'],
      ['KAFKA_SASL_USER', 'KAFKA_SASL_USERNAME'],
      ['CLICKHOUSE_PASSWROD', 'CLICKHOUSE_PASSWORD'],
      ['RATE_LIMIT_PER_SEC', 'RATE_LIMIT_PER_SECOND'],
      ['LOG_LEVLE', 'LOG_LEVEL'],
      ['CLICKHOUSE_PASS', 'CLICKHOUSE_PASSWORD'],
      ['STATEFOLD_API_KEY_FILE', 'STATEFOLD_API_KEY'],
      ['FOLD_DEADLINE_MSS', 'FOLD_DEADLINE_MS'],
      ['FOLD_DEADLIN_MS', 'FOLD_DEADLINE_MS'],
      ['LOG_LEVE', 'LOG_LEVEL'],
      ['STANDBY', 'STANDBYS'],
      ['kafka_brokers', 'KAFKA_BROKERS'],
    ];
    for (const [given, meant] of cases) assert.deepEqual(told(given), [[given, meant]]);
  });

  it('are sentences that do not show the value', () => {
    const [one, other, ...rest] = misspeltSettings({
      STATEFOLD_API_KY: 'a-secret-of-mine',
      STATEFOLD_THEME: 'dark',
    }).map(describeMisspelt);
    assert.deepEqual(rest, []);
    assert.equal(one, 'STATEFOLD_API_KY is set and is no setting of Statefold: did you mean STATEFOLD_API_KEY?');
    assert.equal(other, 'STATEFOLD_THEME is set and is no setting of Statefold: see docs/reference/settings.md.');
  });

  it('are not seen in what is set everywhere', () => {
    const shell =
      'PATH HOME HOST HOSTNAME HOSTTYPE PORT PORTAL PORTS USER LOGNAME SHELL TERM LANG LC_ALL PWD OLDPWD SHLVL EDITOR PAGER DISPLAY XDG_RUNTIME_DIR XDG_DATA_DIRS SSH_AUTH_SOCK TMPDIR TZ http_proxy HTTPS_PROXY NO_PROXY ROLE ROLES_PATH SLOT LOGLEVELS MAIL'.split(
        ' ',
      );
    const node =
      'NODE NODE_ENV NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_VERSION npm_config_loglevel npm_config_user_agent npm_package_name npm_lifecycle_event npm_node_execpath npm_execpath INIT_CWD NVM_DIR COLOR FORCE_COLOR'.split(
        ' ',
      );
    const dotnet =
      'DOTNET_ROOT DOTNET_VERSION DOTNET_CLI_TELEMETRY_OPTOUT ASPNETCORE_URLS ASPNETCORE_HTTP_PORTS NUGET_PACKAGES COMPILER'.split(
        ' ',
      );
    const ci =
      'CI GITHUB_ACTIONS GITHUB_REF GITHUB_SHA GITHUB_TOKEN GITHUB_WORKSPACE GITHUB_RUN_ID RUNNER_OS RUNNER_ARCH RUNNER_NAME RUNNER_TEMP RUNNER_TOOL_CACHE RUNNER_DEBUG RUNNER_ENVIRONMENT RUNNER_WORKSPACE RUNNER_TRACKING_ID RUNNER_USER RUNNER_PERFLOG RUNNER_ALLOW_RUNASROOT GITLAB_CI CI_RUNNER_ID CI_RUNNER_TAGS CI_JOB_ID CI_COMMIT_SHA BUILD_NUMBER JENKINS_URL'.split(
        ' ',
      );
    const others =
      'KAFKA_HOME KAFKA_HEAP_OPTS KAFKA_OPTS KAFKA_LOG4J_OPTS KAFKA_JVM_PERFORMANCE_OPTS KAFKA_VERSION KAFKA_PORT KAFKA_NODE_ID KAFKA_LISTENERS KAFKA_PROCESS_ROLES KAFKA_CLUSTER_ID KAFKA_LOG_DIRS KAFKA_LOG_DIR KAFKA_ADVERTISED_LISTENERS KAFKA_TOPIC KAFKA_GROUP_ID CLICKHOUSE_DB CLICKHOUSE_HOST CLICKHOUSE_PORT CLICKHOUSE_CONFIG CLICKHOUSE_PASSWORD_FILE CLICKHOUSE_USERS_CONFIG KAFKA_SSL_KEYSTORE_LOCATION KAFKA_SSL_KEYSTORE REQUEST_TIMEOUT WEBHOOK_SECRET WEBHOOK_URL METRICS_PATH LOG_FORMAT LOG_DIR LOG_FILE MAX_MEMORY DATA_DIR API_KEY SCHEMA_REGISTRY_HOST_NAME SCHEMA_REGISTRY_LISTENERS SNAPSHOT_DIR JAVA_HOME'.split(
        ' ',
      );
    const tests = 'STATEFOLD_TEST_LOG STATEFOLD_TEST_KAFKA STATEFOLD_TEST_DOTNET SIM_SEED FAULT_SEED'.split(' ');
    assert.deepEqual(told(...shell, ...node, ...dotnet, ...ci, ...others, ...tests), []);
  });

  it('are not seen in what Kubernetes and Docker set for services of these names', () => {
    const names = [
      'STATEFOLD',
      'KAFKA',
      'KAFKA_BROKER',
      'CLICKHOUSE',
      'SCHEMA_REGISTRY',
      'METRICS',
      'WEBHOOK',
      'KUBERNETES',
    ];
    const env = names.flatMap((name) => [
      [`${name}_SERVICE_HOST`, '10.0.0.1'],
      [`${name}_SERVICE_PORT`, '8080'],
      [`${name}_SERVICE_PORT_HTTP`, '8080'],
      [`${name}_PORT`, 'tcp://10.0.0.1:8080'],
      [`${name}_PORT_8080_TCP`, 'tcp://10.0.0.1:8080'],
      ...['PROTO', 'PORT', 'ADDR'].map((part) => [`${name}_PORT_8080_TCP_${part}`, 'tcp']),
    ]);
    assert.deepEqual(misspeltSettings(Object.fromEntries(env) as Record<string, string>), []);
  });

  it('are not seen in the settings themselves', () =>
    assert.deepEqual(told('STATEFOLD_URL', ...settingsReference().map(({ env }) => env)), []));
});
