import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useDeeds } from '../deed';
import { FormButtons } from '../ui/dialogs';
import { Failure } from '../ui/parts';
import { QUOTA_NAMES, QUOTAS, quotaText, type Quota } from '../ui/usage';

type InForce = Operations['getTenantUsage']['answer']['quotas'];
/** As they stand in a form; one that is empty, or not there, is as the settings of the service have it. */
export type QuotaTexts = Readonly<Partial<Record<Quota, string>>>;

const quotaOf = (texts: QuotaTexts, name: Quota): number | undefined =>
  (texts[name] ?? '') === '' ? undefined : Number(texts[name]);

/** Those that differ from `before`; null: as the settings have it. */
export const changedQuotas = (
  texts: QuotaTexts,
  before: Readonly<Partial<Record<Quota, number>>> = {},
): Readonly<Partial<Record<Quota, number | null>>> =>
  Object.fromEntries(
    QUOTAS.filter((name) => quotaOf(texts, name) !== before[name]).map((name) => [name, quotaOf(texts, name) ?? null]),
  );

const limitOf = (name: Quota, quota: number | null): string =>
  quota === null ? 'without a limit' : quotaText(name, quota);

export function QuotaFields({
  texts,
  onChange,
  usual = {},
}: {
  readonly texts: QuotaTexts;
  readonly onChange: (texts: QuotaTexts) => void;
  /** Those of the settings, as far as they are known. */
  readonly usual?: Readonly<Partial<InForce>>;
}): JSX.Element {
  return (
    <>
      <p>What is left empty is as the settings of the service have it.</p>
      {QUOTAS.map((name) => {
        const limit = usual[name];
        return (
          <label key={name}>
            <span>
              {QUOTA_NAMES[name]}
              {name === 'storageBytes' && ', bytes'}
              {limit !== undefined && `; empty: ${limitOf(name, limit)}`}
            </span>
            <input
              type="number"
              min={0}
              value={texts[name] ?? ''}
              onInput={({ currentTarget: { value } }) => onChange({ ...texts, [name]: value })}
            />
          </label>
        );
      })}
    </>
  );
}

/** Of a tenant that is there. What others change meanwhile stays theirs, unless it is changed here too. */
export function QuotasForm({
  own,
  inForce,
  send,
  onCancel,
}: {
  readonly own: Readonly<Partial<Record<Quota, number>>>;
  /** Undefined while nobody tells. */
  readonly inForce: InForce | undefined;
  readonly send: (quotas: Readonly<Partial<Record<Quota, number | null>>>) => Promise<void>;
  readonly onCancel: () => void;
}): JSX.Element {
  const [given] = useState(own);
  const [texts, setTexts] = useState<QuotaTexts>(() =>
    Object.fromEntries(Object.entries(own).map(([name, value]) => [name, String(value)])),
  );
  const { busy, error, run } = useDeeds();
  const usual = inForce && Object.fromEntries(Object.entries(inForce).filter(([name]) => !(name in given)));
  return (
    <form
      class="fields"
      onSubmit={(event) => {
        event.preventDefault();
        run('save', () => send(changedQuotas(texts, given)));
      }}
    >
      <QuotaFields texts={texts} onChange={setTexts} usual={usual ?? {}} />
      {error !== undefined && <Failure error={error} />}
      <FormButtons deed="Save" isHeld={busy !== undefined} onCancel={onCancel} />
    </form>
  );
}
