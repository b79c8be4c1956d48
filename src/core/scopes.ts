/** What a key may be used for; `docs/how-to/manage-tenants.md` says what each of them takes in. A key with none named has all. */
export const SCOPES = ['append', 'read', 'deploy', 'erase', 'sql', 'webhooks', 'audit'] as const;

export type Scope = (typeof SCOPES)[number];

/** What a route asks of a key: a scope, or that it is in force. */
export type RequiredScope = Scope | 'any';

export const isScope = (name: string): name is Scope => (SCOPES as readonly string[]).includes(name);
