import { isRefused, type Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { useDeeds } from '../deed';
import { newId } from '../new-id';
import { useSession } from '../session';
import { useShown } from '../shown';
import { isUnanswered } from '../unanswered';
import { Dialog, FormButtons, ShownOnce } from '../ui/dialogs';
import { Failure } from '../ui/parts';
import { changedQuotas, QuotaFields, type QuotaTexts } from './quotas';

const MOST_PARTITIONS = 256;

interface Made {
  readonly tenant: Operations['createTenant']['answer'];
  /** Why its quotas could not be set; undefined: they are, or none were given. */
  readonly quotasError: unknown;
}

/** A tenant that is there, though nobody answered that it was made. */
interface Unanswered {
  readonly id: string;
  readonly error: unknown;
  readonly hasQuotas: boolean;
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
  const [unanswered, setUnanswered] = useState<Unanswered>();
  if (unanswered !== undefined)
    return (
      <Dialog title="The tenant was made" onClose={() => onClose(unanswered.id)}>
        <Failure error={unanswered.error}>
          <p>
            The answer was lost, but the service has the tenant <code>{unanswered.id}</code>. Its first key was in that
            answer, and is to be read nowhere: make another one on its page
            {unanswered.hasQuotas && ', and set its quotas there'}.
          </p>
        </Failure>
        <div class="buttons">
          <button type="button" class="primary" autoFocus onClick={() => onClose(unanswered.id)}>
            Go to the tenant
          </button>
        </div>
      </Dialog>
    );
  if (made === undefined)
    return (
      <Dialog title="New tenant" onClose={() => onClose()}>
        <Form
          onCancel={() => onClose()}
          onMade={(tenant) => {
            setMade(tenant);
            onMade();
          }}
          onUnanswered={(found) => {
            setUnanswered(found);
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
  onUnanswered,
  onCancel,
}: {
  readonly onMade: (made: Made) => void;
  /** Undefined: it was not found, or not looked for, by now. */
  readonly onUnanswered: (found: Unanswered | undefined) => void;
  readonly onCancel: () => void;
}): JSX.Element {
  const { client } = useSession();
  const [name, setName] = useState('');
  const [id, setId] = useState('');
  const [partitions, setPartitions] = useState('1');
  const [quotaTexts, setQuotaTexts] = useState<QuotaTexts>({});
  const { busy, error, run } = useDeeds();
  const isShown = useShown();
  /** Of this form's tenant, unless a person writes one: asked again after an answer that was lost, it is the same tenant. */
  const chosenId = useRef(newId());
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
    run('New tenant', async () => {
      const tenantId = id.trim() === '' ? chosenId.current : id.trim();
      const body = {
        name: name.trim(),
        tenantId,
        ...(Number(partitions) > 1 && { partitions: Number(partitions) }),
      };
      let tenant: Made['tenant'];
      try {
        tenant = await client.request('createTenant', { body });
      } catch (error) {
        const isOurs = tenantId === chosenId.current;
        if (!isUnanswered(error) && !(isOurs && isRefused(error, 'ALREADY_EXISTS'))) throw error;
        // Asked once more, an id that a person chose may be somebody else's tenant.
        const isThere = await client.request('getTenant', { path: { id: tenantId } }).then(
          ({ name: known }) => isOurs || known === body.name,
          () => false,
        );
        if (!isThere) {
          onUnanswered(undefined);
          throw error;
        }
        onUnanswered({ id: tenantId, error, hasQuotas: Object.keys(changedQuotas(quotaTexts)).length > 0 });
        return undefined;
      }
      onMade({ tenant, quotasError: await quotasErrorOf(tenant.tenantId) });
      return isShown()
        ? undefined
        : `The tenant ${tenant.tenantId} was made after its page was left, so its first key was not shown: make another one there.`;
    });
  };
  return (
    <form class="fields" onSubmit={make}>
      <label>
        <span>Name</span>
        <input autoFocus required value={name} onInput={({ currentTarget: { value } }) => setName(value)} />
      </label>
      <label>
        <span>Id, which its topics are named by; empty: one is chosen</span>
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
      {error !== undefined && (
        <Failure error={error}>
          {isUnanswered(error) && (
            <p>
              Whether the tenant was made is not known yet. Create asks for the same one again, and makes no second.
            </p>
          )}
        </Failure>
      )}
      <FormButtons deed="Create" isHeld={busy !== undefined} onCancel={onCancel} />
    </form>
  );
}
