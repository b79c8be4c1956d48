import { isRefused, type Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { useDeeds } from '../deed';
import { useLoad } from '../load';
import { LONG_MS } from '../long';
import { useSession } from '../session';
import { useShown } from '../shown';
import { Detail } from '../ui/detail';
import { Confirm, Dialog, FormButtons } from '../ui/dialogs';
import { Badge, Failure, Loading, Missing, Outdated, Time } from '../ui/parts';
import { UsageBars } from '../ui/usage';
import { Keys } from './keys';
import { QuotasForm } from './quotas';
import { Rebuilding, RebuildRows } from './read-store';

type Open = 'rename' | 'quotas' | 'suspend' | 'rebuild' | 'delete';

const EVERY_MS = 2_000;

/** For the owner of the service: a tenant with what it takes of its quotas, its keys, and what can be done with it. */
export function TenantDetail({
  id,
  onChanged,
  onClose,
  onDeleted,
}: {
  readonly id: string;
  readonly onChanged: () => void;
  readonly onClose: () => void;
  /** `isShown`: no other one was chosen meanwhile. */
  readonly onDeleted: (isShown: boolean) => void;
}): JSX.Element {
  const { client, hasReadStore } = useSession();
  const { busy, error, run } = useDeeds();
  const isShown = useShown();
  const [open, setOpen] = useState<Open>();
  const [rebuiltAt, setRebuiltAt] = useState<string>();
  const path = { id };
  const known = useLoad((signal) => client.request('getTenant', { path, signal }), [client, id], EVERY_MS);
  const tenant = known.value;
  const isSuspended = tenant?.suspended === true;
  // Nothing tells what a tenant takes that is not served.
  const usage = useLoad(
    async (signal) => (isSuspended ? undefined : await client.request('getTenantUsage', { path, signal })),
    [client, id, isSuspended],
    EVERY_MS,
  );
  if (tenant === undefined)
    return (
      <Detail onClose={onClose}>
        {isRefused(known.error, 'NOT_FOUND') ? (
          <Missing title={`There is no tenant ${id}`} of={known}>
            <p>It may have been deleted: the audit log tells.</p>
          </Missing>
        ) : known.error === undefined ? (
          <Loading />
        ) : (
          <Outdated of={known} />
        )}
      </Detail>
    );
  const close = (): void => setOpen(undefined);
  const changed = (): void => {
    known.reload();
    onChanged();
  };
  const change = async (body: Operations['changeTenant']['body']): Promise<void> => {
    await client.request('changeTenant', { path, body });
    changed();
  };
  return (
    <Detail onClose={onClose}>
      <h2>
        {tenant.name} {isSuspended && <Badge kind="bad">suspended</Badge>}
      </h2>
      <Outdated of={known} />
      {error !== undefined && <Failure error={error} />}
      <p class="faint">
        <code>{id}</code> · created <Time at={tenant.createdAt} />
        {(tenant.partitions ?? 1) > 1 && ` · ${tenant.partitions} partitions`}
        {tenant.importingSince !== undefined && (
          <>
            {' '}
            · taking in an import since <Time at={tenant.importingSince} />
          </>
        )}{' '}
        · <Link href={`/audit?tenant=${encodeURIComponent(id)}`}>what was changed</Link>
      </p>
      <p class="buttons">
        <button type="button" onClick={() => setOpen('rename')}>
          Rename
        </button>
        <button type="button" onClick={() => setOpen('quotas')}>
          Set quotas
        </button>
        {isSuspended ? (
          <button
            type="button"
            disabled={busy !== undefined}
            onClick={() => run('resume', () => change({ suspended: false }))}
          >
            Resume
          </button>
        ) : (
          <button type="button" onClick={() => setOpen('suspend')}>
            Suspend
          </button>
        )}
        {hasReadStore && (
          <button type="button" onClick={() => setOpen('rebuild')}>
            Rebuild its rows for SQL
          </button>
        )}
        <button type="button" class="danger" onClick={() => setOpen('delete')}>
          Delete
        </button>
      </p>
      {rebuiltAt !== undefined && <Rebuilding since={rebuiltAt} />}
      {isSuspended ? <p>While it is suspended it takes nothing but what it has stored.</p> : <Outdated of={usage} />}
      {usage.value && <UsageBars of={usage.value} own={tenant.quotas} />}
      <Keys tenantId={id} />
      {open === 'rename' && (
        <Dialog title="Rename the tenant" onClose={close}>
          <Rename
            name={tenant.name}
            onCancel={close}
            send={async (name) => {
              await change({ name });
              close();
            }}
          />
        </Dialog>
      )}
      {open === 'quotas' && (
        <Dialog title="Quotas of the tenant" onClose={close}>
          <QuotasForm
            own={tenant.quotas ?? {}}
            inForce={usage.value?.quotas}
            onCancel={close}
            send={async (quotas) => {
              await change({ quotas });
              usage.reload();
              close();
            }}
          />
        </Dialog>
      )}
      {open === 'suspend' && (
        <Confirm
          title={`Suspend ${tenant.name}?`}
          deed="Suspend"
          onClose={close}
          run={() => change({ suspended: true })}
        >
          <p>
            Whoever asks with a key of it is refused, its streams end, and its code rests, until it is resumed. Nothing
            of it is removed.
          </p>
        </Confirm>
      )}
      {open === 'rebuild' && (
        <RebuildRows tenant={tenant} onClose={close} onBegun={() => setRebuiltAt(new Date().toISOString())} />
      )}
      {open === 'delete' && (
        <Confirm
          title={`Delete ${tenant.name}?`}
          deed="Delete"
          typed={id}
          onClose={close}
          run={async () => {
            await client.request('deleteTenant', { path, timeoutMs: LONG_MS });
            onDeleted(isShown());
          }}
        >
          <p>Its events, states, code, keys and endpoints go with it. Nothing brings them back but a backup.</p>
        </Confirm>
      )}
    </Detail>
  );
}

function Rename({
  name,
  send,
  onCancel,
}: {
  readonly name: string;
  readonly send: (name: string) => Promise<void>;
  readonly onCancel: () => void;
}): JSX.Element {
  const [text, setText] = useState(name);
  const { busy, error, run } = useDeeds();
  return (
    <form
      class="fields"
      onSubmit={(event) => {
        event.preventDefault();
        run('rename', () => send(text.trim()));
      }}
    >
      <label>
        <span>Name</span>
        <input autoFocus required value={text} onInput={({ currentTarget: { value } }) => setText(value)} />
      </label>
      {error !== undefined && <Failure error={error} />}
      <FormButtons deed="Rename" isHeld={busy !== undefined} onCancel={onCancel} />
    </form>
  );
}
