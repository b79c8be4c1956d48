import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useDeeds } from '../deed';
import { usePages } from '../pages-of';
import { useSession } from '../session';
import { useShown } from '../shown';
import { isUnanswered } from '../unanswered';
import { Confirm, Dialog, FormButtons, ShownOnce } from '../ui/dialogs';
import { Badge, Failure, Outdated, Time } from '../ui/parts';

type Key = Operations['listKeys']['answer']['keys'][number];

/** Times of the service have years of four digits; a day less, for any zone. */
const LAST_END = '9999-12-30T23:59';
const SCOPES = ['append', 'read', 'deploy', 'erase', 'sql', 'webhooks', 'audit'] as const;

/** Keys of a tenant: made, shown once, and revoked. */
export function Keys({ tenantId }: { readonly tenantId: string }): JSX.Element {
  const { client } = useSession();
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<string>();
  const [revoked, setRevoked] = useState<Key>();
  const list = usePages(
    async (cursor, signal) => {
      const page = await client.request('listKeys', { path: { id: tenantId }, query: { limit: 100, cursor }, signal });
      return { items: page.keys, nextCursor: page.nextCursor };
    },
    [client, tenantId],
  );
  return (
    <section aria-label="Keys">
      <h2>Keys</h2>
      <button type="button" onClick={() => setMaking(true)}>
        New key
      </button>
      <Outdated of={list} />
      <ul class="faults">
        {list.items.map((key) => (
          <li key={key.keyId}>
            <strong>{key.name ?? key.prefix}</strong>{' '}
            <span class="faint">
              {key.scopes.join(', ')} · since <Time at={key.createdAt} />
              {key.expiresAt !== undefined && (
                <>
                  {' '}
                  · until <Time at={key.expiresAt} />
                </>
              )}
            </span>{' '}
            {key.revokedAt !== undefined ? (
              <Badge kind="bad">revoked</Badge>
            ) : key.expiresAt !== undefined && Date.parse(key.expiresAt) <= Date.now() ? (
              <Badge kind="bad">expired</Badge>
            ) : (
              <button type="button" onClick={() => setRevoked(key)}>
                Revoke
              </button>
            )}
          </li>
        ))}
      </ul>
      {isMaking && (
        <Dialog title="New key" onClose={() => setMaking(false)}>
          <NewKey
            tenantId={tenantId}
            onCancel={() => setMaking(false)}
            onMade={(apiKey) => {
              setMaking(false);
              setMade(apiKey);
              list.reload();
            }}
            onUnanswered={list.reload}
          />
        </Dialog>
      )}
      {made !== undefined && (
        <ShownOnce title="The new key" value={made} onClose={() => setMade(undefined)}>
          Whoever has it acts for the tenant.
        </ShownOnce>
      )}
      {revoked !== undefined && (
        <Confirm
          title="Revoke the key?"
          deed="Revoke it"
          onClose={() => setRevoked(undefined)}
          run={async () => {
            await client.request('revokeKey', { path: { id: tenantId, keyId: revoked.keyId } });
            list.reload();
          }}
        >
          <p>Whoever uses it is refused from now on. It can’t be taken back.</p>
        </Confirm>
      )}
    </section>
  );
}

function NewKey({
  tenantId,
  onMade,
  onUnanswered,
  onCancel,
}: {
  readonly tenantId: string;
  readonly onMade: (apiKey: string) => void;
  /** It may be among those that are there. */
  readonly onUnanswered: () => void;
  readonly onCancel: () => void;
}): JSX.Element {
  const { client } = useSession();
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<readonly string[]>(SCOPES);
  const [expires, setExpires] = useState('');
  const { busy, error, run } = useDeeds();
  const isShown = useShown();
  const make = (event: Event): void => {
    event.preventDefault();
    run('New key', async () => {
      const body = {
        scopes: [...scopes],
        ...(name.trim() !== '' && { name: name.trim() }),
        ...(expires !== '' && { expiresAt: endOf(expires) }),
      };
      try {
        const { apiKey } = await client.request('createKey', { path: { id: tenantId }, body });
        onMade(apiKey);
      } catch (failed) {
        if (isUnanswered(failed)) onUnanswered();
        throw failed;
      }
      return isShown()
        ? undefined
        : `A key of the tenant ${tenantId} was made after its page was left, so it was not shown: revoke it there, and make another one.`;
    });
  };
  return (
    <form class="fields" onSubmit={make}>
      <label>
        <span>Name of the key</span>
        <input autoFocus value={name} onInput={({ currentTarget: { value } }) => setName(value)} />
      </label>
      <fieldset>
        <legend>What it may do</legend>
        {SCOPES.map((scope) => (
          <label class="check" key={scope}>
            <input
              type="checkbox"
              checked={scopes.includes(scope)}
              onChange={({ currentTarget: { checked } }) =>
                setScopes(checked ? [...scopes, scope] : scopes.filter((one) => one !== scope))
              }
            />
            {scope}
          </label>
        ))}
      </fieldset>
      <label>
        <span>Expires; empty: never</span>
        <input
          type="datetime-local"
          max={LAST_END}
          value={expires}
          onInput={({ currentTarget: { value } }) => setExpires(value)}
        />
      </label>
      {error !== undefined && (
        <Failure error={error}>
          {isUnanswered(error) && (
            <p>
              The key may have been made all the same: where the list has one that nobody has, revoke it, and make
              another one.
            </p>
          )}
        </Failure>
      )}
      <FormButtons deed="Create" isHeld={scopes.length === 0 || busy !== undefined} onCancel={onCancel} />
    </form>
  );
}

/** Written as the viewer's clock has it. @throws Error where the service has no such time */
function endOf(written: string): string {
  const end = new Date(written);
  if (!(end.getTime() <= new Date(LAST_END).getTime()))
    throw new Error('A key ends in the year 9999 at the latest; leave the end empty for one that never does.');
  return end.toISOString();
}
