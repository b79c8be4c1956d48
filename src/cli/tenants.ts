import type { Command } from 'commander';
import { QUOTA_NAMES, type QuotaName } from '../core/quotas.js';
import { confirmByTyping } from './ask.js';
import { requireConfirmed, text, type CommandContext } from './context.js';
import { CliError, notConfirmed, table } from './io.js';
import type { Fields } from './server.js';

const TENANT_ID = /^[a-z0-9][a-z0-9-]{0,63}$/;

/** The tenant that the service makes at its first start: the one of most scripts. */
const DEFAULT_TENANT = 'default';

interface UsageAnswer {
  readonly usage: Readonly<Record<QuotaName, number>>;
  readonly quotas: Readonly<Record<QuotaName, number | null>>;
}

/** `projections=5`, or `projections=default`. */
function quotaOf(given: string): [name: string, value: number | null] {
  const [, name = '', value = ''] = /^(\w+)=(\d{1,16}|default)$/.exec(given) ?? [];
  if (name === '') throw new CliError(`'${given}' is not like projections=5 or projections=default.`);
  return [name, value === 'default' ? null : Number(value)];
}

/** Tenants of the service, for its owner. */
export function addTenantCommands(program: Command, { io, server, show, exported }: CommandContext): void {
  const tenants = program.command('tenants').description('create, list and delete tenants');
  tenants
    .command('create')
    .description('make a tenant and its first API key, which is shown only now')
    .argument('[name]', 'its name; also its id, where it can be one')
    .option('--name <name>', 'the same')
    .option('--id <id>', 'its id: 1 to 64 of a-z, 0-9 and -')
    .option('--partitions <n>', 'of how many partitions its events are, for good; 1 unless given')
    .action(
      async (
        argument: string | undefined,
        options: { readonly name?: string; readonly id?: string; readonly partitions?: string },
      ) => {
        const name = argument ?? options.name;
        const id = options.id ?? (name !== undefined && TENANT_ID.test(name) ? name : undefined);
        if (name === undefined && id === undefined)
          throw new CliError('Give the tenant a name, or an id with --id, or both.');
        const partitions = options.partitions === undefined ? undefined : Number(options.partitions);
        if (Number.isNaN(partitions)) throw new CliError(`--partitions is a number, not '${options.partitions}'.`);
        const answer = (await server().admin('POST', '/admin/tenants', { name, tenantId: id, partitions })) as Fields;
        show(
          answer,
          () =>
            `tenantId  ${text(answer['tenantId'])}\napiKey    ${text(answer['apiKey'])}\n\n${exported(text(answer['apiKey']))}`,
        );
      },
    );
  tenants
    .command('list')
    .description('list all tenants')
    .action(async () => {
      const list = await server().list('/admin/tenants', 'tenants');
      show(list, () =>
        table(
          ['TENANT', 'NAME', 'CREATED'],
          list.map((tenant) => ['tenantId', 'name', 'createdAt'].map((field) => text(tenant[field]))),
          'There are no tenants.',
        ),
      );
    });
  tenants
    .command('delete')
    .description('delete a tenant with its keys, events, states and code, for good')
    .argument('<tenantId>')
    .option('--yes', 'do not ask')
    .option(
      '--confirm <tenantId>',
      `its id once more, in place of typing it; the tenant ${DEFAULT_TENANT} needs it beside --yes`,
    )
    .action(async (tenantId: string, { yes, confirm: typed }: { readonly yes?: true; readonly confirm?: string }) => {
      const path = `/admin/tenants/${encodeURIComponent(tenantId)}`;
      // A name that is none is told before anything is asked.
      const { name } = (await server().admin('GET', path)) as Fields;
      const what = `This deletes the tenant ${tenantId}${name === tenantId ? '' : ` (${text(name)})`} with its keys, events, states and code, for good.`;
      if (typed !== undefined && typed !== tenantId)
        throw new CliError(`--confirm names ${typed}, and the tenant to delete is ${tenantId}: nothing was deleted.`);
      if (yes === true && tenantId === DEFAULT_TENANT && typed === undefined)
        throw new CliError(`${what} For this one --yes is not enough: add --confirm ${tenantId}.`);
      if (yes !== true && typed === undefined && !(await confirmByTyping(what, tenantId, io))) throw notConfirmed();
      await server().admin('DELETE', path);
      show({ tenantId, deleted: true }, () => `Tenant ${tenantId} is deleted.\n`);
    });

  const change = (tenantId: string, body: object): Promise<unknown> =>
    server().admin('PATCH', `/admin/tenants/${encodeURIComponent(tenantId)}`, body);
  tenants
    .command('suspend')
    .description('answer nothing of a tenant, end its streams, and fold and send nothing of it, until it is resumed')
    .argument('<tenantId>')
    .option('--yes', 'do not ask')
    .action(async (tenantId: string, { yes }: { readonly yes?: true }) => {
      await requireConfirmed(
        io,
        yes,
        `This suspends the tenant ${tenantId}: its clients are answered 403, its streams end.`,
      );
      show(await change(tenantId, { suspended: true }), () => `Tenant ${tenantId} is suspended.\n`);
    });
  tenants
    .command('resume')
    .description('take a suspension back: all goes on where it was')
    .argument('<tenantId>')
    .action(async (tenantId: string) =>
      show(await change(tenantId, { suspended: false }), () => `Tenant ${tenantId} is served again.\n`),
    );
  tenants
    .command('quotas')
    .description('show what a tenant has and may have, or set what it may have')
    .argument('<tenantId>')
    .argument('[quotas...]', `name=number, or name=default: ${QUOTA_NAMES.join(', ')}`)
    .action(async (tenantId: string, given: readonly string[]) => {
      if (given.length > 0) await change(tenantId, { quotas: Object.fromEntries(given.map(quotaOf)) });
      const path = `/admin/tenants/${encodeURIComponent(tenantId)}/usage`;
      const answer = (await server().admin('GET', path)) as UsageAnswer;
      show(answer, () =>
        table(
          ['QUOTA', 'USED', 'MAY BE'],
          QUOTA_NAMES.map((name) => [name, String(answer.usage[name]), String(answer.quotas[name] ?? 'unlimited')]),
          '',
        ),
      );
    });
}
