import { z } from 'zod';
import type { AccountShown } from '../../sql-accounts/tenant-accounts.js';
import { json } from '../bodies.js';
import { paging } from '../parameters.js';
import { answerList, pastIn } from '../list-answer.js';
import { component, listOf, text, timestamp } from '../schema.js';
import { route } from './dependencies.js';

const accountMembers = {
  accountId: text,
  name: text.optional(),
  createdAt: timestamp,
  user: text.describe('Of the ClickHouse server.'),
  database: text.describe('Where the tables are.'),
  url: text.describe('Of ClickHouse’s HTTP interface, as the service reaches it.'),
};
export const SqlAccount = component('SqlAccount', z.strictObject(accountMembers));
export type SqlAccount = z.infer<typeof SqlAccount>;
export const NewSqlAccount = component(
  'NewSqlAccount',
  z.strictObject({ ...accountMembers, password: text.describe('Shown only now.') }),
);
export type NewSqlAccount = z.infer<typeof NewSqlAccount>;

const Create = z.strictObject({
  name: z
    .string('must be a string')
    .min(1, 'must not be empty')
    .max(256, 'must have at most 256 characters')
    .describe('What it is for.')
    .optional(),
});

const accountJson = ({ account, user, database, url }: AccountShown): SqlAccount => ({
  accountId: account.accountId,
  ...(account.name !== undefined && { name: account.name }),
  createdAt: account.createdAt,
  ...{ user, database, url },
});

const common = { tag: 'SQL', servedBy: 'owner', credentials: 'tenant', scope: 'sql' } as const;
const NONE_HERE = ['READ_STORE_DISABLED', 'SQL_NOT_ISOLATED'] as const;

const createAccount = route({
  ...common,
  method: 'POST',
  path: '/sql/accounts',
  operationId: 'createSqlAccount',
  summary: 'Make an account with which a tool reads the tenant’s rows on the ClickHouse server',
  body: json(Create, { name: 'Grafana' }),
  answers: { 201: NewSqlAccount },
  errors: [...NONE_HERE, 'QUOTA_EXCEEDED'],
  serve: async ({ sqlAccounts }, call) => {
    const { name } = await call.body();
    const made = await sqlAccounts.create(call.tenantId, { name, createdBy: call.keyId });
    call.answer(201, { ...accountJson(made), password: made.password });
  },
});

const listAccounts = route({
  ...common,
  method: 'GET',
  path: '/sql/accounts',
  operationId: 'listSqlAccounts',
  summary: 'List the accounts for SQL',
  query: paging,
  answers: { 200: listOf('accounts', SqlAccount) },
  errors: [...NONE_HERE],
  serve: ({ sqlAccounts }, call) => {
    const entries = sqlAccounts.list(call.tenantId).map((value) => ({ id: value.account.accountId, value }));
    const past = pastIn(entries);
    return answerList(call, call.query(), {
      name: 'accounts',
      past,
      recordOf: accountJson,
    });
  },
});

const deleteAccount = route({
  ...common,
  method: 'DELETE',
  path: '/sql/accounts/{id}',
  operationId: 'deleteSqlAccount',
  summary: 'Delete an account for SQL: who is connected with it reads nothing more',
  answers: { 204: null },
  errors: ['NOT_FOUND', 'SQL_NOT_ISOLATED'],
  serve: async ({ sqlAccounts }, call) => {
    await sqlAccounts.remove(call.tenantId, call.parameter('id'));
    call.done();
  },
});

export const SQL_ACCOUNTS = [createAccount, listAccounts, deleteAccount];
