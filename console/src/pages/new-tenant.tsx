import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useDeeds } from '../deed';
import { useSession } from '../session';
import { Dialog, ShownOnce } from '../ui/dialogs';
import { Failure } from '../ui/parts';
import { changedQuotas, QuotaFields, type QuotaTexts } from './quotas';

const MOST_PARTITIONS = 256;

interface Made {
  readonly tenant: Operations['createTenant']['answer'];
  /** Why its quotas could not be set; undefined: they are, or none were given. */
  readonly quotasError: unknown;
}

/** Makes a tenant, and shows its first key. */
export function NewTenant({
  onMade,
  onClose,
}: {
  readonly onMade: () => void;
  /** With the id of the one that was made. */
  readonly onClose: (tenantId?: string) => void;
}): JSX.Element {
  const [made, setMade] = useState<Made>();
  if (made === undefined)
    return (
      <Dialog title="New tenant" onClose={() => onClose()}>
        <Form
          onCancel={() => onClose()}
          onMade={(tenant) => {
            setMade(tenant);
            onMade();
          }}
        />
      </Dialog>
    );
  const { tenant, quotasError } = made;
  return (
    <ShownOnce
      title={`The first key of ${tenant.name}`}
      value={tenant.apiKey}
      onClose={() => onClose(tenant.tenantId)}
      notice={
        quotasError !== undefined && (
          <Failure error={quotasError}>
            <p>The tenant was made, but without its quotas: set them on its page.</p>
          </Failure>
        )
      }
    >
      Whoever has this key acts for the tenant <code>{tenant.tenantId}</code>.
    </ShownOnce>
  );
}

function Form({
  onMade,
  onCancel,
}: {
  readonly onMade: (made: Made) => void;
  readonly onCancel: () => void;
}): JSX.Element {
  const { client } = useSession();
  const [name, setName] = useState('');
  const [id, setId] = useState('');
  const [partitions, setPartitions] = useState('1');
  const [quotaTexts, setQuotaTexts] = useState<QuotaTexts>({});
  const { busy, error, run } = useDeeds();
  /** The tenant is there by then, and its key is told by nobody again: what fails is given back. */
  const quotasErrorOf = async (tenantId: string): Promise<unknown> => {
    const quotas = changedQuotas(quotaTexts);
    if (Object.keys(quotas).length === 0) return undefined;
    return client.request('changeTenant', { path: { id: tenantId }, body: { quotas } }).then(
      () => undefined,
      (failed: unknown) => failed,
    );
  };
  const make = (event: Event): void => {
    event.preventDefault();
    run('make', async () => {
      const body = {
        name: name.trim(),
        ...(id.trim() !== '' && { tenantId: id.trim() }),
        ...(Number(partitions) > 1 && { partitions: Number(partitions) }),
      };
      const tenant = await client.request('createTenant', { body });
      onMade({ tenant, quotasError: await quotasErrorOf(tenant.tenantId) });
    });
  };
  return (
    <form class="fields" onSubmit={make}>
      <label>
        <span>Name</span>
        <input autoFocus required value={name} onInput={({ currentTarget: { value } }) => setName(value)} />
      </label>
      <label>
        <span>Id, which its topics are named by; empty: the service chooses one</span>
        <input value={id} onInput={({ currentTarget: { value } }) => setId(value)} />
      </label>
      <label>
        <span>Partitions; more than 1 for more appends than one process writes, and for good</span>
        <input
          type="number"
          min={1}
          max={MOST_PARTITIONS}
          value={partitions}
          onInput={({ currentTarget: { value } }) => setPartitions(value)}
        />
      </label>
      <details>
        <summary>Quotas of its own</summary>
        <div class="fields">
          <QuotaFields texts={quotaTexts} onChange={setQuotaTexts} />
        </div>
      </details>
      {error !== undefined && <Failure error={error} />}
      <div class="buttons">
        <button type="submit" class="primary" disabled={busy !== undefined}>
          Create
        </button>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </form>
  );
}
