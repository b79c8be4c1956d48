import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useDeeds } from '../deed';
import { LONG_MS } from '../long';
import { usePages } from '../pages-of';
import { useSession } from '../session';
import { useShown } from '../shown';
import { Confirm, Dialog, FormButtons, ShownOnce } from '../ui/dialogs';
import { Empty, Failure, Loading, Outdated, Page, Time } from '../ui/parts';
import { isUnanswered } from '../unanswered';

type Account = Operations['listSqlAccounts']['answer']['accounts'][number];
type NewAccount = Operations['createSqlAccount']['answer'];

/** The accounts with which tools of the tenant connect to the ClickHouse server: made, their passwords shown once, and deleted. */
export function SqlAccountsPage(): JSX.Element {
  const { client } = useSession();
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<NewAccount>();
  const [asked, setAsked] = useState<Account>();
  const list = usePages(
    async (cursor, signal) => {
      const page = await client.request('listSqlAccounts', { query: { limit: 100, cursor }, signal });
      return { items: page.accounts, nextCursor: page.nextCursor };
    },
    [client],
  );
  return (
    <Page
      title="SQL accounts"
      aside={
        <button type="button" class="primary" onClick={() => setMaking(true)}>
          New account
        </button>
      }
    >
      <Outdated of={list} />
      {list.items.length === 0 && list.isLoading && <Loading />}
      {list.items.length === 0 && list.isWhole && (
        <Empty title="There are no accounts for SQL">
          <p>With an account a BI tool connects to the ClickHouse server, and reads the rows of this tenant alone.</p>
        </Empty>
      )}
      <ul class="faults" aria-label="Accounts">
        {list.items.map((account) => (
          <li key={account.accountId}>
            <strong>{account.name ?? account.accountId}</strong>{' '}
            <span class="faint">
              user <code>{account.user}</code> · database <code>{account.database}</code> · at{' '}
              <code>{account.url}</code> · since <Time at={account.createdAt} />
            </span>{' '}
            <button
              type="button"
              aria-label={`Delete ${account.name ?? account.accountId}`}
              onClick={() => setAsked(account)}
            >
              Delete
            </button>
          </li>
        ))}
      </ul>
      {isMaking && (
        <Dialog title="New account" onClose={() => setMaking(false)}>
          <NewAccountForm
            onCancel={() => setMaking(false)}
            onMade={(account) => {
              setMaking(false);
              setMade(account);
              list.reload();
            }}
            onUnanswered={list.reload}
          />
        </Dialog>
      )}
      {made !== undefined && (
        <ShownOnce title="The password of the account" value={made.password} onClose={() => setMade(undefined)}>
          It is of the user <code>{made.user}</code>, database <code>{made.database}</code>, at <code>{made.url}</code>.
          Whoever has it reads all rows of the tenant.
        </ShownOnce>
      )}
      {asked !== undefined && (
        <Confirm
          title="Delete the account?"
          deed="Delete it"
          onClose={() => setAsked(undefined)}
          run={async () => {
            await client.request('deleteSqlAccount', { path: { id: asked.accountId }, timeoutMs: LONG_MS });
            list.reload();
          }}
        >
          <p>
            Tools that connect as <code>{asked.user}</code> are refused from now on. It can’t be taken back.
          </p>
        </Confirm>
      )}
    </Page>
  );
}

function NewAccountForm({
  onMade,
  onUnanswered,
  onCancel,
}: {
  readonly onMade: (account: NewAccount) => void;
  /** It may be among those that are there. */
  readonly onUnanswered: () => void;
  readonly onCancel: () => void;
}): JSX.Element {
  const { client } = useSession();
  const [name, setName] = useState('');
  const { busy, error, run } = useDeeds();
  const isShown = useShown();
  const make = (event: Event): void => {
    event.preventDefault();
    run('New account', async () => {
      const wanted = name.trim();
      try {
        const body = wanted === '' ? {} : { name: wanted };
        onMade(await client.request('createSqlAccount', { body, timeoutMs: LONG_MS }));
      } catch (failed) {
        if (isUnanswered(failed)) onUnanswered();
        throw failed;
      }
      return isShown()
        ? undefined
        : 'An account for SQL was made after its page was left, so its password was not shown: delete it there, and make another one.';
    });
  };
  return (
    <form class="fields" onSubmit={make}>
      <label>
        <span>What it is for</span>
        <input
          autoFocus
          maxLength={256}
          placeholder="Grafana"
          value={name}
          onInput={({ currentTarget: { value } }) => setName(value)}
        />
      </label>
      {error !== undefined && (
        <Failure error={error}>
          {isUnanswered(error) && (
            <p>
              The account may have been made all the same: where the list has one whose password nobody has, delete it,
              and make another one.
            </p>
          )}
        </Failure>
      )}
      <FormButtons deed="Create" isHeld={busy !== undefined} onCancel={onCancel} />
    </form>
  );
}
